"""LU factors of small matrices with partial pivoting, a lane for each, and what follows from them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from hologram.atlas.builder import Builder, Value
from hologram.atlas.complex_parts import imag, number, parts, polar, real
from hologram.atlas.functions import absolute, log, select
from hologram.foundation.dtypes import DType, i32, index
from hologram.opset.linear_algebra.small.matrix import (
    At,
    Built,
    Desk,
    Given,
    Made,
    Own,
    Size,
    each,
    exchanged,
    identity,
    made,
    read,
    summed,
    written,
)


def eliminated(x: Given, desk: Desk, right: Own | None = None) -> tuple[Own, Own, Value]:
    """The factors, with which row each was exchanged, and the first pivot, from 1 on, that is 0.

    The rows of `right` are exchanged likewise.
    """
    b = x.b
    m, n = b.value(x.rows, index), b.value(x.columns, index)
    dtype, few = x.dtype, select(m < n, m, n)
    known, pivots = desk.own(dtype, m, n), desk.own(i32, few)
    each(b, m, n, lambda i, j: known.put(x.at(i, j), i, j))

    def column(j: Value, code: Value) -> tuple[Value]:
        def look(i: Value, best: Value, place: Value) -> tuple[Value, Value]:
            z = known.at(i, j)
            size = absolute(real(z)) + absolute(imag(z)) if dtype.is_complex else absolute(z)  # as LAPACK
            size = select(size == size, size, float("inf"))  # NaN is taken at once, and stays
            return select(size > best, size, best), select(size > best, i, place)

        best, place = b.loop(j, m, look, first=(b.constant(-1.0, dtype.part), j))
        pivots.put(place.to(i32), j)
        exchanged(known, j, place)
        if right is not None:
            exchanged(right, j, place)
        none = best == 0.0
        divisor = select(none, 1.0, known.at(j, j))

        def under(i: Value) -> None:
            factor = known.at(i, j) / divisor
            known.put(factor, i, j)
            b.loop(j + 1, n, lambda k: known.put(known.at(i, k) - factor * known.at(j, k), i, k))

        b.loop(j + 1, m, under)
        return (select(none & (code == 0), (j + 1).to(i32), code),)

    (code,) = b.loop(0, few, column, first=(b.constant(0, i32),))
    return known, pivots, code


def lu(dtype: DType, x: Size) -> Made:
    return made(_lu(dtype), max(x), m=x[0], n=x[1])


@lru_cache(maxsize=16)
def _lu(dtype: DType) -> Built:
    b = Builder(f"atlas_small_lu_{dtype}", rank=1)
    m, n = b.scalar("m", index), b.scalar("n", index)
    few = select(m < n, m, n)
    given, factors = read(b, "x", dtype, m, n), written(b, "factors", dtype, m, n)
    pivots = written(b, "pivots", i32, few)
    info, desk = written(b, "info", i32, 1), Desk(b)
    known, places, code = eliminated(given, desk)
    each(b, m, n, lambda i, j: factors.put(known.at(i, j), i, j))
    b.loop(0, few, lambda k: pivots.put(places.at(k), k, 0))
    info.put(code, 0, 0)
    return desk.built()


def substituted(factors: Own, x: Own, out: Given) -> None:
    """x, which has its rows exchanged, over the factors."""
    b, n = x.b, x.rows

    def column(c: Value) -> None:
        def down(i: Value) -> None:
            x.put(summed(b, 0, i, lambda k: -(factors.at(i, k) * x.at(k, c)), x.at(i, c)), i, c)

        def up(step: Value) -> None:
            i = n - 1 - step
            total = summed(b, i + 1, n, lambda k: -(factors.at(i, k) * x.at(k, c)), x.at(i, c))
            z = total / factors.at(i, i)
            x.put(z, i, c)
            out.put(z, i, c)

        b.loop(1, n, down)
        b.loop(0, n, up)

    b.loop(0, x.columns, column)


def solve(dtype: DType, a: Size, b: Size) -> Made:
    return made(_solve(dtype), max(*a, *b), n=a[0], columns=b[1])


@lru_cache(maxsize=16)
def _solve(dtype: DType) -> Built:
    b = Builder(f"atlas_small_solve_{dtype}", rank=1)
    n, columns = b.scalar("n", index), b.scalar("columns", index)
    given, right = read(b, "a", dtype, n, n), read(b, "b", dtype, n, columns)
    out = written(b, "x", dtype, n, columns)
    info, desk = written(b, "info", i32, 1), Desk(b)
    x = desk.own(dtype, n, columns)
    each(b, n, columns, lambda i, j: x.put(right.at(i, j), i, j))
    known, _, code = eliminated(given, desk, x)
    substituted(known, x, out)
    info.put(code, 0, 0)
    return desk.built()


def inverse(dtype: DType, x: Size) -> Made:
    return made(_inverse(dtype), x[0], n=x[0])


@lru_cache(maxsize=16)
def _inverse(dtype: DType) -> Built:
    b = Builder(f"atlas_small_inverse_{dtype}", rank=1)
    n = b.scalar("n", index)
    given, out = read(b, "x", dtype, n, n), written(b, "inverse", dtype, n, n)
    info, desk = written(b, "info", i32, 1), Desk(b)
    own = desk.own(dtype, n, n)
    identity(own)
    known, _, code = eliminated(given, desk, own)
    substituted(known, own, out)
    info.put(code, 0, 0)
    return desk.built()


def _signed(z: Value) -> tuple[Value, Value]:
    """A number's magnitude, and its sign or phase: 0 of 0."""
    if not z.dtype.is_complex:
        return absolute(z), select(z > 0.0, 1.0, select(z < 0.0, -1.0, z))
    size, phase = polar(z)
    return size, select(size == 0.0, z, phase)


def multiplied(
    b: Builder,
    n: At,
    element: Callable[[Value], Value],
    kept: Callable[[Value], Value],
    dtype: DType,
    logarithm: bool,
) -> list[Value]:
    """The product of a diagonal, its sign turned for each row not kept; or that of signs, and a sum of logarithms."""

    def turn(k: Value, total: Value, *product: Value) -> tuple[Value, ...]:
        z = element(k)
        if logarithm:
            size, z = _signed(z)
            total = total + log(size)
        made = number(product) * z
        return total, *parts(select(kept(k), made, -made))

    one, zero = b.constant(1.0, dtype), b.constant(0.0, dtype.part)
    total, *product = b.loop(0, n, turn, first=(zero, *parts(one)))
    return [number(product), total] if logarithm else [number(product)]


@lru_cache(maxsize=32)
def _diagonal(dtype: DType, logarithm: bool) -> Built:
    b = Builder(f"atlas_small_{'slogdet' if logarithm else 'determinant'}_{dtype}", rank=1)
    n = b.scalar("n", index)
    given = read(b, "x", dtype, n, n)
    kinds = {"sign": dtype, "logarithm": dtype.part} if logarithm else {"determinant": dtype}
    results = [written(b, name, kind, 1) for name, kind in kinds.items()]
    desk = Desk(b)
    known, pivots, _ = eliminated(given, desk)
    found = multiplied(b, n, lambda k: known.at(k, k), lambda k: pivots.at(k) == k.to(i32), dtype, logarithm)
    for out, value in zip(results, found, strict=True):
        out.put(value, 0, 0)
    return desk.built()


def determinant(dtype: DType, x: Size) -> Made:
    return made(_diagonal(dtype, False), x[0], n=x[0])


def slogdet(dtype: DType, x: Size) -> Made:
    return made(_diagonal(dtype, True), x[0], n=x[0])
