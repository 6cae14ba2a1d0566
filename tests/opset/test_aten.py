"""The names of ATen's operators are true: they take and give what the declarations do, and mean the same."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.opset import OPERATIONS
from hologram.opset.forms import types
from hologram.opset.forms.operation import ATEN_WORDS, Operation, Sample
from tests.accuracy import check, widened
from tests.test_ops import results_of

torch = pytest.importorskip("torch")

ENTRIES = [pytest.param(o, name, id=f"{o.name}-{name}") for o in OPERATIONS.values() for name in o.aten]
LOSSES = ("none", "mean", "sum")  # by ATen's number
REFUSALS = (RuntimeError, IndexError, TypeError, ZeroDivisionError, NotImplementedError)  # ATen's
KINDS = ("Tensor", "number", "List[Tensor]", "Optional[Tensor]", "Optional[number]")  # of operands
OVERFLOWING = ("cosh", "fmod", "remainder", "sinh")  # before their result does, in ATen's vectorised forms


class Inexpressible(Exception):
    """What ATen's operator has no argument for."""


def operator(name: str) -> Any:
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")


def named(operation: Operation, schema: Any) -> dict[str, Any]:
    """The operator's arguments that attributes go by, and those attributes."""
    names = {a.name for a in schema.arguments}
    words = {n: [w for w in (n, *ATEN_WORDS.get(n, ())) if w in names][:1] for n in operation.attributes}
    return {found[0]: n for n, found in words.items() if found}


def held(value: Any, argument: Any) -> Any:
    """An attribute's value as ATen writes it."""
    kind = str(argument.type)
    if argument.name == "reduction":
        return LOSSES.index(value)
    if argument.name == "dtype":
        return None if value is None else getattr(torch, hg.dtypes.dtype(value).numpy.name)
    if "List[int]" in kind and isinstance(value, (int, np.integer)):
        return [value]
    return value


def tensor(operand: Any) -> Any:
    """Arrays as tensors; all integers are i64, as positions must be."""
    if isinstance(operand, tuple):
        return [tensor(o) for o in operand]
    if isinstance(operand, np.ndarray):
        return torch.from_numpy(operand.astype(np.int64) if operand.dtype.kind in "iu" else operand.copy())
    return operand


def call(operation: Operation, name: str, sample: Sample) -> Any:
    """ATen's result for a sample."""
    found = operator(name)
    operands, attributes = operation.bind(sample.operands, sample.attributes)
    operands = operands if len(operands) == len(operation.operands) else sample.operands
    by_name, waiting = named(operation, found._schema), list(operands)
    for attribute in attributes.keys() - by_name.values():
        if attributes[attribute] != operation.attributes[attribute]:
            raise Inexpressible(attribute)
    positional, keywords = [], {}
    for argument in found._schema.arguments:
        if argument.name in by_name:
            value = held(attributes[by_name[argument.name]], argument)
        elif waiting and str(argument.type) in KINDS:
            value = tensor(waiting.pop(0))
        else:
            value = argument.default_value if argument.has_default_value() else no_default(argument)
        if value is None and "Optional" not in str(argument.type):
            if not argument.has_default_value():
                raise Inexpressible(argument.name)
            value = argument.default_value
        if argument.kwarg_only:
            keywords[argument.name] = value
        else:
            positional.append(value)
    if any(x is not None for x in waiting):
        raise Inexpressible("more operands")
    return found(*positional, **keywords)


def no_default(argument: Any) -> Any:
    kind = str(argument.type)
    assert kind == "bool" or kind.startswith("Optional"), f"{argument.name}: {kind} has no default"
    return False if kind == "bool" else None


@pytest.mark.parametrize(("operation", "name"), ENTRIES)
def test_schemas_agree(operation: Operation, name: str) -> None:
    schema = operator(name)._schema
    assert [str(r.type) for r in schema.returns] == ["Tensor"] * operation.results
    by_name = named(operation, schema)
    free = [a for a in schema.arguments if a.name not in by_name]
    taken = [a for a in free if str(a.type) in KINDS][: len(operation.operands)]
    beyond = operation.operands[len(taken) :]
    assert set(beyond) <= set(operation.optional), f"{name} has no place for {beyond}"
    for own, argument in zip(operation.operands, taken, strict=False):
        optional = str(argument.type).startswith("Optional")
        assert optional == (own in operation.optional), f"{own} cannot be {argument.name}"
    for argument in free:
        if argument not in taken and not argument.has_default_value():
            no_default(argument)
    for argument in schema.arguments:
        own = by_name.get(argument.name)
        known = inspect.Parameter.empty if own is None else operation.attributes[own]
        if argument.has_default_value() and known is not inspect.Parameter.empty:
            agree = plain(argument.default_value) == plain(held(known, argument))
            assert agree != (own in operation.aten_defaults), f"{argument}, but {own} is {known}"


def plain(value: Any) -> Any:
    """A default without the ways of writing it: None as [], 0 as [0, 0]."""
    if value is None or value == []:
        return None
    return plain(value[0]) if isinstance(value, list) and len(set(value)) == 1 else value


@pytest.mark.parametrize(("operation", "name"), ENTRIES)
def test_results_agree(operation: Operation, name: str) -> None:
    compared = 0
    for dtype in (hg.f32, hg.i64, hg.bool_):
        if dtype in operation.dtypes:
            for sample in operation.samples(np.random.default_rng(0), dtype):
                compared += agrees(operation, name, sample)
    assert compared, f"{name} takes none of the samples"


def agrees(operation: Operation, name: str, sample: Sample) -> bool:
    """Whether ATen takes a sample; fails if it then does not mean the same."""
    try:
        got = results_of(call(operation, name, sample))
    except (*REFUSALS, Inexpressible):
        return False
    integers = getattr(operation, "types", None) is types.floating
    operands = (widened(o, integers) for o in sample.operands)
    with np.errstate(all="ignore"):
        wanted = results_of(operation.reference(*operands, **sample.attributes))
    for result, want in zip(got, wanted, strict=True):
        found = result.numpy()
        dtype = hg.dtypes.dtype(found.dtype)
        if operation.name in ("argsort", "topk") and result is got[-1] and found.ndim:
            # The order of equals is ATen's own affair: what stands there must be the same.
            axis = sample.attributes.get("axis", -1)
            found, want = (np.take_along_axis(sample.operands[0], p, axis) for p in (found, want))
            np.testing.assert_array_equal(found, want)
        elif operation.name in OVERFLOWING and dtype.is_float:
            kept = np.isfinite(found)
            check(found[kept], np.asarray(want)[kept], dtype, operation.ulp + 8, 4, ())
        else:
            check(found, want, dtype, operation.ulp + 8, operation.absolute + 4, sample.operands)
    return True


@pytest.mark.parametrize("name", ["var", "std"])
def test_stated_defaults_are_atens(name: str) -> None:
    assert {o.name for o in OPERATIONS.values() if o.aten_defaults} == {"var", "std", "logaddexp"}
    operation, x = OPERATIONS[name], np.random.default_rng(0).normal(size=(5, 7))
    want = operation.reference(x, **operation.aten_defaults)
    np.testing.assert_allclose(operator(operation.aten[0])(torch.from_numpy(x)).numpy(), want)
