"""QR factors of small matrices by Householder's reflections, a lane for each."""

from __future__ import annotations

from functools import lru_cache

from hologram.atlas.builder import Builder, Value
from hologram.atlas.complex_parts import conjugate, imag, pair, parts, real
from hologram.atlas.functions import absolute, select, sqrt
from hologram.foundation.dtypes import DType, index
from hologram.opset.linear_algebra.small.matrix import (
    Built,
    Desk,
    Made,
    Own,
    Size,
    brought,
    each,
    identity,
    made,
    over,
    read,
    scaled,
    square,
    summed,
    written,
)


def _reflected(x: Own, taus: Own, j: Value, smallest: float) -> None:
    """Has column j end at its diagonal: x = H^H x for H = 1 - tau v v^H; v, but for its 1, is what lies under there."""
    b, m, n, dtype = x.b, x.rows, x.columns, x.dtype
    zero, one = b.constant(0.0, dtype), b.constant(1.0, dtype)

    # Times a factor by which the largest is 1: squares of small numbers are none.
    def larger(i: Value, best: Value) -> tuple[Value]:
        for u in parts(x.at(i, j)):
            best = select(absolute(u) > best, absolute(u), best)
        return (best,)

    (peak,) = b.loop(j, m, larger, first=(real(zero),))
    empty = peak < smallest
    factor = 1.0 / select(empty, 1.0, peak)
    under = summed(b, j + 1, m, lambda i: square(scaled(x.at(i, j), factor)), real(zero))
    known = x.at(j, j)
    alpha = scaled(known, factor)
    size = sqrt(under + square(alpha))
    beta = select(real(alpha) > 0.0, -size, size)
    flat = empty | ((under == 0.0) & (imag(alpha) == 0.0))
    divisor = select(flat, one, alpha - beta.to(dtype))
    safe = select(flat, 1.0, beta)
    tau = (safe - real(alpha)) / safe
    whole = pair(tau, -(imag(alpha) / safe)) if dtype.is_complex else tau
    whole = select(flat, zero, whole)
    taus.put(whole, j)

    def reflector(i: Value) -> None:
        x.put(select(flat, zero, scaled(x.at(i, j), factor) / divisor), i, j)

    b.loop(j + 1, m, reflector)
    x.put(select(flat, known, (beta / factor).to(dtype)), j, j)
    b.loop(j + 1, n, lambda k: turned(x, conjugate(whole), j, x, k))


def turned(v: Own, tau: Value, j: Value, x: Own, column: Value) -> None:
    """A column of x without tau v (v^H x), for v the reflector of column j."""
    b, m = x.b, x.rows
    along = summed(b, j + 1, m, lambda i: conjugate(v.at(i, j)) * x.at(i, column), x.at(j, column))
    along = tau * along
    x.put(x.at(j, column) - along, j, column)
    b.loop(j + 1, m, lambda i: x.put(x.at(i, column) - v.at(i, j) * along, i, column))


def qr(dtype: DType, x: Size, complete: bool) -> Made:
    m, n = x
    return made(_qr(dtype), max(x), m=m, n=n, width=m if complete else min(x))


@lru_cache(maxsize=16)
def _qr(dtype: DType) -> Built:
    b = Builder(f"atlas_small_qr_{dtype}", rank=1)
    m, n, width = (b.scalar(name, index) for name in ("m", "n", "width"))
    few = select(m < n, m, n)
    given = read(b, "x", dtype, m, n)
    q, r = written(b, "q", dtype, m, width), written(b, "r", dtype, width, n)
    desk = Desk(b)
    known, taus = desk.own(dtype, m, n), desk.own(dtype, few)
    out = desk.own(dtype, m, width)
    factor, _, _ = brought(given, known, given.at)
    smallest = 2.0 ** -(100 if dtype.part.bits == 32 else 900)
    b.loop(0, few, lambda j: _reflected(known, taus, j, smallest))
    none = b.constant(0.0, dtype)
    each(b, width, n, lambda i, j: r.put(select(j < i, none, over(known.at(i, j), factor)), i, j))
    identity(out)

    def back(step: Value) -> None:
        j = few - 1 - step
        b.loop(j, width, lambda k: turned(known, taus.at(j), j, out, k))

    b.loop(0, few, back)
    each(b, m, width, lambda i, j: q.put(out.at(i, j), i, j))
    return desk.built()
