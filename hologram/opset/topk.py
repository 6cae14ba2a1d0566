"""The first of each row in order, without ordering the rest: stable, and NaN larger than everything, as in `sort`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache

import numpy as np

from hologram.atlas.builder import Builder, Value
from hologram.atlas.functions import select
from hologram.atlas.program import Access, Program
from hologram.foundation.dtypes import COMPUTED, DType, index, u32
from hologram.machine.layout import Layout
from hologram.machine.plan import Target
from hologram.opset.forms.expression import step_of
from hologram.opset.forms.operation import Attributes, Sample, declared
from hologram.opset.forms.samples import array
from hologram.opset.forms.steps import Place, Steps
from hologram.opset.reduce import min_
from hologram.opset.scan import axis_samples
from hologram.opset.sort import Ordering, argsort_reference, returned
from hologram.opset.tiles.sort import key_steps, order_of_keys, order_steps, pick_steps

# A row is taken apart where it holds so many times what is wanted of it; shorter ones are ordered whole.
SPARSE = 32


class First(Ordering):
    """An order of which `k` is wanted, `largest` or smallest."""

    def first_steps(self, steps: Steps, x: Place, k: int, attributes: Attributes, target: Target) -> Place:
        return _first_steps(steps, x, k, attributes["largest"], target)


def _first_steps(steps: Steps, x: Place, k: int, descending: bool, target: Target) -> Place:
    """Appends the positions of the first k in each row of x (outer..., n): u32 of (outer..., k).

    A row is cut into chunks. Elements of a chunk whose first is not among the first k of all chunks' firsts come
    after k others, so the first k chunks hold what is wanted; they and what is left behind the last chunk are ordered.
    Equal elements keep their places, since the chunks that were chosen are looked at from left to right.
    """
    *outer, n = x.layout.shape
    if n < SPARSE * k:
        order = order_steps(steps, x, descending, target)
        return Place(order.position, order.layout.narrow(len(outer), 0, k))
    length = math.isqrt(int(n // k))  # of a chunk: as many chunks as elements of those that are chosen
    chunks = n // length
    rows = math.prod(outer)
    keys = key_steps(steps, x, descending)
    split = Layout(keys.layout.dtype, (rows, chunks, length), (n, length, 1))
    best = steps.place(split.dtype, (rows, chunks))
    plan = min_.plan((split,), (best.layout,), {"axis": 2, "keepdims": False}, target)
    steps.extend(plan, (keys.position, best.position))
    chosen = _first_steps(steps, best, k, False, target)
    ascending = steps.place(u32, (rows, k))
    pick_steps(steps, chosen, order_steps(steps, chosen, False, target), ascending)
    candidates = (rows, k * length + n - chunks * length)
    numbers = {"k": k, "length": length, "chunks": chunks, "n": n}
    kept = steps.place(split.dtype, candidates)
    gathering = step_of(_gather_program(split.dtype), (0, 1, 2), numbers, candidates)
    steps.add(gathering, [p.position for p in (ascending, keys, kept)])
    order = order_of_keys(steps, kept, x.layout.dtype, target)
    positions = steps.place(u32, (rows, k))
    numbers = {"k": k, "length": length, "chunks": chunks, "candidates": candidates[1]}
    finding = step_of(_find_program(), (0, 1, 2), numbers, (rows, k))
    steps.add(finding, [p.position for p in (ascending, order, positions)])
    return Place(positions.position, Layout.contiguous(u32, (*outer, k)))


class _Candidates:
    """Where the candidates of a row lie: those of the chunks that were chosen, then those behind all chunks."""

    def __init__(self, b: Builder) -> None:
        self.b = b
        self.chosen = b.buffer("chosen", u32, Access.READ)
        self.k, self.length, self.chunks = (b.scalar(name, index) for name in ("k", "length", "chunks"))

    def position(self, row: Value, i: Value) -> Value:
        """In the row, of candidate i."""
        taken = self.k * self.length
        inside = i < taken
        chunk = self.b.load(self.chosen, row * self.k + select(inside, i, 0) // self.length).to(index)
        return select(inside, chunk * self.length + i % self.length, self.chunks * self.length + i - taken)


@lru_cache(maxsize=4)
def _gather_program(key: DType) -> Program:
    """kept (rows, candidates) = the candidates of keys (rows, n)."""
    b = Builder(f"atlas_topk_gather_{key}", rank=2)
    candidates = _Candidates(b)
    keys, kept = b.buffer("keys", key, Access.READ), b.buffer("kept", key, Access.WRITE)
    row, i, n = b.coordinate(0), b.coordinate(1), b.scalar("n", index)
    b.store(kept, row * b.extent(1) + i, b.load(keys, row * n + candidates.position(row, i)))
    return b.build()


@lru_cache(maxsize=1)
def _find_program() -> Program:
    """positions (rows, k) in the rows, of the first k of an order (rows, candidates) of candidates."""
    b = Builder("atlas_topk_find", rank=2)
    candidates = _Candidates(b)
    order, positions = b.buffer("order", u32, Access.READ), b.buffer("positions", u32, Access.WRITE)
    row, i, size = b.coordinate(0), b.coordinate(1), b.scalar("candidates", index)
    candidate = b.load(order, row * size + i).to(index)
    b.store(positions, row * b.extent(1) + i, candidates.position(row, candidate).to(u32))
    return b.build()


def _reference(x, k, axis=-1, largest=True, sorted=True):
    order = argsort_reference(x, axis, largest)
    if not np.ndim(x):
        return x, order
    first = np.take(order, np.arange(k), axis)
    return np.take_along_axis(x, first, axis), first


def _samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for x, axis in axis_samples(rng, dtype):
        k = x.shape[axis] // 2 if x.ndim else 1
        yield Sample((x,), {"k": k, "axis": axis})
    yield Sample((array(rng, dtype, (3, 1031), -1e4, 1e4, special=True),), {"k": 5, "largest": False})
    yield Sample((array(rng, dtype, (2, 70, 3), -1e4, 1e4, special=True),), {"k": 2, "axis": 1})


def _sent_back(cotangent, results, inputs, axis):
    return returned(cotangent, results[1], inputs[0].shape, axis)


@declared(First, reference=_reference, samples=_samples, dtypes=COMPUTED, positions=True, aten=("topk",),
          gradient={"x": _sent_back})  # fmt: skip
def topk(x, *, k, axis=-1, largest=True, sorted=True):
    """The k largest (or smallest) elements along an axis, in order, and their positions (i64)."""
