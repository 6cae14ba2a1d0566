"""How one writes well-known computations in Atlas by hand, loop by loop: the spellings that recognition knows.

Each is a function that writes the whole program for given sizes. What canonical form makes one need not be told apart:
names, the order of operands, sizes as scalars, extents or numbers, axes of one lane.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from hologram.atlas import functions as atlas
from hologram.atlas.builder import Builder, Value
from hologram.atlas.functions import exp, maximum, reduce_add
from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Access, Program
from hologram.foundation.dtypes import DType
from hologram.foundation.frozen import frozen

Sizes = tuple[int, ...]
Grid = tuple[int, ...]

# Opcodes that tell spellings apart before anything is written.
MARKS = frozenset({Opcode.LOOP, Opcode.REDUCE_ADD, Opcode.MAD, Opcode.FMA, Opcode.EXP, Opcode.REM})


@frozen
class Spelling:
    """One way to write a computation of given sizes."""

    name: str
    marks: frozenset[Opcode]  # those of MARKS that it has
    grid: Callable[[Sizes], Grid]
    write: Callable[[DType, Sizes], Program]
    transposed: tuple[bool, ...] = ()  # which operands lie column by column


def _carry(b: Builder, stop: int | Value, body: Callable[..., Value], first: Value, start: int = 0) -> Value:
    """A loop that carries one value."""
    return b.loop(start, stop, lambda i, x: (body(i, x),), first=(first,))[0]


# Products: out (m, n) = a (m, k) b (k, n). A matrix and a vector, and two vectors, are those with n or m of 1.

Accumulate = Callable[[Value, Value, Value], Value]
LOOPS: dict[str, tuple[frozenset[Opcode], Accumulate]] = {
    "mul and add": (frozenset(), lambda total, x, y: total + x * y),
    "mad": (frozenset({Opcode.MAD}), lambda total, x, y: atlas.mad(x, y, total)),
    "fma": (frozenset({Opcode.FMA}), lambda total, x, y: atlas.fma(x, y, total)),
}
ORDERS = {"a b": (False, False), "a bᵀ": (False, True), "aᵀ b": (True, False), "aᵀ bᵀ": (True, True)}


@frozen
class Lanes:
    """Which element of a result (m, n) a lane computes."""

    name: str
    grid: Callable[[int, int], Grid]
    place: Callable[[Builder, int], tuple[Value, Value]]  # row and column, given n
    marks: frozenset[Opcode] = frozenset()


def _divided(b: Builder, n: int) -> tuple[Value, Value]:
    lane = b.coordinate(0)
    return lane // n, lane % n


def _subtracted(b: Builder, n: int) -> tuple[Value, Value]:
    lane = b.coordinate(0)
    row = lane // n
    return row, lane - row * n


LANES = (
    Lanes("lanes (m n)", lambda m, n: (m * n,), _divided, frozenset({Opcode.REM})),
    Lanes("lanes (m n), without rem", lambda m, n: (m * n,), _subtracted),
    Lanes("lanes (m, n)", lambda m, n: (m, n), lambda b, n: (b.coordinate(0), b.coordinate(1))),
    Lanes("lanes (n, m)", lambda m, n: (n, m), lambda b, n: (b.coordinate(1), b.coordinate(0))),
)


def _looped(lanes: Lanes, order: str, how: str) -> Spelling:
    marks, accumulate = LOOPS[how]

    def write(dtype: DType, sizes: Sizes) -> Program:
        m, k, n = sizes
        b = Builder("atlas_product", rank=len(lanes.grid(m, n)))
        pair, store = _operands(b, lanes, ORDERS[order], dtype, sizes)
        zero = b.constant(0, dtype.computed)
        store(_carry(b, k, lambda i, total: accumulate(total, *pair(i)), zero))
        return b.build()

    name = f"{order}, {lanes.name}, a loop of {how}"
    marks = marks | lanes.marks | {Opcode.LOOP}
    return Spelling(name, marks, lambda sizes: lanes.grid(sizes[0], sizes[2]), write, ORDERS[order])


def _reduced(lanes: Lanes, order: str) -> Spelling:
    def grid(sizes: Sizes) -> Grid:
        return (*lanes.grid(sizes[0], sizes[2]), sizes[1])

    def write(dtype: DType, sizes: Sizes) -> Program:
        b = Builder("atlas_product", rank=len(grid(sizes)), reduced=1)
        pair, store = _operands(b, lanes, ORDERS[order], dtype, sizes)
        x, y = pair(b.coordinate(b.rank - 1))
        store(reduce_add(x * y))
        return b.build()

    marks = lanes.marks | {Opcode.REDUCE_ADD}
    return Spelling(f"{order}, {lanes.name}, k reduced", marks, grid, write, ORDERS[order])


def _operands(
    b: Builder, lanes: Lanes, transposed: tuple[bool, bool], dtype: DType, sizes: Sizes
) -> tuple[Callable[[Value], tuple[Value, Value]], Callable[[Value], None]]:
    """The factors at a place along k, and how the result is stored."""
    m, k, n = sizes
    left, right = (b.buffer(name, dtype, Access.READ) for name in "ab")
    out = b.buffer("out", dtype, Access.WRITE)
    row, column = lanes.place(b, n)
    computed = dtype.computed

    def pair(i: Value) -> tuple[Value, Value]:
        x = b.load(left, i * m + row if transposed[0] else row * k + i)
        y = b.load(right, column * k + i if transposed[1] else i * n + column)
        return x.to(computed), y.to(computed)

    return pair, lambda total: b.store(out, row * n + column, total.to(dtype))


PRODUCTS = (
    *(_looped(lanes, order, how) for how, lanes, order in product(LOOPS, LANES, ORDERS)),
    *(_reduced(lanes, order) for lanes, order in product(LANES, ORDERS)),
)


# Softmax of the rows of x (rows, n), a lane a row.

LARGEST: dict[str, tuple[int, Callable[[Builder, DType, Value], Value]]] = {
    "-inf": (0, lambda b, d, first: b.constant(float("-inf"), d)),
    "the lowest number": (0, lambda b, d, first: b.constant(_lowest(d), d)),
    "the first": (0, lambda b, d, first: first),
    "the first, then on": (1, lambda b, d, first: first),
}
SHARES: dict[str, Callable[[Value], Callable[[Value], Value]]] = {
    "divided": lambda total: lambda x: x / total,
    "multiplied": lambda total: lambda x, scale=1.0 / total: x * scale,
}


def _lowest(d: DType) -> float:
    return -((2 - 2.0**-52) * 2.0**1023) if d.bits == 64 else -((2 - 2.0**-23) * 2.0**127)


def _softmax(largest: str, share: str, *, kept: bool) -> Spelling:
    start, first = LARGEST[largest]

    def write(dtype: DType, sizes: Sizes) -> Program:
        _, n = sizes
        d = dtype.computed
        b = Builder("atlas_softmax")
        x = b.buffer("x", dtype, Access.READ)
        out = b.buffer("out", dtype, Access.READ_WRITE if kept else Access.WRITE)
        base = b.coordinate(0) * n
        top = first(b, d, b.load(x, base).to(d))
        top = _carry(b, n, lambda i, t: maximum(t, b.load(x, base + i).to(d)), top, start)

        def power(i: Value) -> Value:
            return exp(b.load(x, base + i).to(d) - top)

        def add(i: Value, total: Value) -> Value:
            e = power(i)
            if kept:
                b.store(out, base + i, e.to(dtype))
            return total + e

        shared = SHARES[share](_carry(b, n, add, b.constant(0, d)))

        def finish(i: Value) -> None:
            e = b.load(out, base + i).to(d) if kept else power(i)
            b.store(out, base + i, shared(e).to(dtype))

        b.loop(0, n, finish)
        return b.build()

    how = "exponentials kept" if kept else "exponentials computed again"
    name = f"maximum from {largest}, {how}, {share}"
    marks = frozenset({Opcode.LOOP, Opcode.EXP})
    return Spelling(name, marks, lambda sizes: sizes[:1], write)


SOFTMAXES = tuple(_softmax(f, s, kept=k) for f, s, k in product(LARGEST, SHARES, (True, False)))


# Running sums of the rows of x (rows, n).


def _running(dtype: DType, sizes: Sizes) -> Program:
    """A lane a row."""
    _, n = sizes
    d = dtype.computed
    b = Builder("atlas_prefix")
    x, out = b.buffer("x", dtype, Access.READ), b.buffer("out", dtype, Access.WRITE)
    base = b.coordinate(0) * n

    def turn(i: Value, total: Value) -> Value:
        total = total + b.load(x, base + i).to(d)
        b.store(out, base + i, total.to(dtype))
        return total

    _carry(b, n, turn, b.constant(0, d))
    return b.build()


def _quadratic(dtype: DType, sizes: Sizes) -> Program:
    """A lane an element, which sums all up to its own."""
    d = dtype.computed
    b = Builder("atlas_prefix")
    x, out = b.buffer("x", dtype, Access.READ), b.buffer("out", dtype, Access.WRITE)
    lane = b.coordinate(0)
    total = _carry(b, lane + 1, lambda i, t: t + b.load(x, i).to(d), b.constant(0, d))
    b.store(out, lane, total.to(dtype))
    return b.build()


PREFIX_SUMS = (
    Spelling("a lane a row", frozenset({Opcode.LOOP}), lambda sizes: sizes[:1], _running),
    Spelling("a lane an element", frozenset({Opcode.LOOP}), lambda sizes: sizes[1:], _quadratic),
)
