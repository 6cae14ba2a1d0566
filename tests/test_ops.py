"""The one test of operations: every operation x dtype x sample x backend, in every form it can be called in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.foundation.dtypes import ALL, DType
from hologram.opset import OPERATIONS
from hologram.opset.forms import types
from hologram.opset.forms.operation import Operation, Sample
from tests.accuracy import SMALLEST_NORMAL, check, flushed, widened

pytestmark = pytest.mark.sampled(2)

CASES = [pytest.param(op, d, id=f"{op.name}-{d.name}") for op in OPERATIONS.values() for d in op.dtypes]
STRIDED = ("f32", "i32", "u8", "f16", "bool", "c64")


def upload(executor: hg.Executor, operand: Any) -> Any:
    if isinstance(operand, tuple):
        return tuple(upload(executor, o) for o in operand)
    return executor.tensor(operand) if isinstance(operand, np.ndarray) else operand


def upload_strided(executor: hg.Executor, operand: Any) -> Any:
    """The operand as a view with gaps, an offset and a negative stride."""
    if isinstance(operand, tuple):
        return tuple(upload_strided(executor, o) for o in operand)
    if not isinstance(operand, np.ndarray) or not operand.ndim:
        return upload(executor, operand)
    shape = (*(n + 1 for n in operand.shape[:-1]), 2 * operand.shape[-1] + 3)
    wide = np.zeros(shape, operand.dtype)
    inner = (*(slice(1, None) for _ in operand.shape[:-1]), slice(operand.shape[-1] * 2, 0, -2))
    wide[inner] = operand
    view = executor.tensor(wide)[inner]
    assert view.shape == operand.shape
    return view


def call(operation: Operation, executor: hg.Executor, operands: tuple[Any, ...], sample: Sample) -> hg.Tensor:
    """The operation on tensors; one without operands is told the executor."""
    return operation(*(operands if operation.operands else (executor,)), **sample.attributes)


def poisoned(executor: hg.Executor, like: hg.Tensor) -> hg.Buffer:
    """A buffer whose every byte is wrong."""
    out = executor.allocate(like.shape, like.dtype)
    out.from_bytes(b"\x5a" * out.nbytes if like.dtype.name != "bool" else b"\x01" * out.nbytes)
    return out


def results_of(found: Any) -> tuple[Any, ...]:
    """One result or several, as a tuple."""
    return found if isinstance(found, tuple) else (found,)


@pytest.mark.parametrize(("operation", "dtype"), CASES)
def test_operation(operation: Operation, dtype: DType, executor: hg.Executor) -> None:
    if dtype not in executor.limits.dtypes:
        with pytest.raises(hg.UnsupportedDType):
            executor.allocate(4, dtype)
        return
    ulp = operation.ulp_on(executor.limits)
    integers = getattr(operation, "types", None) is types.floating
    given = (lambda o: widened(o, integers)) if operation.widened else (lambda o: o)
    least = 0.0 if executor.limits.keeps("denormals") else SMALLEST_NORMAL
    seed, is_complex = sum(map(ord, operation.name)), dtype.is_complex
    for sample in operation.samples(np.random.default_rng(seed), dtype):
        if least:
            sample = replace(sample, operands=flushed(sample.operands))
        tensors = upload(executor, sample.operands)
        lacking = {x for d in ALL if d not in executor.limits.dtypes for x in (d, d.name)}
        if any(isinstance(v, (str, DType)) and v in lacking for v in sample.attributes.values()):
            with pytest.raises(hg.UnsupportedDType):
                call(operation, executor, tensors, sample)
            continue
        got = results_of(call(operation, executor, tensors, sample))
        with np.errstate(all="ignore"):
            reference = results_of(operation.reference(*map(given, sample.operands), **sample.attributes))
        kinds = [g.dtype for g in got]

        def holds(
            results: Any, sample: Sample = sample, kinds: list[DType] = kinds, wanted: Any = reference
        ) -> None:
            for result, want, dtype in zip(results_of(results), wanted, kinds, strict=True):
                bound = max(ulp, operation.parts_ulp) if is_complex else ulp
                check(result.to_numpy(), want, dtype, bound, operation.absolute, sample.operands, least)

        holds(got)
        outs = [poisoned(executor, g) for g in got]
        getattr(hg.ops, operation.name)(executor, *tensors, *outs, **sample.attributes)
        holds(tuple(outs))
        if dtype.name in STRIDED:
            holds(call(operation, executor, upload_strided(executor, sample.operands), sample))
