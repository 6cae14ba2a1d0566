"""Eigenvalues and eigenvectors of small matrices by Jacobi's rotations, a lane for each.

Pairs of columns are taken in order, row by row of the pairs, until nothing that is left matters to the values' last
bits (Golub and Van Loan, "Matrix Computations", 8.5).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

from hologram.atlas.builder import Builder, Value
from hologram.atlas.complex_parts import conjugate, pair, polar, real
from hologram.atlas.functions import absolute, select, sqrt
from hologram.foundation.dtypes import DType, i32, index
from hologram.opset.linear_algebra.small.matrix import (
    Built,
    Desk,
    Made,
    Own,
    Size,
    brought,
    identity,
    made,
    read,
    scaled,
    written,
)

CUBES = 45  # loops' turns: sweeps of half the square of pairs, of which each has some rows' turns


def _sweeps(dtype: DType) -> int:
    """As many as there are at most."""
    return 20 if dtype.part.bits == 64 else 15


def swept(b: Builder, n: Value, dtype: DType, bad: Value, pair_of: Callable[[Value, Value], Value]) -> None:
    """Calls `pair_of(i, j)` for all i < j, again while it says of one that it mattered (i32)."""
    none = b.constant(0, i32)

    def sweep(count: Value) -> tuple[Value, Value]:
        def row(i: Value, busy: Value) -> tuple[Value, ...]:
            return b.loop(i + 1, n, lambda j, busy: (busy | pair_of(i, j),), first=(busy,))

        (busy,) = b.loop(0, n - 1, row, first=(none,))
        return (busy != 0) & (count < _sweeps(dtype)), count + 1

    b.while_(bad == 0, sweep, first=(b.constant(1, i32),))


def rotation(low: Value, high: Value, across: Value) -> tuple[Value, Value, Value]:
    """Cosine, sine with a phase, and tangent times size: what makes [[low, across], [its adjoint, high]] diagonal."""
    size, phase = polar(across)
    half = (high - low) * 0.5
    wide = select(absolute(half) > absolute(size), absolute(half), absolute(size))
    whole = select(wide > 0.0, wide, 1.0)
    d, g = half / whole, size / whole
    under = absolute(d) + sqrt(d * d + g * g)
    t = g / select(under == 0.0, 1.0, under)
    t = select(d < 0.0, -t, t)
    cosine = 1.0 / sqrt(t * t + 1.0)
    return cosine, scaled(phase, t * cosine), t * size


def turned(x: Own, row: Value, i: Value, j: Value, cosine: Value, sine: Value) -> None:
    """Columns i and j of a row: x_i c - x_j conj(s), and x_i s + x_j c."""
    first, second = x.at(row, i), x.at(row, j)
    x.put(scaled(first, cosine) - second * conjugate(sine), row, i)
    x.put(first * sine + scaled(second, cosine), row, j)


def ranked(keys: Own, order: Own, descending: bool) -> None:
    """Fills a list with which key is where in order; equal ones stay as they were.

    The list may be of floats, beside the keys: a buffer less.
    """
    b, n = keys.b, keys.rows

    def place(k: Value) -> None:
        key = keys.at(k)

        def before(other: Value, rank: Value) -> tuple[Value]:
            theirs = keys.at(other)
            ahead = theirs > key if descending else theirs < key
            return (select(ahead | ((theirs == key) & (other < k)), rank + 1, rank),)

        (rank,) = b.loop(0, n, before, first=(b.constant(0, i32),))
        order.put(k.to(order.dtype), rank.to(k.dtype))

    b.loop(0, n, place)


# Eigenvalues.


@lru_cache(maxsize=64)
def _eigen(dtype: DType, upper: bool, vectors: bool) -> Built:
    b = Builder(f"atlas_small_eigen{'vectors' if vectors else 'values'}_{dtype}", rank=1)
    n = b.scalar("n", index)
    given, values = read(b, "x", dtype, n, n), written(b, "values", dtype.part, n)
    out = written(b, "vectors", dtype, n, n) if vectors else None
    info, desk = written(b, "info", i32, 1), Desk(b)
    known, keys, order = (
        desk.own(dtype, n, n),
        desk.own(dtype.part, n),
        desk.own(dtype.part, n),
    )
    turns = desk.own(dtype, n, n) if vectors else None

    def element(i: Value, j: Value) -> Value:
        other = j < i if upper else j > i
        z = given.at(select(other, j, i), select(other, i, j))
        if not dtype.is_complex:
            return z
        return select(i == j, pair(real(z), 0.0), select(other, conjugate(z), z))

    factor, peak, bad = brought(given, known, element)
    if turns is not None:
        identity(turns)
    tiny = 2.0 ** -(dtype.part.mantissa + 2)

    def both(i: Value, j: Value) -> Value:
        low, high, across = real(known.at(i, i)), real(known.at(j, j)), known.at(i, j)
        size, _ = polar(across)
        least = sqrt(absolute(low)) * sqrt(absolute(high))
        floor = peak * (tiny * 2.0**-4)
        matters = absolute(size) > select(least * tiny > floor, least * tiny, floor)

        def rotate() -> None:
            cosine, sine, change = rotation(low, high, across)

            def columns(row: Value) -> None:
                turned(known, row, i, j, cosine, sine)
                if turns is not None:
                    turned(turns, row, i, j, cosine, sine)

            def rows(column: Value) -> None:
                first, second = known.at(i, column), known.at(j, column)
                known.put(scaled(first, cosine) - second * sine, i, column)
                known.put(first * conjugate(sine) + scaled(second, cosine), j, column)

            b.loop(0, n, columns)
            b.loop(0, n, rows)
            known.put((low - change).to(dtype), i, i)
            known.put((high + change).to(dtype), j, j)
            known.put(b.constant(0.0, dtype), i, j)
            known.put(b.constant(0.0, dtype), j, i)

        b.if_(matters, rotate, lambda: None)
        return matters.to(i32)

    swept(b, n, dtype, bad, both)
    b.loop(0, n, lambda k: keys.put(real(known.at(k, k)), k))
    ranked(keys, order, False)
    failed = bad != 0

    def store(k: Value) -> None:
        source = order.at(k).to(k.dtype)
        source = select(failed, k, source)
        values.put(select(failed, math.nan, keys.at(source) / factor), k, 0)
        if out is not None and turns is not None:
            b.loop(
                0, n, lambda row, to=out, v=turns: to.put(select(failed, math.nan, v.at(row, source)), row, k)
            )

    b.loop(0, n, store)
    info.put(bad, 0, 0)
    return desk.built()


def eigh(dtype: DType, x: Size, upper: bool) -> Made:
    return made(_eigen(dtype, upper, True), x[0], CUBES, n=x[0])


def eigvalsh(dtype: DType, x: Size, upper: bool) -> Made:
    return made(_eigen(dtype, upper, False), x[0], CUBES, n=x[0])
