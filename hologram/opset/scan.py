"""Running sums and products along an axis, and differences, which undo sums."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from hologram.foundation import dtypes
from hologram.foundation.dtypes import COMPLEX, COMPUTED, NUMBERS, DType
from hologram.foundation.errors import ShapeError
from hologram.foundation.frozen import frozen
from hologram.foundation.sizes import fixed_range
from hologram.machine.axes import count, normalize_axis
from hologram.machine.layout import Layout
from hologram.machine.plan import Plan, Target
from hologram.opset import logic, movement
from hologram.opset import math as arithmetic
from hologram.opset.complex_numbers import conjugated
from hologram.opset.complex_running import running_plan
from hologram.opset.factors import of_running_product
from hologram.opset.forms import types
from hologram.opset.forms.accumulator import accumulated
from hologram.opset.forms.composite import Composite, composite
from hologram.opset.forms.default import Default
from hologram.opset.forms.numpys import theirs
from hologram.opset.forms.operation import (
    ARRAYS,
    Attributes,
    Input,
    Inputs,
    Layouts,
    Operation,
    Sample,
    declared,
)
from hologram.opset.forms.places import Arguments, together
from hologram.opset.forms.samples import array, cases
from hologram.opset.forms.steps import Place, Steps
from hologram.opset.reduce import prod, sum_
from hologram.opset.tiles.scan import along, scan_steps


@frozen(eq=False, repr=False)
class Running(Operation):
    """Running sums or products along an axis."""

    products: bool = False

    def bind(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        operands, attributes = super().bind(args, kwargs)
        if attributes["axis"] is not None:
            return operands, attributes
        (x,) = operands
        x = Default.executor(None).tensor(x) if isinstance(x, ARRAYS) else x
        flat = x.reshape(-1) if getattr(x, "ndim", 1) > 1 and hasattr(x, "reshape") else x
        return (flat,), {**attributes, "axis": -1}  # a buffer, and what has one axis at most, as it is

    def _typed(self, x: Input | None, attributes: Attributes) -> tuple[Layout, DType]:
        if not isinstance(x, Layout):
            raise ShapeError(f"{self.name}: a tensor is needed, got {x}")
        if x.ndim or attributes["axis"] not in (0, -1):
            normalize_axis(attributes["axis"], x.ndim, self.name)
        wanted = attributes["dtype"]
        return x, types.total(self.name, (x.dtype,))[1] if wanted is None else dtypes.dtype(wanted)

    def infer(self, inputs: Inputs, attributes: Attributes) -> tuple[Layout, ...]:
        x, dtype = self._typed(inputs[0], attributes)
        return (Layout.contiguous(dtype, x.shape),)

    def plan(self, inputs: Inputs, outputs: Layouts, attributes: Attributes, target: Target) -> Plan:
        self.check_outputs(self.infer(inputs, attributes), outputs)
        x, dtype = self._typed(inputs[0], attributes)
        if not x.size:
            return Plan(())
        steps = Steps(2)
        if dtype.is_complex:
            self._of_parts(steps, x, outputs[0], attributes["axis"], target)
            return steps.plan()
        x, out = along((x, outputs[0]), attributes["axis"], self.name)
        scan_steps(steps, Place(0, x), Place(1, out), dtype.computed, target, self.products)
        return steps.plan()

    def _of_parts(self, steps: Steps, x: Layout, out: Layout, axis: int, target: Target) -> None:
        """Of complex numbers: sums of the parts each for itself; products in rounds."""
        place = Place(0, x) if x.dtype is out.dtype else steps.converted(Place(0, x), out.dtype)
        if self.products or not x.ndim:
            rows, last = along((place.layout, out), axis, self.name)
            plan = running_plan(rows, last, out.dtype, target)
            steps.extend(plan, (place.position, 1))
            return
        k = normalize_axis(axis, x.ndim, self.name)
        views = along((place.layout.parts(), out.parts()), k, self.name)
        scan_steps(steps, Place(place.position, views[0]), Place(1, views[1]), out.dtype.part, target, False)


def axis_samples(rng: np.random.Generator, dtype: DType) -> Iterable[tuple[np.ndarray, int]]:
    """Arrays with every kind of axis; few elements for exact sums in f16."""
    for shape, axis in (
        ((7,), 0),
        ((1,), -1),
        ((), -1),
        ((0, 3), 0),
        ((3, 0), 0),
        ((5, 300), 1),
        ((300, 5), 0),
        ((2, 67, 3), -2),
    ):
        yield array(rng, dtype, shape, -3, 3), axis


def _cumsum_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for x, axis in axis_samples(rng, dtype):
        yield Sample((x,), {"axis": axis})
    yield Sample((array(rng, dtype, (9_001,), -3, 3),), {"axis": 0})


def _cumsum_reference(x, axis, dtype=None):
    kind = np.asarray(x).dtype.kind
    wide = {"f": np.float64, "c": np.complex128, "u": np.uint64}.get(kind, np.int64)
    return np.cumsum(x, axis=axis, dtype=wide) if np.ndim(x) else np.asarray(x).astype(wide)


def _from_the_end(cotangent, axis):
    if not cotangent.ndim:
        return cotangent
    turned = cumsum(cotangent.slice(axis, None, None, -1), axis=axis)
    return turned.slice(axis, None, None, -1)


@declared(Running, reference=_cumsum_reference, samples=_cumsum_samples, dtypes=COMPUTED + COMPLEX, ulp=4,
          absolute=1024.0, beyond=64.0, aten=("cumsum",), gradient={"x": _from_the_end})  # fmt: skip
def cumsum(x, *, axis=None, dtype=None):
    """Running sums along an axis, or of the flat tensor if none is named.

    Those of integers and bools are of 64 bits unless `dtype` says otherwise.
    """


def _cumprod_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    factors = [1] if dtype.kind == "bool" else [-2, -1, 1, 2] if dtype.is_signed else [1, 2, 3]
    for x, axis in axis_samples(rng, dtype):  # of a few factors, so that products are exact
        few = np.where(rng.random(x.shape) < 0.1, rng.choice(factors, x.shape), 1)
        yield Sample((few.astype(dtype.numpy),), {"axis": axis})
    signs = rng.choice([-1, 1] if dtype.is_signed else [1], 9_001)
    yield Sample((signs.astype(dtype.numpy),), {"axis": 0})


def _cumprod_reference(x, axis, dtype=None):
    kind = np.asarray(x).dtype.kind
    wide = {"f": np.float64, "c": np.complex128, "u": np.uint64}.get(kind, np.int64)
    return np.cumprod(x, axis=axis, dtype=wide) if np.ndim(x) else np.asarray(x).astype(wide)


def to_the_end(x: Any, axis: int) -> Any:
    """For each element the sum of all from it to the end."""
    return cumsum(x.slice(axis, None, None, -1), axis=axis).slice(axis, None, None, -1)


@accumulated
def _cumprod_gradient(cotangent, result, x, axis):
    """The products behind an element are divided by it; those behind the first 0 of a row are made without it."""
    if not x.ndim:
        return cotangent
    if x.executor.differentiated or x.dtype.is_complex:
        x = conjugated(x)
        rows = x.astype(result.dtype, copy=False).swapaxes(axis, -1)
        return of_running_product(cotangent.swapaxes(axis, -1), rows).swapaxes(axis, -1)
    zero = logic.equal(x, 0)
    zeros = cumsum(zero, axis=axis)
    first = logic.logical_and(zero, logic.equal(zeros, 1))
    without = cumprod(logic.where(first, 1.0, x), axis=axis, dtype=result.dtype)
    ahead = to_the_end(cotangent * result, axis) / logic.where(zero, 1.0, x)
    at_first = to_the_end(logic.where(logic.equal(zeros, 0), 0.0, cotangent * without), axis)
    return logic.where(logic.equal(zeros, 0), ahead, logic.where(first, at_first, 0.0))


@declared(Running, reference=_cumprod_reference, samples=_cumprod_samples, dtypes=COMPUTED + COMPLEX, ulp=4,
          each=0.5, absolute=1024.0, aten=("cumprod",), products=True, gradient={"x": _cumprod_gradient})  # fmt: skip
def cumprod(x, *, axis=None, dtype=None):
    """Running products along an axis, or of the flat tensor if none is named.

    Those of integers and bools are of 64 bits unless `dtype` says otherwise.
    """


_RUNS = cases(((9,), {}), ((9,), {"axis": 0, "include_initial": True}), ((3, 70), {"axis": -1}),
               ((3, 2), {"axis": 1, "include_initial": True}))  # fmt: skip


def _run(running: Any, empty: Any, x: Any, axis: int | None, dtype: Any, include_initial: bool) -> Any:
    """Running folds, after the fold of nothing where it is asked for."""
    if axis is None and x.ndim != 1:
        raise ShapeError(f"{running.name}: an axis is needed for a tensor of shape {x.shape}")
    k = normalize_axis(-1 if axis is None else axis, x.ndim, running.name)
    folds = running(x, axis=k, dtype=dtype)
    if not include_initial:
        return folds
    return movement.concat([empty(x.slice(k, 0, 0), axis=k, keepdims=True, dtype=folds.dtype), folds], axis=k)


@composite(dtypes=COMPUTED + COMPLEX, ulp=4, absolute=1024.0, beyond=64.0, samples=_RUNS,
           reference=lambda x, axis=-1, dtype=None, include_initial=False:
           np.cumulative_sum(x, axis=axis, dtype=dtype, include_initial=include_initial))  # fmt: skip
def cumulative_sum(x, *, axis=None, dtype=None, include_initial=False):
    """Running sums along an axis, from 0 on if the initial one is included; see cumsum."""
    return _run(cumsum, sum_, x, axis, dtype, include_initial)


@composite(dtypes=COMPUTED + COMPLEX, ulp=8, each=0.5, absolute=64.0,
           samples=cases(((6,), {"include_initial": True}), ((3, 7), {"axis": 0})),
           reference=lambda x, axis=-1, dtype=None, include_initial=False:
           np.cumulative_prod(x, axis=axis, dtype=dtype, include_initial=include_initial))  # fmt: skip
def cumulative_prod(x, *, axis=None, dtype=None, include_initial=False):
    """Running products along an axis, from 1 on if the initial one is included; see cumprod."""
    return _run(cumprod, prod, x, axis, dtype, include_initial)


def _diff_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for shape, attributes in (((9,), {}), ((4, 5), {"axis": 0, "n": 2}), ((4, 1), {"n": 1})):
        yield Sample((array(rng, dtype, shape), None, None), attributes)
    ends = array(rng, dtype, (4, 2)), array(rng, dtype, (4, 1))
    yield Sample((array(rng, dtype, (4, 5)), *ends), {"n": 2})


def _diff_reference(x, prepend=None, append=None, axis=-1, n=1):
    return np.diff(np.concatenate([t for t in (prepend, x, append) if t is not None], axis), n, axis)


@frozen(eq=False, repr=False)
class Diff(Composite):
    """Called as NumPy's too: `hg.diff(x, 2)` is of the second order."""

    def by_name(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Arguments:
        if len(args) > 1 and isinstance(args[1], (int, np.integer)):
            order = tuple(theirs("diff") or ())[1:]
            args, kwargs = args[:1], together("diff", order, args[1:], kwargs)
        return super().by_name(args, kwargs)

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Arguments:
        return super().bind(*self.by_name(args, kwargs))


@composite(
    Diff,
    dtypes=NUMBERS + COMPLEX,
    aten=("diff",),
    reference=_diff_reference,
    ulp=0.5,
    absolute=1.0,
    samples=_diff_samples,
)
def diff(x, prepend=None, append=None, *, axis=-1, n=1):
    """Each element less the one before it along an axis, `n` times over, once what to prepend and append is joined."""
    k = normalize_axis(axis, x.ndim, "diff")
    if count(n, "diff: n") == 0:  # as NumPy, whatever is to be joined
        return x
    if prepend is not None or append is not None:
        edge = tuple(1 if a == k else size for a, size in enumerate(x.shape))
        joined = [t if t is None or t.ndim else t.expand(edge) for t in (prepend, x, append)]
        x = movement.concat([t for t in joined if t is not None], axis=k)
    for _ in fixed_range(min(count(n, "diff: n"), x.shape[k])):
        x = arithmetic.subtract(x.slice(k, 1), x.slice(k, None, -1))
    return x
