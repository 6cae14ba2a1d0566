"""Cholesky's factor of small matrices, a lane for each."""

from __future__ import annotations

import math
from functools import lru_cache

from hologram.atlas.builder import Builder, Value
from hologram.atlas.complex_parts import conjugate, real
from hologram.atlas.functions import select, sqrt
from hologram.foundation.dtypes import DType, i32, index
from hologram.opset.linear_algebra.small.matrix import (
    Built,
    Desk,
    Made,
    Size,
    each,
    made,
    over,
    read,
    summed,
    written,
)


def cholesky(dtype: DType, x: Size, upper: bool) -> Made:
    return made(_cholesky(dtype, upper), x[0], n=x[0])


@lru_cache(maxsize=32)
def _cholesky(dtype: DType, upper: bool) -> Built:
    """Column by column; NaN from the first pivot on that is 0 or below, whose number, from 1 on, is told.

    A pivot of NaN is none of those: the factor is NaN then, which NumPy tells nobody either.
    """
    b = Builder(f"atlas_small_cholesky_{dtype}", rank=1)
    n = b.scalar("n", index)
    given, factor = read(b, "x", dtype, n, n), written(b, "factor", dtype, n, n)
    info, desk = written(b, "info", i32, 1), Desk(b)
    known = desk.own(dtype, n, n)

    def element(i: Value, j: Value) -> Value:
        return conjugate(given.at(j, i)) if upper else given.at(i, j)

    def column(j: Value, code: Value) -> tuple[Value]:
        def rest(i: Value) -> Value:
            return summed(b, 0, j, lambda k: -(known.at(i, k) * conjugate(known.at(j, k))), element(i, j))

        pivot = real(rest(j))
        right = (pivot > 0.0) | (pivot != pivot)
        root = select(right, sqrt(select(right, pivot, 1.0)), math.nan)
        known.put(root.to(dtype), j, j)
        b.loop(j + 1, n, lambda i: known.put(over(rest(i), root), i, j))
        return (select(right | (code != 0), code, (j + 1).to(i32)),)

    (code,) = b.loop(0, n, column, first=(b.constant(0, i32),))

    def store(i: Value, j: Value) -> None:
        first, second = (j, i) if upper else (i, j)
        z = known.at(first, second)
        factor.put(select(first < second, b.constant(0.0, dtype), conjugate(z) if upper else z), i, j)

    each(b, n, n, store)
    info.put(code, 0, 0)
    return desk.built()
