"""Running extremes with their positions, and running sums of exponentials: scans, as running sums are."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from functools import lru_cache
from typing import Any

import numpy as np

from hologram.atlas import functions as atlas
from hologram.atlas.builder import Builder, Value
from hologram.atlas.functions import select
from hologram.atlas.program import Access, Program
from hologram.foundation import dtypes
from hologram.foundation.dtypes import INEXACT, NUMBERS, DType, i64
from hologram.foundation.errors import ShapeError, UnsupportedDType
from hologram.foundation.frozen import frozen
from hologram.machine.axes import normalize_axis
from hologram.machine.layout import Layout
from hologram.machine.plan import Plan, Target
from hologram.opset import functions, logic
from hologram.opset import math as arithmetic
from hologram.opset.complex_numbers import conjugated
from hologram.opset.factors import beside
from hologram.opset.forms.accumulator import accumulated
from hologram.opset.forms.address import Address, Operand
from hologram.opset.forms.expression import numbers_of, step_of
from hologram.opset.forms.operation import Attributes, Inputs, Layouts, Operation, Sample, declared
from hologram.opset.forms.steps import Place, Steps
from hologram.opset.indexing import scatter_add
from hologram.opset.scan import axis_samples
from hologram.opset.tiles.scan import BLOCK, along, blocks_of, chunk_length

# What a value and its position become by an element and its position; it must be associative.
Turn = Callable[[Value, Value, Value, Value], tuple[Value, Value]]

MANY = 1024  # elements are folded in blocks, where each turn would lose a digit; fewer one by one, which is faster


@frozen(eq=False, repr=False)
class RunningFold(Operation):
    """What is carried along an axis: a value of the operand's dtype, and the position that it stems from."""

    turn: Turn = field(default=lambda kept, position, element, place: (element, place))
    positions: bool = False
    floats: bool = False  # whether it takes floats alone
    blocks: bool = False  # whether many elements are folded in blocks

    @property
    def results(self) -> int:
        return 1 + self.positions

    def infer(self, inputs: Inputs, attributes: Attributes) -> tuple[Layout, ...]:
        (x,) = inputs
        if not isinstance(x, Layout):
            raise ShapeError(f"{self.name}: a tensor is needed, got {x}")
        if self.floats and not x.dtype.is_inexact:
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
        places = [Place(k, layout) for k, layout in enumerate(layouts)]
        steps = Steps(len(places))
        _append(steps, self, places[:1], places[1:], x.dtype.computed, target)
        return steps.plan()


def _append(
    steps: Steps,
    operation: RunningFold,
    sources: Sequence[Place],
    outs: Sequence[Place],
    computed: DType,
    target: Target,
    *,
    of_folds: bool = False,
) -> None:
    """Appends the steps of a scan along the last axis; see tiles/scan.py. Sources are values, and their positions.

    `of_folds`: they are folds of many, of which the last digits matter.
    """
    *outer, n = sources[0].layout.shape
    # A core goes through a row no slower than through chunks of it, twice: 4 ms for 1M elements on two, not 17.
    serial = target.limits.serial_workgroups
    length = n if serial else chunk_length(math.prod(outer), n, target.limits)
    chunks = -(-n // length)
    many = operation.blocks and (of_folds or n >= MANY)
    blocks = blocks_of(length, 1) if many else 1
    carried: Sequence[Place] = ()
    if chunks > 1:
        kinds = (computed, i64)[: operation.results]
        folds, carried = ([steps.place(d, (*outer, chunks - 1)) for d in kinds] for _ in range(2))
        _step(steps, operation, sources, (), folds, computed, (length, chunks - 1, blocks))
        _append(steps, operation, folds, carried, computed, target, of_folds=True)
    _step(steps, operation, sources, carried, outs, computed, (length, chunks, blocks))


def _step(
    steps: Steps,
    operation: RunningFold,
    sources: Sequence[Place],
    carried: Sequence[Place],
    outs: Sequence[Place],
    computed: DType,
    sizes: tuple[int, int, int],
) -> None:
    """Chunks of a length, so many, in blocks of a size, from what is carried into them.

    Outputs of the sources' size keep every turn.
    """
    (length, chunks, blocks), (*outer, n) = sizes, sources[0].layout.shape
    each = outs[0].layout.shape[-1] == n
    places = (*sources, *carried, *outs)
    counts = (len(sources), len(carried))
    program = _program(operation, tuple(Address.of(p.layout) for p in places), counts, computed, each, blocks)
    names = [b.name for b in program.buffers]
    numbers = numbers_of(names, [p.layout for p in places], {"n": n, "length": length})
    steps.add(step_of(program, range(len(places)), numbers, (*outer, chunks)), [p.position for p in places])


@lru_cache(maxsize=1024)
def _program(
    operation: RunningFold,
    addresses: tuple[Address, ...],
    counts: tuple[int, int],
    computed: DType,
    each: bool,
    blocks: int,
) -> Program:
    """A lane goes along its chunk; it keeps every turn of it, or what the last one gives."""
    b = Builder(f"atlas_{operation.name}_{addresses[0].dtype}", rank=len(addresses[0].steps))
    *outer, chunk = (b.coordinate(axis) for axis in range(b.rank))
    taken, carried = counts
    kinds = (computed, dtypes.index)

    def operands(prefix: str, some: Sequence[Address], access: Access) -> list[Operand]:
        return [Operand(b, f"{prefix}{k}", a, access, kinds[k]) for k, a in enumerate(some)]

    sources = operands("x", addresses[:taken], Access.READ)
    before = operands("carry", addresses[taken : taken + carried], Access.READ)
    outs = operands("out", addresses[taken + carried :], Access.WRITE)
    length, n = b.scalar("length", dtypes.index), b.scalar("n", dtypes.index)
    start = chunk * length
    stop = select(start + length < n, start + length, n)

    def element(k: Value) -> tuple[Value, Value]:
        return sources[0].at(*outer, k), sources[1].at(*outer, k) if taken > 1 else k

    def keep(k: Value, *state: Value) -> None:
        for out, value in zip(outs, state, strict=False):
            out.put(value, *outer, k)

    def turn(k: Value, one: Value, other: Value) -> tuple[Value, Value]:
        state = operation.turn(one, other, *element(k))
        if each:
            keep(k, *state)
        return state

    def sweep(size: int, first: Value, last: Value, behind: Value) -> Value:
        """Folds blocks of a size, and each within by smaller ones; what is behind them joins what is kept."""

        def block(k: Value, own: Value) -> tuple[Value]:
            total = fold(behind, own) if each else behind
            end = select(k + size < last, k + size, last)
            return (fold(own, sweep(size // BLOCK, k, end, total)),)

        def one(k: Value, own: Value) -> tuple[Value]:
            own = fold(own, element(k)[0])
            if each:
                keep(k, fold(behind, own))
            return (own,)

        return b.loop(first, last, one if size == 1 else block, first=(neutral,), step=size)[0]

    def fold(one: Value, other: Value) -> Value:
        return operation.turn(one, start, other, start)[0]

    if blocks > 1:
        neutral = total = b.constant(-math.inf, computed)
        if carried:
            (total,) = b.if_(chunk > 0, lambda: (before[0].at(*outer, chunk - 1),), lambda: (neutral,))
        whole = sweep(blocks, start, stop, total)
        if not each:
            keep(chunk, whole)
        return b.build()
    first = element(start)
    if carried:
        previous = [o.at(*outer, select(chunk > 0, chunk - 1, chunk)) for o in before]
        joined = operation.turn(previous[0], previous[1] if carried > 1 else start, *first)
        first = tuple(select(chunk > 0, value, own) for value, own in zip(joined, first, strict=True))
    if each:
        keep(start, *first)
    last = b.loop(start + 1, stop, turn, first=first)
    if not each:
        keep(chunk, *last)
    return b.build()


def _larger(kept: Value, position: Value, element: Value, place: Value) -> tuple[Value, Value]:
    return _chosen(element >= kept, kept, position, element, place)


def _smaller(kept: Value, position: Value, element: Value, place: Value) -> tuple[Value, Value]:
    return _chosen(element <= kept, kept, position, element, place)


def _chosen(better: Value, kept: Value, position: Value, element: Value, place: Value) -> tuple[Value, Value]:
    """A NaN is better than all numbers, and the last one than those before."""
    if element.dtype.is_float:
        better = (element != element) | (better & (kept == kept))
    return select(better, element, kept), select(better, place, position)


def _log_add(kept: Value, position: Value, element: Value, place: Value) -> tuple[Value, Value]:
    if kept.dtype.is_complex:
        return functions.log_of_sum(kept, element), position
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
        if dtype.is_complex:  # so that no sum turns round
            x = np.asarray(np.real(x) + 0.3j * np.imag(x), x.dtype)
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


@accumulated
def _log_shares(cotangent: Any, result: Any, x: Any, axis: int) -> Any:
    """By an element's share in every sum from it on, exp(x - sum).

    The sums grow along a row: cotangents decay on their way back, in log2(n) steps, and no exponential overflows.
    """
    if not x.ndim:
        return cotangent
    rows, sums, total = (t.swapaxes(axis, -1) for t in (x, result, conjugated(cotangent)))
    n, distance = rows.shape[-1], 1
    while distance < n:
        now, later = sums.narrow(-1, 0, n - distance), sums.narrow(-1, distance, n - distance)
        decayed = total.narrow(-1, distance, n - distance) * _ratio(now, later)
        total = total + beside(decayed, distance, 0.0, behind=True)
        distance *= 2
    shares = logic.where(logic.equal(rows, -math.inf), 0, _ratio(rows, sums))
    return conjugated(total * shares).swapaxes(axis, -1)


def _ratio(low: Any, high: Any) -> Any:
    """exp(low - high); 1 where both are infinite alike."""
    alike = logic.logical_and(logic.equal(low, high), logic.isinf(low))
    return arithmetic.exp(logic.where(alike, 0, low - high))


@declared(RunningFold, reference=_extremes(np.greater_equal), samples=_samples, dtypes=NUMBERS, turn=_larger,
          positions=True, gradient={"x": _returned})  # fmt: skip
def cummax(x, *, axis=-1):
    """The largest element so far along an axis, and the last position (i64) where it stood; NaN is larger than all."""


@declared(RunningFold, reference=_extremes(np.less_equal), samples=_samples, dtypes=NUMBERS, turn=_smaller,
          positions=True, gradient={"x": _returned})  # fmt: skip
def cummin(x, *, axis=-1):
    """The smallest element so far along an axis, and the last position (i64) where it stood; NaN is below all."""


def _log_sums(x: np.ndarray, axis: int) -> np.ndarray:
    if not np.ndim(x):
        return x
    if not np.iscomplexobj(x):
        return np.logaddexp.accumulate(x, axis=axis)
    return np.log(np.cumsum(np.exp(x), axis=axis))


@declared(RunningFold, samples=_plain_samples, dtypes=INEXACT, turn=_log_add, floats=True, blocks=True,
          reference=_log_sums, ulp=16, absolute=4.0, parts_ulp=256,
          gradient={"x": _log_shares})  # fmt: skip
def logcumsumexp(x, *, axis=-1):
    """The logarithm of the running sum of exponentials along an axis, without overflow.

    Angles of complex numbers are known up to whole turns.
    """
