"""Singular values and vectors of small matrices, a lane for each.

Columns of x, or of its adjoint where that has more rows, are rotated until they are orthogonal (Hestenes 1958); their
norms are the values. Those vectors that are columns over norms are made orthonormal once more, in descending order, and
those of values that are 0, and further ones, are what is left of a unit vector.
"""

from __future__ import annotations

import math
from functools import lru_cache

from hologram.atlas.builder import Builder, Value
from hologram.atlas.complex_parts import conjugate, polar
from hologram.atlas.functions import select, sqrt
from hologram.foundation.dtypes import DType, i32, index
from hologram.opset.linear_algebra.small.jacobi import CUBES, ranked, rotation, swept, turned
from hologram.opset.linear_algebra.small.matrix import (
    Built,
    Desk,
    Given,
    Made,
    Own,
    Size,
    brought,
    identity,
    made,
    over,
    read,
    scaled,
    square,
    summed,
    written,
)

LEAST = 0.2  # of a unit vector that is left beside the others: sqrt(1 / 16) is there always, of one of them


class _Rotated:
    """Orthogonal columns, the rotations that made them, their norms, and the order of these.

    They are columns of the adjoint of x (m, n) where it is `wide`, has more columns than rows.
    """

    def __init__(self, given: Given, desk: Desk, wide: bool, vectors: bool) -> None:
        b, dtype = given.b, given.dtype
        m, n = given.rows, given.columns
        self.desk, self.dtype, self.rows, self.columns = desk, dtype, n if wide else m, m if wide else n
        self.known = known = desk.own(dtype, self.rows, self.columns)
        self.keys = desk.own(dtype.part, self.columns)
        self.order = desk.own(dtype.part, self.columns)
        self.turns = turns = desk.own(dtype, self.columns, self.columns) if vectors else None
        self.factor, peak, self.bad = brought(
            given, known, (lambda i, j: conjugate(given.at(j, i))) if wide else given.at
        )
        if turns is not None:
            identity(turns)
        tiny = 2.0 ** -(dtype.part.mantissa + 2)
        floor = (peak * tiny) * (peak * tiny)
        none = b.constant(0.0, dtype.part)

        def both(i: Value, j: Value) -> Value:
            low, high = (summed(b, 0, self.rows, lambda k, c=c: square(known.at(k, c)), none) for c in (i, j))
            across = summed(
                b,
                0,
                self.rows,
                lambda k: conjugate(known.at(k, i)) * known.at(k, j),
                b.constant(0.0, dtype),
            )
            size, _ = polar(across)
            size = select(size < 0.0, -size, size)
            least = sqrt(low) * sqrt(high) * tiny
            matters = size > select(least > floor, least, floor)

            def rotate() -> None:
                cosine, sine, _ = rotation(low, high, across)
                b.loop(0, self.rows, lambda row: turned(known, row, i, j, cosine, sine))
                if turns is not None:
                    b.loop(0, self.columns, lambda row, v=turns: turned(v, row, i, j, cosine, sine))

            b.if_(matters, rotate, lambda: None)
            return matters.to(i32)

        swept(b, b.value(self.columns, index), dtype, self.bad, both)

        def key(c: Value) -> None:
            self.keys.put(sqrt(summed(b, 0, self.rows, lambda k: square(known.at(k, c)), none)), c)

        b.loop(0, self.columns, key)
        ranked(self.keys, self.order, True)

    def source(self, k: Value) -> Value:
        """The column that is at place k in order."""
        return select(self.bad != 0, 0, self.order.at(k).to(index))

    def checked(self, z: Value) -> Value:
        """A result, NaN where the matrix has elements that are not finite."""
        return select(self.bad != 0, math.nan, z)


def _outer(b: Builder, found: _Rotated, count: Value) -> Own:
    """So many orthonormal vectors, the columns over their norms first."""
    rows, dtype = found.rows, found.dtype
    far = found.desk.own(dtype, rows, count)
    none, zero = b.constant(0.0, dtype.part), b.constant(0.0, dtype)

    def vector(k: Value) -> None:
        held = k < found.columns
        source = found.source(select(held, k, 0))
        norm = found.keys.at(source)
        divisor = select(norm > 0.0, norm, 1.0)

        def attempt(number: Value) -> tuple[Value, Value]:
            def begin(row: Value) -> None:
                unit = select(row + 1 == number, b.constant(1.0, dtype), zero)
                far.put(select(number == 0, over(found.known.at(row, source), divisor), unit), row, k)

            b.loop(0, rows, begin)

            def without(other: Value) -> None:
                along = summed(b, 0, rows, lambda row: conjugate(far.at(row, other)) * far.at(row, k), zero)
                b.loop(0, rows, lambda row: far.put(far.at(row, k) - far.at(row, other) * along, row, k))

            b.loop(0, 2, lambda _: b.loop(0, k, without) and None)
            left = sqrt(summed(b, 0, rows, lambda row: square(far.at(row, k)), none))
            inverse = 1.0 / select(left > 0.0, left, 1.0)
            b.loop(0, rows, lambda row: far.put(scaled(far.at(row, k), inverse), row, k))
            return (left < LEAST) & (number < rows), number + 1

        first = select(held, b.constant(0, index), 1)
        b.while_(first == first, attempt, first=(first,))

    b.loop(0, select(found.bad != 0, 0, count), vector)
    return far


def svdvals(dtype: DType, x: Size) -> Made:
    return made(_svdvals(dtype, x[0] < x[1]), max(x), CUBES, m=x[0], n=x[1])


@lru_cache(maxsize=32)
def _svdvals(dtype: DType, wide: bool) -> Built:
    b = Builder(f"atlas_small_svdvals_{dtype}", rank=1)
    m, n = b.scalar("m", index), b.scalar("n", index)
    given, s = read(b, "x", dtype, m, n), written(b, "s", dtype.part, m if wide else n)
    info, desk = written(b, "info", i32, 1), Desk(b)
    found = _Rotated(given, desk, wide, False)
    b.loop(
        0, found.columns, lambda k: s.put(found.checked(found.keys.at(found.source(k)) / found.factor), k, 0)
    )
    info.put(found.bad, 0, 0)
    return desk.built()


def svd(dtype: DType, x: Size, full: bool) -> Made:
    return made(_svd(dtype, x[0] < x[1], full), max(x), CUBES, m=x[0], n=x[1])


@lru_cache(maxsize=32)
def _svd(dtype: DType, wide: bool, full: bool) -> Built:
    b = Builder(f"atlas_small_svd_{dtype}", rank=1)
    m, n = b.scalar("m", index), b.scalar("n", index)
    few, long = (m, n) if wide else (n, m)
    count = long if full else few  # of the vectors that are columns over norms
    given = read(b, "x", dtype, m, n)
    u, s = written(b, "u", dtype, m, few if wide else count), written(b, "s", dtype.part, few)
    vh = written(b, "vh", dtype, count if wide else few, n)
    info, desk = written(b, "info", i32, 1), Desk(b)
    found = _Rotated(given, desk, wide, True)
    far, near = _outer(b, found, count), found.turns
    assert near is not None

    def to_u(x: Own, source: Value, k: Value) -> None:
        b.loop(0, m, lambda row: u.put(found.checked(x.at(row, source)), row, k))

    def to_vh(x: Own, source: Value, k: Value) -> None:
        b.loop(0, n, lambda row: vh.put(found.checked(conjugate(x.at(row, source))), k, row))

    def store(k: Value) -> None:
        source = found.source(k)
        s.put(found.checked(found.keys.at(source) / found.factor), k, 0)
        (to_u if wide else to_vh)(near, source, k)

    b.loop(0, few, store)
    b.loop(0, count, lambda k: (to_vh if wide else to_u)(far, k, k))
    info.put(found.bad, 0, 0)
    return desk.built()
