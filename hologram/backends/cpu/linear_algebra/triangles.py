"""Cholesky's factor, and systems of equations by elimination (Golub and Van Loan, "Matrix Computations", 4.2, 3.4)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from hologram.backends.cpu.linear_algebra.desk import Desk, Unit
from hologram.backends.cpu.linear_algebra.numbers import Matrix, Number


def stepped(d: Desk, count: str, step: Callable[[str], str]) -> str:
    """Steps 0 .. count - 1, at least one, until one gives a code that is not 0, an i32: that, or 0."""
    w, code, number = d.w, d.cell("i32", "0"), d.cell("i64", "0")

    def once() -> str:
        k = number.value
        told, following = step(k), w.i64("add", k, 1)
        code.put(told)
        number.put(following)
        return w(f"and i1 {w(f'icmp eq i32 {told}, 0')}, {w(f'icmp slt i64 {following}, {count}')}")

    d.repeat(once)
    return code.value


def numbered(d: Desk, failed: str, k: str) -> str:
    """k + 1 where a step failed, an i32, else 0."""
    number = d.w(f"trunc i64 {d.w.i64('add', k, 1)} to i32")
    return d.w(f"select i1 {failed}, i32 {number}, i32 0")


def cholesky(upper: bool) -> Unit:
    return partial(_cholesky, upper=upper)


def _cholesky(d: Desk, upper: bool) -> None:
    """U with U^H U = x, row by row; `info` is the first leading matrix that is not positive definite.

    What is below U's diagonal is not looked at, whatever is there.
    """
    f, w, n, row = d.f, d.w, d.size["n"], d.size["row"]
    x, factor = d.given(0, n, n), d.given(1, n, n)
    a, column, along = d.first(), d.list(0), d.list(1)

    def turned(source: Matrix, i: str, j: str) -> Number:
        return source.at(i, j) if upper else source.at(j, i).conjugate()

    d.each("0", n, lambda i: d.each(i, n, lambda j: a.put(turned(x, i, j), i, j)))

    def step(j: str) -> str:
        start = d.start(j)
        d.each("0", j, lambda i: column.set(a.at(i, j), i))
        d.along(a, ("0", j), (start, row), column, along, f.number(-1.0))
        pivot = f.binary("fadd", a.at(j, j).real, along.item(j).real)
        good = f.compared("ugt", pivot, 0.0)  # NaN is no failure, as NumPy's
        root = f.function("sqrt", f.chosen(good, pivot, f.literal(math.nan)))
        inverse = f.real(f.binary("fdiv", f.literal(1.0), root)).spread()

        def part(c: str) -> None:
            z = a.vector(j, c) + along.vector("0", c)
            a.put_vector(z * inverse, j, c)

        d.over(start, row, part)
        a.put(f.number(0.0), j, j)
        a.put(f.real(root), j, j)
        return numbered(d, w(f"xor i1 {good}, true"), j)

    code = stepped(d, n, step)
    d.told(2, code)
    failed = w(f"icmp ne i32 {code}, 0")

    def store(i: str) -> None:
        following = w.i64("add", i, 1)
        low, high = (i, n) if upper else ("0", following)
        d.each(low, high, lambda j: factor.put(turned(a, i, j), i, j))
        low, high = ("0", i) if upper else (following, n)
        d.each(low, high, lambda j: factor.put(f.number(0.0), i, j))

    d.unless(failed, lambda: d.each("0", n, store))
    d.when(failed, lambda: filled(d, factor, n, n))


def filled(d: Desk, out: Matrix, rows: str, columns: str) -> None:
    """NaN everywhere."""
    d.each("0", rows, lambda i: d.each("0", columns, lambda j: out.put(d.f.number(math.nan), i, j)))


def solve(d: Desk) -> None:
    """Rows of [a b], exchanged so that pivots are large, lose what is left of the diagonal, and b what is right of it.

    b begins at a whole vector. `info` is the first pivot that is 0.
    """
    f, w, n, right, row = d.f, d.w, d.size["n"], d.size["right"], d.size["row"]
    given, sides, x = d.given(0, n, n), d.given(1, n, right), d.given(2, n, right)
    a, column = d.first(), d.list(0)
    beside = w.i64("and", w.i64("add", n, f.lanes - 1), -f.lanes)
    b = Matrix(f, w.element(a.address, f.scalar, beside), a.row, a.plane)

    def load(i: str) -> None:
        d.each("0", n, lambda j: a.put(given.at(i, j), i, j))
        d.each("0", right, lambda j: b.put(sides.at(i, j), i, j))

    d.each("0", n, load)

    def step(k: str) -> str:
        d.each(k, n, lambda i: column.set(a.at(i, k), i))
        best, low = _largest(d, column, k, n)
        start = d.start(k)

        def swap(c: str) -> None:
            one, other = a.vector(k, c), a.vector(best, c)
            a.put_vector(other, k, c)
            a.put_vector(one, best, c)

        pivot = column.item(best)
        column.set(column.item(k), best)
        d.over(start, row, swap)
        following = w.i64("add", k, 1)
        divided = _divider(d, pivot)
        d.over(
            d.start(following),
            d.size["list"],
            lambda c: column.put_vector(divided(column.vector("0", c)), "0", c),
        )
        d.less(a, (following, n), (d.start(following), row), (column, a.line(k)))
        return numbered(d, f.compared("oeq", low, 0.0), k)

    code = stepped(d, n, step)
    d.told(3, code)
    failed = w(f"icmp ne i32 {code}, 0")

    def back(k: str) -> None:
        divided = _divider(d, a.at(k, k))
        d.over(beside, row, lambda c: a.put_vector(divided(a.vector(k, c)), k, c))
        d.each("0", k, lambda i: column.set(a.at(i, k), i))
        d.less(a, ("0", k), (beside, row), (column, a.line(k)))

    d.unless(failed, lambda: d.falling(n, back))
    d.unless(failed, lambda: d.each("0", n, lambda i: d.each("0", right, lambda j: x.put(b.at(i, j), i, j))))
    d.when(failed, lambda: filled(d, x, n, right))


def _largest(d: Desk, column: Matrix, first: str, last: str) -> tuple[str, str]:
    """Where in a list the largest number is, by the sum of its parts' sizes, and that; the first where all are NaN."""
    f, w = d.f, d.w

    def size(z: Number) -> str:
        parts = [f.function("fabs", x) for x in z.parts]
        return parts[0] if f.count == 1 else f.binary("fadd", parts[0], parts[1])

    def each(i: str, held: list[str]) -> list[str]:
        at, best = held
        found = size(column.item(i))
        larger = f.compared("ogt", found, best)
        return [w(f"select i1 {larger}, i64 {i}, i64 {at}"), f.chosen(larger, found, best)]

    held = [("i64", first), (f.scalar, size(column.item(first)))]
    at, best = f.loop(first, last, "1", held, each)
    return at, best


def _divider(d: Desk, z: Number) -> Callable[[Number], Number]:
    """What divides vectors by a number; by a complex one in two steps, of which none overflows before its time."""
    f = d.f
    if f.count == 1:
        wide = z.spread().real
        return lambda x: x.over(wide)
    sizes: Sequence[str] = [f.function("fabs", x) for x in z.parts]
    peak = f.chosen(f.compared("ogt", sizes[0], sizes[1]), *sizes)
    unit = z.over(peak)
    inverse = unit.conjugate().over(unit.square()).spread()
    wide = f.real(peak).spread().real
    return lambda x: x.over(wide) * inverse
