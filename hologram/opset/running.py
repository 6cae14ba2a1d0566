"""Running extremes with their positions, and running sums of exponentials: a lane goes along each row."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from hologram import dtypes
from hologram.atlas import builder as atlas
from hologram.atlas.builder import Builder, Value, select
from hologram.atlas.program import Access, Program
from hologram.dtypes import FLOATS, NUMBERS, DType, i64
from hologram.errors import ShapeError, UnsupportedDType
from hologram.layout import Layout, normalize_axis
from hologram.opset import math as arithmetic
from hologram.opset.forms import types
from hologram.opset.forms.address import Address, Operand
from hologram.opset.forms.expression import numbers_of, output_names, step_of
from hologram.opset.forms.operation import Attributes, Inputs, Layouts, Operation, Sample, register
from hologram.opset.indexing import scatter_add
from hologram.opset.scan import axis_samples, to_the_end
from hologram.opset.tiles.scan import along
from hologram.plan import Plan, Target

Turn = Callable[
    [Value, Value, Value], tuple[Value, Value]
]  # of the value and position so far, and of an element


@dataclass(frozen=True, eq=False)
class RunningFold(Operation):
    """What is carried along an axis: a value of the operand's dtype, and the position that it stems from."""

    turn: Turn = field(default=lambda kept, position, element: (element, position))
    positions: bool = False
    floats: bool = False  # whether it takes floats alone

    @property
    def results(self) -> int:
        return 1 + self.positions

    def infer(self, inputs: Inputs, attributes: Attributes) -> tuple[Layout, ...]:
        (x,) = inputs
        if not isinstance(x, Layout):
            raise ShapeError(f"{self.name}: a tensor is needed, got {x}")
        if self.floats and not x.dtype.is_float:
            raise UnsupportedDType(f"{self.name}: dtype must be float, got {x.dtype}")
        if x.ndim or attributes["axis"] not in (0, -1):
            normalize_axis(attributes["axis"], x.ndim, self.name)
        return tuple(Layout.contiguous(d, x.shape) for d in (x.dtype, i64)[: 1 + self.positions])

    def plan(self, inputs: Inputs, outputs: Layouts, attributes: Attributes, target: Target) -> Plan:
        self.check_outputs(self.infer(inputs, attributes), outputs)
        (x,) = inputs
        assert isinstance(x, Layout)
        if not x.size:
            return Plan(())
        layouts = along((x, *outputs), attributes["axis"], self.name)
        program = _program(self, tuple(map(Address.of, layouts)))
        *outer, n = layouts[0].shape
        numbers = numbers_of(("x", *output_names(len(outputs))), layouts, {"n": n})
        return Plan((step_of(program, range(len(layouts)), numbers, outer),))


@lru_cache(maxsize=1024)
def _program(operation: RunningFold, addresses: tuple[Address, ...]) -> Program:
    rank = len(addresses[0].steps) - 1
    b = Builder(f"atlas_{operation.name}_{addresses[0].dtype}", rank=rank)
    computed = types.computing(addresses[0].dtype)
    x = Operand(b, "x", addresses[0], Access.READ, computed)
    outs = [
        Operand(b, name, address, Access.WRITE, computed)
        for name, address in zip(output_names(len(addresses) - 1), addresses[1:], strict=True)
    ]
    n = b.scalar("n", dtypes.index)
    at = [b.coordinate(axis) for axis in range(rank)]

    def keep(k: Value, *carried: Value) -> None:
        for out, value in zip(outs, carried, strict=False):
            out.put(value, *at, k)

    def one(k: Value, kept: Value, position: Value) -> tuple[Value, Value]:
        element = x.at(*at, k)
        value, other = operation.turn(kept, position, element)
        moved = select(other == position, position, k) if operation.positions else position
        keep(k, value, moved)
        return value, moved

    first, none = x.at(*at, b.constant(0, dtypes.index)), b.constant(0, dtypes.index)
    keep(none, first, none)
    b.loop(1, n, one, first=(first, none))
    return b.build()


def _larger(kept: Value, position: Value, element: Value) -> tuple[Value, Value]:
    return _chosen(element >= kept, kept, position, element)


def _smaller(kept: Value, position: Value, element: Value) -> tuple[Value, Value]:
    return _chosen(element <= kept, kept, position, element)


def _chosen(better: Value, kept: Value, position: Value, element: Value) -> tuple[Value, Value]:
    """A NaN is better than all numbers, and the last one than those before."""
    if element.dtype.is_float:
        better = (element != element) | (better & (kept == kept))
    return select(better, element, kept), select(better, position + 1, position)


def _log_add(kept: Value, position: Value, element: Value) -> tuple[Value, Value]:
    high, low = atlas.maximum(kept, element), atlas.minimum(kept, element)
    apart = select(high == low, 0.0, low - high)  # so that equal infinities are 0 apart
    return select(high == math.inf, high, high + atlas.log1p(atlas.exp(apart))), position


def _samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for x, axis in axis_samples(rng, dtype):
        if dtype.is_float and x.ndim == 2 and x.size:
            x[0, -1] = np.nan
        yield Sample((x,), {"axis": axis})


def _plain_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for x, axis in axis_samples(rng, dtype):
        yield Sample((x,), {"axis": axis})


def _extremes(better: Any) -> Callable[..., Any]:
    def reference(x: Any, axis: int) -> Any:
        if not np.ndim(x) or not np.size(x):
            return x, np.zeros(np.shape(x), np.int64)
        rows = np.moveaxis(x, axis, -1)
        values, positions = np.array(rows), np.zeros(rows.shape, np.int64)
        for k in range(1, rows.shape[-1]):
            old, new = values[..., k - 1], rows[..., k]
            chosen = (new != new) | (better(new, old) & (old == old))
            values[..., k] = np.where(chosen, new, old)
            positions[..., k] = np.where(chosen, k, positions[..., k - 1])
        return np.moveaxis(values, -1, axis), np.moveaxis(positions, -1, axis)

    return reference


def _returned(cotangent: Any, results: Any, inputs: Any, axis: int) -> Any:
    if not cotangent.ndim:
        return cotangent
    zero = cotangent.executor.full((), 0, cotangent.dtype)
    return scatter_add(zero.expand(inputs[0].shape), results[1], cotangent, dim=axis)


def _log_shares(cotangent: Any, result: Any, x: Any, axis: int) -> Any:
    """An element's share in every sum from it on, exp(x - sum), taken apart at the row's last sum."""
    if not x.ndim:
        return cotangent
    last = result.narrow(axis, result.shape[axis] - 1, 1) if result.size else result
    return arithmetic.exp(x - last) * to_the_end(cotangent * arithmetic.exp(last - result), axis)


def _cummax(x, *, axis=-1):
    """The largest element so far along an axis, and the last position (i64) where it stood; NaN is larger than all."""


def _cummin(x, *, axis=-1):
    """The smallest element so far along an axis, and the last position (i64) where it stood; NaN is below all."""


def _logcumsumexp(x, *, axis=-1):
    """The logarithm of the running sum of exponentials along an axis, without overflow."""


cummax = register(
    RunningFold(
        name="cummax", function=_cummax, reference=_extremes(np.greater_equal), samples=_samples, dtypes=NUMBERS,
        turn=_larger, positions=True, gradient={"x": _returned},
    )
)  # fmt: skip
cummin = register(
    RunningFold(
        name="cummin", function=_cummin, reference=_extremes(np.less_equal), samples=_samples, dtypes=NUMBERS,
        turn=_smaller, positions=True, gradient={"x": _returned},
    )
)  # fmt: skip
logcumsumexp = register(
    RunningFold(
        name="logcumsumexp", function=_logcumsumexp, samples=_plain_samples, dtypes=FLOATS, turn=_log_add, floats=True,
        reference=lambda x, axis: np.logaddexp.accumulate(x, axis=axis) if np.ndim(x) else x, ulp=16, absolute=4.0,
        gradient={"x": _log_shares},
    )
)  # fmt: skip
