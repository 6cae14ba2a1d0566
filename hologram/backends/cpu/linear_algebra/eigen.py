"""Eigenvalues and vectors of Hermitian matrices: made tridiagonal by reflections, then diagonal by rotations.

Golub and Van Loan, "Matrix Computations", 8.3: Householder's tridiagonal form, and implicit QL steps on that, whose
rotations turn the rows of the transposed vectors, a whole step's at a time.
"""

from __future__ import annotations

import math
from functools import partial

from hologram.backends.cpu.linear_algebra.desk import Desk, Unit
from hologram.backends.cpu.linear_algebra.numbers import Matrix, Number
from hologram.backends.cpu.linear_algebra.orthogonal import multiplied
from hologram.backends.cpu.linear_algebra.rotations import again, rotate_rows
from hologram.backends.cpu.linear_algebra.scaling import brought
from hologram.backends.cpu.linear_algebra.triangles import filled, stepped

DIAGONAL, BESIDE, COSINES, SINES, TOLD = range(5)  # lists of real numbers
MOST_STEPS = 60  # for an eigenvalue
# Roundings of the tridiagonal form's largest number: what is smaller is 0 beside the diagonal. A step that passes that
# number leaves as much in its place, so that less would never be left of a matrix of low rank.
LEFT = 1.0


def eigh(upper: bool) -> Unit:
    return partial(_eigen, upper=upper, vectors=True)


def eigvalsh(upper: bool) -> Unit:
    return partial(_eigen, upper=upper, vectors=False)


def _eigen(d: Desk, upper: bool, vectors: bool) -> None:
    """One triangle of x is read. `info` is 1 where that is not finite, or no step converged; results are NaN then."""
    f, w, n = d.f, d.w, d.size["n"]
    x, values = d.given(0, n, n), d.given(1, n, is_real=True)
    out = d.given(2, n, n) if vectors else None
    a, turned = d.first(), d.second()

    def load(i: str, j: str) -> Number:
        z = x.at(i, j)
        if f.count > 1:  # the diagonal is real
            z = Number(f, (z.real, f.chosen(w(f"icmp eq i64 {i}, {j}"), f.literal(0.0), z.imaginary)))
        a.put(z, i, j)
        a.put(z.conjugate(), j, i)
        return z

    def triangle(i: str) -> tuple[str, str]:
        return (i, n) if upper else ("0", w.i64("add", i, 1))

    factor, finite = brought(d, a, n, triangle, load)
    code = d.cell("i32", "1")

    def find() -> None:
        _tridiagonal(d, a, turned)
        if vectors:
            multiplied(d, a, (n, w.i64("sub", n, 1)), turned, d.list(0), d.list(1), 1)
            d.each("0", n, lambda i: d.each("0", n, lambda j: turned.put(a.at(j, i), i, j)))
        largest = _largest(d)
        code.put(stepped(d, n, lambda k: _found(d, k, largest, turned if vectors else None)))
        if vectors:
            brought(d, a, n, triangle, load)
            again(d, a, (n, n), turned, turned)

    d.when(finite, find)
    failed = w(f"icmp ne i32 {code.value}, 0")
    d.told(3 if vectors else 2, code.value)
    d.unless(failed, lambda: _sorted(d, values, out, turned, factor))

    def fill() -> None:
        d.each("0", n, lambda k: values.set(f.real(math.nan), k))
        if out is not None:
            filled(d, out, n, n)

    d.when(failed, fill)


def _tridiagonal(d: Desk, a: Matrix, lists: Matrix) -> None:
    """Leaves the diagonal, what is beside it, and the reflections' lists; their factors in the first list."""
    f, w, n, row = d.f, d.w, d.size["n"], d.size["row"]
    diagonal, beside, told = d.reals(DIAGONAL), d.reals(BESIDE), d.reals(TOLD)
    taus, q, turned_q, turned_v = (d.list(k) for k in range(4))
    last = w.i64("sub", n, 1)

    def reflect(j: str) -> None:
        following = w.i64("add", j, 1)
        v, rows, start = lists.line(j), (following, n), d.start(following)
        diagonal.set(f.real(a.at(j, j).real), j)
        d.each(following, n, lambda i: v.set(a.at(j, i).conjugate(), i))
        beta, tau = d.reflected(v, following, d.size["list"], told)
        beside.set(f.real(beta), j)
        taus.set(tau, j)
        d.along(a, rows, (start, row), v, turned_q, tau.conjugate())
        d.each(start, following, lambda c: turned_q.set(f.number(0.0), c))

        def product(c: str, held: list[str]) -> list[str]:
            total = Number(f, tuple(held), f.lanes)
            return list(total.plus(turned_q.vector("0", c), v.vector("0", c)).parts)

        held = f.loop(start, row, str(f.lanes), f.carried(f.zeros()), product)
        alpha = tau * Number(f, tuple(held), f.lanes).summed() * f.real(-0.5)
        wide = alpha.conjugate().spread()

        def complete(c: str) -> None:
            other = v.vector("0", c).conjugate()
            z = turned_q.vector("0", c) + wide * other
            turned_q.put_vector(z, "0", c)
            if f.count > 1:
                q.put_vector(z.conjugate(), "0", c)
                turned_v.put_vector(other, "0", c)

        d.over(start, row, complete)
        whole = (q, turned_v) if f.count > 1 else (turned_q, v)
        d.less(a, rows, (start, row), (v, turned_q), whole)

    d.each("0", last, reflect)
    diagonal.set(f.real(a.at(last, last).real), last)


def _largest(d: Desk) -> str:
    """The largest number of the tridiagonal form."""
    f, n = d.f, d.size["n"]
    found = f.literal(0.0)
    for numbers, count in ((d.reals(DIAGONAL), n), (d.reals(BESIDE), d.w.i64("sub", n, 1))):

        def larger(k: str, held: list[str], numbers: Matrix = numbers) -> list[str]:
            return [f.function("maxnum", held[0], f.function("fabs", numbers.item(k).real))]

        (found,) = f.loop("0", count, "1", [(f.scalar, found)], larger)
    return found


def _found(d: Desk, first: str, largest: str, turned: Matrix | None) -> str:
    """QL steps until nothing is beside the diagonal's element `first`; 1 where too many were taken."""
    f, w = d.f, d.w
    diagonal, beside = d.reals(DIAGONAL), d.reals(BESIDE)
    end = w.i64("sub", d.size["n"], 1)
    epsilon = 2.0 ** -(f.part.mantissa + 1)
    m, steps = d.cell("i64", first), d.cell("i32", "0")
    least = f.binary("fmul", largest, f.literal(LEFT))
    least = f.binary("fmul", least, least)

    def look() -> str:
        k = m.value
        following = w.i64("add", k, 1)
        e = beside.item(k).real
        size = f.function("fabs", f.binary("fmul", diagonal.item(k).real, diagonal.item(following).real))
        bound = f.binary("fmul", f.function("maxnum", size, least), f.literal(epsilon**2))
        small = f.compared("ole", f.binary("fmul", e, e), bound)
        stop = w(f"or i1 {small}, {w(f'icmp sge i64 {k}, {end}')}")
        m.put(w(f"select i1 {stop}, i64 {k}, i64 {following}"))
        return w(f"xor i1 {stop}, true")

    def once() -> str:
        m.put(first)
        d.repeat(look)
        last, count = m.value, w(f"add i32 {steps.value}, 1")
        left = w(f"icmp ne i64 {last}, {first}")
        d.when(left, lambda: _step(d, first, last, turned))
        steps.put(w(f"select i1 {left}, i32 {count}, i32 0"))
        return w(f"and i1 {left}, {w(f'icmp slt i32 {count}, {MOST_STEPS}')}")

    d.repeat(once)
    return w(f"zext i1 {w(f'icmp ne i32 {steps.value}, 0')} to i32")


def _step(d: Desk, first: str, last: str, turned: Matrix | None) -> None:
    """One implicit QL step of the rows first .. last, shifted by Wilkinson's."""
    f, w = d.f, d.w
    diagonal, beside, cosines, sines = (d.reals(k) for k in (DIAGONAL, BESIDE, COSINES, SINES))
    low, e = diagonal.item(first).real, beside.item(first).real
    one, zero = f.literal(1.0), f.literal(0.0)
    apart = f.binary("fsub", diagonal.item(w.i64("add", first, 1)).real, low)
    shift = f.binary("fdiv", apart, f.binary("fmul", e, f.literal(2.0)))
    size = f.function("sqrt", f.fused(shift, shift, one))
    shift = f.binary("fdiv", e, f.binary("fadd", shift, f.function("copysign", size, shift)))
    shift = f.binary("fadd", f.binary("fsub", diagonal.item(last).real, low), shift)
    row = d.cell("i64", w.i64("sub", last, 1))
    g, s, c, p = (d.cell(f.scalar, x) for x in (shift, one, one, zero))

    def rotate() -> str:
        """Rows i and i + 1; nothing where what is left falls apart there."""
        i = row.value
        below = w.i64("add", i, 1)
        e = beside.item(i).real
        height, b = f.binary("fmul", s.value, e), f.binary("fmul", c.value, e)
        r = f.function("sqrt", f.fused(height, height, f.binary("fmul", g.value, g.value)))
        beside.set(f.real(r), below)
        apart = f.compared("oeq", r, zero)

        def turn() -> None:
            sine, cosine = f.binary("fdiv", height, r), f.binary("fdiv", g.value, r)
            top = f.binary("fsub", diagonal.item(below).real, p.value)
            twice = f.binary("fmul", f.binary("fmul", cosine, f.literal(2.0)), b)
            change = f.fused(f.binary("fsub", diagonal.item(i).real, top), sine, twice)
            moved = f.binary("fmul", sine, change)
            diagonal.set(f.real(f.binary("fadd", top, moved)), below)
            if turned is not None:
                cosines.set(f.real(cosine), i)
                sines.set(f.real(sine), i)
            for cell, x in ((g, f.fused(cosine, change, f.negated(b))), (s, sine), (c, cosine), (p, moved)):
                cell.put(x)
            row.put(w.i64("sub", i, 1))

        d.unless(apart, turn)
        more = w(f"icmp sge i64 {row.value}, {first}")
        return w(f"and i1 {more}, {w(f'xor i1 {apart}, true')}")

    d.repeat(rotate)
    lowest = w.i64("add", row.value, 1)
    diagonal.set(f.real(f.binary("fsub", diagonal.item(lowest).real, p.value)), lowest)
    d.when(w(f"icmp eq i64 {lowest}, {first}"), lambda: beside.set(f.real(g.value), first))
    beside.set(f.real(0.0), last)
    if turned is not None:
        rotate_rows(d, turned, (lowest, last), cosines, sines)


def _sorted(d: Desk, values: Matrix, out: Matrix | None, turned: Matrix, factor: str) -> None:
    """Values in ascending order, equal ones as they were, and their vectors as columns."""
    f, w, n = d.f, d.w, d.size["n"]
    diagonal = d.reals(DIAGONAL)

    def stored(target: Matrix, line: Matrix, rank: str) -> None:
        d.each("0", n, lambda i: target.put(line.item(i), i, rank))

    def store(k: str) -> None:
        key = diagonal.item(k).real

        def before(j: str, rank: list[str]) -> list[str]:
            other = diagonal.item(j).real
            equal = w(f"and i1 {f.compared('oeq', other, key)}, {w(f'icmp slt i64 {j}, {k}')}")
            ahead = w(f"or i1 {f.compared('olt', other, key)}, {equal}")
            return [w.i64("add", rank[0], w(f"zext i1 {ahead} to i64"))]

        (rank,) = f.loop("0", n, "1", [("i64", "0")], before)
        values.set(f.real(f.binary("fdiv", key, factor)), rank)
        if out is not None:
            stored(out, turned.line(k), rank)

    d.each("0", n, store)
