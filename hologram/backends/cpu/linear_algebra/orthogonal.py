"""QR factors by Householder's reflections, row by row (Golub and Van Loan, "Matrix Computations", 5.2)."""

from __future__ import annotations

from hologram.backends.cpu.linear_algebra.desk import Desk, Span
from hologram.backends.cpu.linear_algebra.numbers import Matrix


def qr(d: Desk) -> None:
    """x is (m, n), q (m, width), r (width, n); the reflections' lists are the rows of the second matrix."""
    f, w, size = d.f, d.w, d.size
    m, n, width, row = (size[name] for name in ("m", "n", "width", "row"))
    x, q, r = d.given(0, m, n), d.given(1, m, width), d.given(2, width, n)
    a, lists, along, told = d.first(), d.second(), d.list(0), d.reals(0)
    taus = d.list(1)
    few = w.intrinsic("llvm.smin.i64", "i64", ("i64", m), ("i64", n))
    d.each("0", m, lambda i: d.each("0", n, lambda j: a.put(x.at(i, j), i, j)))

    def reflect(j: str) -> None:
        v = lists.line(j)
        d.each(j, m, lambda i: v.set(a.at(i, j), i))
        beta, tau = d.reflected(v, j, size["list"], told)
        taus.set(tau, j)
        following = w.i64("add", j, 1)
        start, rows = d.start(following), (j, m)
        d.along(a, rows, (start, row), v, along, tau.conjugate())
        d.each(start, following, lambda c: along.set(f.number(0.0), c))
        d.less(a, rows, (start, row), (v, along))
        a.put(f.number(0.0), j, j)
        a.put(f.real(beta), j, j)

    d.each("0", few, reflect)

    def upper(i: str) -> None:
        stop = w.intrinsic("llvm.smin.i64", "i64", ("i64", i), ("i64", n))
        d.each("0", stop, lambda j: r.put(f.number(0.0), i, j))
        d.each(i, n, lambda j: r.put(a.at(i, j), i, j))

    d.each("0", width, upper)
    multiplied(d, a, (m, few), lists, taus, along, 0, width)
    d.each("0", m, lambda i: d.each("0", width, lambda j: q.put(a.at(i, j), i, j)))


def multiplied(
    d: Desk, a: Matrix, sizes: Span, lists: Matrix, taus: Matrix, along: Matrix, beyond: int, width: str = ""
) -> None:
    """The product of so many reflections, in so many rows of a; the first `width` of its columns, or all.

    Reflection j begins at row j + beyond.
    """
    f, w, (rows, count) = d.f, d.w, sizes
    row = d.size["row"]
    d.each("0", rows, lambda i: d.over("0", row, lambda c: a.put_vector(f.zeros(), i, c)))
    d.each("0", width or rows, lambda i: a.put(f.number(1.0), i, i))

    def turn(j: str) -> None:
        first = w.i64("add", j, beyond) if beyond else j
        v, span, columns = lists.line(j), (first, rows), (d.start(first), row)
        d.along(a, span, columns, v, along, taus.item(j))
        d.less(a, span, columns, (v, along))

    d.falling(count, turn)
