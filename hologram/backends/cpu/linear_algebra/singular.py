"""Singular values and vectors: made bidiagonal by reflections on both sides, then diagonal by rotations.

Golub and Van Loan, "Matrix Computations", 8.6: implicit QR steps on the bidiagonal form, whose rotations turn the rows
of the transposed vectors, a whole step's at a time. Where a number of the diagonal is 0, what is beside it is turned
away first. A matrix with more columns than rows is taken as its adjoint.
"""

from __future__ import annotations

import math
from functools import partial

from hologram.backends.cpu.linear_algebra.desk import Desk, Unit
from hologram.backends.cpu.linear_algebra.numbers import Matrix, Number
from hologram.backends.cpu.linear_algebra.orthogonal import multiplied
from hologram.backends.cpu.linear_algebra.rotations import again, rotate_rows
from hologram.backends.cpu.linear_algebra.scaling import brought
from hologram.backends.cpu.linear_algebra.triangles import filled
from hologram.foundation.frozen import frozen

TOLD = 6  # of the lists of real numbers
MOST_STEPS = 60  # for a value
TINY = 2.0**-4  # of an epsilon of the largest number: what is smaller counts as 0


def svd(wide: bool) -> Unit:
    return partial(_singular, wide=wide)


def _singular(d: Desk, wide: bool) -> None:
    """x is (m, n), or (n, m) where it is `wide`; `width` are the vectors of length m that are asked for, n or more.

    `info` is 1 where a number is not finite, or no step converged; results are NaN then.
    """
    f, w = d.f, d.w
    m, n, width, long = (d.size[name] for name in ("m", "n", "width", "list"))
    x = d.given(0, n, m) if wide else d.given(0, m, n)
    values = d.given(2, n, is_real=True)
    u, vh = (d.given(1, n, n), d.given(3, width, m)) if wide else (d.given(1, m, width), d.given(3, n, n))
    a, left, right = d.first(), d.second(), d.third()

    def load(i: str, j: str) -> Number:
        z = x.at(j, i).conjugate() if wide else x.at(i, j)
        a.put(z, i, j)
        return z

    factor, finite = brought(d, a, m, lambda _: ("0", n), load)
    code = d.cell("i32", "1")
    bands = _Bands(d, left, right)

    def turned(rows: str, columns: str, out: Matrix) -> None:
        """The product's columns as rows, where its lists were."""
        d.each("0", columns, lambda i: d.over("0", long, lambda c: out.put_vector(f.zeros(), i, c)))
        d.each("0", rows, lambda i: d.each("0", columns, lambda j: out.put(a.at(i, j), j, i)))

    def find() -> None:
        _bidiagonal(d, a, left, right)
        multiplied(d, a, (m, n), left, d.list(0), d.list(2), 0, width)
        turned(m, width, left)
        multiplied(d, a, (n, w.i64("sub", n, 1)), right, d.list(1), d.list(2), 1)
        turned(n, n, right)
        code.put(bands.solved())
        brought(d, a, m, lambda _: ("0", n), load)
        again(d, a, (m, n), left, right)

    d.when(finite, find)
    failed = w(f"icmp ne i32 {code.value}, 0")
    d.told(4, code.value)

    def store() -> None:
        ones, others = (right, left) if wide else (left, right)
        to_left, to_right = (u, ones, n if wide else m), (vh, others)
        d.each("0", n, lambda k: _value_in_order(d, k, values, factor, to_left, to_right))
        if wide:  # rows that no value belongs to
            d.each(n, width, lambda k: d.each("0", m, lambda i: vh.put(left.at(k, i).conjugate(), k, i)))
        else:
            d.each(n, width, lambda k: d.each("0", m, lambda i: u.put(left.at(k, i), i, k)))

    d.unless(failed, store)

    def fill() -> None:
        d.each("0", n, lambda k: values.set(f.real(math.nan), k))
        filled(d, u, n if wide else m, n if wide else width)
        filled(d, vh, width if wide else n, m if wide else n)

    d.when(failed, fill)


def _bidiagonal(d: Desk, a: Matrix, left: Matrix, right: Matrix) -> None:
    """Leaves the diagonal, what is above it, and lists of reflections from both sides; their factors in two lists."""
    f, w = d.f, d.w
    m, n, row, long = (d.size[name] for name in ("m", "n", "row", "list"))
    diagonal, above, told = d.reals(0), d.reals(1), d.reals(TOLD)
    of_columns, of_rows, product, other = (d.list(k) for k in range(4))

    def reflect(j: str) -> None:
        v, following = left.line(j), w.i64("add", j, 1)
        start, columns = d.start(following), (d.start(following), row)
        d.each(j, m, lambda i: v.set(a.at(i, j), i))
        beta, tau = d.reflected(v, j, long, told)
        diagonal.set(f.real(beta), j)
        of_columns.set(tau, j)
        d.along(a, (j, m), columns, v, product, tau.conjugate())
        d.less(a, (j, m), columns, (v, product))

        def across() -> None:
            v = right.line(j)
            d.each(following, n, lambda c: v.set(a.at(j, c).conjugate(), c))
            beta, tau = d.reflected(v, following, long, told)
            above.set(f.real(beta), j)
            of_rows.set(tau, j)
            d.across(a, (following, m), columns, v, product, tau)
            d.over(start, row, lambda c: other.put_vector(v.vector("0", c).conjugate(), "0", c))
            d.less(a, (following, m), columns, (product, other))

        d.when(w(f"icmp slt i64 {following}, {n}"), across)

    d.each("0", n, reflect)


@frozen(eq=False)
class _Bands:
    """The diagonal and what is above it, and the vectors as rows that rotations turn."""

    d: Desk
    left: Matrix
    right: Matrix

    def solved(self) -> str:
        """Steps until nothing is above the diagonal; 1 where too many were taken."""
        d, w, n = self.d, self.d.w, self.d.size["n"]
        count, steps = d.cell("i64", n), d.cell("i64", "0")
        most = w.i64("mul", n, MOST_STEPS)

        def once() -> str:
            p = count.value
            last = w.i64("sub", p, 1)
            first, low = self._part(last)
            done = w(f"icmp eq i64 {first}, {last}")
            count.put(w(f"select i1 {done}, i64 {last}, i64 {p}"))
            d.unless(done, lambda: self._turned(first, low, last))
            steps.put(w.i64("add", steps.value, 1))
            more = w(f"icmp sgt i64 {count.value}, 0")
            return w(f"and i1 {more}, {w(f'icmp slt i64 {steps.value}, {most}')}")

        d.repeat(once)
        return w(f"zext i1 {w(f'icmp sgt i64 {count.value}, 0')} to i32")

    def _negligible(self, x: str, beside: str) -> str:
        """Whether a number counts as 0, by the size of its neighbours."""
        f = self.d.f
        epsilon = 2.0 ** -(f.part.mantissa + 1)
        bound = f.function("maxnum", beside, f.literal(TINY))
        return f.compared("ole", f.function("fabs", x), f.binary("fmul", bound, f.literal(epsilon)))

    def _sum(self, x: str, y: str) -> str:
        f = self.d.f
        return f.binary("fadd", f.function("fabs", x), f.function("fabs", y))

    def _part(self, last: str) -> tuple[str, str]:
        """From which row to `last` nothing above the diagonal is 0; and the last of these whose diagonal is, or -1."""
        d, f, w = self.d, self.d.f, self.d.w
        diagonal, above = d.reals(0), d.reals(1)
        first, zero = d.cell("i64", last), d.cell("i64", "-1")

        def look() -> str:
            k = first.value
            s = diagonal.item(k).real
            before = w.i64("sub", k, 1)
            at_start = w(f"icmp eq i64 {k}, 0")
            held = w(f"select i1 {at_start}, i64 0, i64 {before}")
            e = above.item(held).real
            apart = self._negligible(e, self._sum(s, diagonal.item(held).real))
            d.when(
                w(f"and i1 {apart}, {w(f'xor i1 {at_start}, true')}"), lambda: above.set(f.real(0.0), held)
            )
            none = w(f"and i1 {self._negligible(s, f.literal(0.0))}, {w(f'icmp slt i64 {zero.value}, 0')}")
            d.when(none, lambda: diagonal.set(f.real(0.0), k))
            zero.put(w(f"select i1 {none}, i64 {k}, i64 {zero.value}"))
            stop = w(f"or i1 {at_start}, {apart}")
            first.put(w(f"select i1 {stop}, i64 {k}, i64 {before}"))
            return w(f"xor i1 {stop}, true")

        d.repeat(look)
        return first.value, zero.value

    def _turned(self, first: str, zero: str, last: str) -> None:
        """One step of the rows first .. last."""
        d, w = self.d, self.d.w
        regular = w(f"icmp slt i64 {zero}, 0")
        d.when(regular, lambda: self._step(first, last))

        def singular() -> None:
            at_end = w(f"icmp eq i64 {zero}, {last}")
            d.when(at_end, lambda: self._column_away(first, last))
            d.unless(at_end, lambda: self._row_away(zero, last))

        d.unless(regular, singular)

    def _rotation(self, x: str, y: str) -> tuple[str, str, str]:
        """Cosine, sine and size of (x, y); no turn where both are 0."""
        f = self.d.f
        r = f.function("sqrt", f.fused(x, x, f.binary("fmul", y, y)))
        none = f.compared("oeq", r, f.literal(0.0))
        cosine = f.chosen(none, f.literal(1.0), f.binary("fdiv", x, r))
        return cosine, f.chosen(none, f.literal(0.0), f.binary("fdiv", y, r)), r

    def _pair(self, a: Matrix, one: str, other: str, cosine: str, sine: str) -> None:
        """Rows x and y become c x + s y and c y - s x: as two neighbours, at whatever distance."""
        d, w = self.d, self.d.w
        c, s = d.reals(2), d.reals(3)
        c.set(d.f.real(cosine), "0")
        s.set(d.f.real(sine), "0")
        apart = w.i64("mul", a.row, w.i64("sub", one, other))
        start = Matrix(d.f, a.line(other).address, apart, a.plane)
        # Of the rows 0 and 1 from there on, y and x, what rotate_rows makes are c y - s x and s y + c x.
        rotate_rows(d, start, ("0", "1"), c, s)

    def _column_away(self, first: str, last: str) -> None:
        """The diagonal ends in 0: what is above that is turned away, upwards."""
        d, f, w = self.d, self.d.f, self.d.w
        diagonal, above = d.reals(0), d.reals(1)
        before = w.i64("sub", last, 1)
        moved = d.cell(f.scalar, above.item(before).real)
        above.set(f.real(0.0), before)

        def away(k: str) -> None:
            j = w.i64("sub", before, w.i64("sub", k, first))
            cosine, sine, r = self._rotation(diagonal.item(j).real, moved.value)
            diagonal.set(f.real(r), j)

            def on() -> None:
                k = w.i64("sub", j, 1)
                e = above.item(k).real
                moved.put(f.negated(f.binary("fmul", sine, e)))
                above.set(f.real(f.binary("fmul", cosine, e)), k)

            d.when(w(f"icmp sgt i64 {j}, {first}"), on)
            self._pair(self.right, j, last, cosine, sine)

        d.each(first, last, away)

    def _row_away(self, zero: str, last: str) -> None:
        """What is beside a 0 of the diagonal is turned away, to the right."""
        d, f, w = self.d, self.d.f, self.d.w
        diagonal, above = d.reals(0), d.reals(1)
        moved = d.cell(f.scalar, above.item(zero).real)
        above.set(f.real(0.0), zero)

        def away(j: str) -> None:
            cosine, sine, r = self._rotation(diagonal.item(j).real, moved.value)
            diagonal.set(f.real(r), j)
            e = above.item(j).real
            moved.put(f.negated(f.binary("fmul", sine, e)))
            above.set(f.real(f.binary("fmul", cosine, e)), j)
            self._pair(self.left, j, zero, cosine, sine)

        d.each(w.i64("add", zero, 1), w.i64("add", last, 1), away)

    def _step(self, first: str, last: str) -> None:
        """One implicit QR step, shifted by the eigenvalue of the last 2 x 2 that is nearer to its end."""
        d, f, w, n = self.d, self.d.f, self.d.w, self.d.size["n"]
        diagonal, above, *turns = (d.reals(k) for k in range(6))
        begin, end = self._shifted(first, last)
        x, y = d.cell(f.scalar, begin), d.cell(f.scalar, end)

        def each(j: str) -> None:
            following, place = w.i64("add", j, 1), w.i64("sub", w.i64("sub", n, 1), j)
            s, e, below = diagonal.item(j).real, above.item(j).real, diagonal.item(following).real
            cosine, sine, r = self._rotation(x.value, y.value)
            d.when(w(f"icmp sgt i64 {j}, {first}"), lambda: above.set(f.real(r), w.i64("sub", j, 1)))
            p = f.fused(cosine, s, f.binary("fmul", sine, e))
            q = f.fused(cosine, e, f.negated(f.binary("fmul", sine, s)))
            rest, below = f.binary("fmul", sine, below), f.binary("fmul", cosine, below)
            turns[0].set(f.real(cosine), place)
            turns[1].set(f.real(sine), place)
            cosine, sine, r = self._rotation(p, rest)
            diagonal.set(f.real(r), j)
            x.put(f.fused(cosine, q, f.binary("fmul", sine, below)))
            diagonal.set(f.real(f.fused(cosine, below, f.negated(f.binary("fmul", sine, q)))), following)
            e = above.item(following).real
            y.put(f.binary("fmul", sine, e))
            above.set(f.real(f.binary("fmul", cosine, e)), following)
            turns[2].set(f.real(cosine), place)
            turns[3].set(f.real(sine), place)

        d.each(first, last, each)
        above.set(f.real(x.value), w.i64("sub", last, 1))
        # Counted from the last row on, so that it is the row above that goes on.
        rows = w.i64("sub", n, last), w.i64("sub", n, first)
        for a, cosines, sines in ((self.right, *turns[:2]), (self.left, *turns[2:])):
            back = Matrix(f, a.line(n).address, w.i64("sub", "0", a.row), a.plane)
            rotate_rows(d, back, rows, cosines, sines)

    def _shifted(self, first: str, last: str) -> tuple[str, str]:
        """What the first rotation turns."""
        d, f, w = self.d, self.d.f, self.d.w
        diagonal, above = d.reals(0), d.reals(1)
        before = w.i64("sub", last, 1)
        s, t, e = diagonal.item(last).real, diagonal.item(before).real, above.item(before).real
        low, beside = diagonal.item(first).real, above.item(first).real

        def product(x: str, y: str) -> str:
            """(x + y) (x - y)."""
            return f.binary("fmul", f.binary("fadd", x, y), f.binary("fsub", x, y))

        half = f.binary("fmul", f.fused(e, e, product(t, s)), f.literal(0.5))
        across = f.binary("fmul", s, e)
        square = f.binary("fmul", across, across)
        root = f.function("copysign", f.function("sqrt", f.fused(half, half, square)), half)
        divisor = f.binary("fadd", half, root)
        none = f.compared("oeq", divisor, f.literal(0.0))
        shift = f.chosen(none, f.literal(0.0), f.binary("fdiv", square, divisor))
        return f.binary("fadd", product(low, s), shift), f.binary("fmul", low, beside)


def _value_in_order(
    d: Desk,
    k: str,
    values: Matrix,
    factor: str,
    left: tuple[Matrix, Matrix, str],
    right: tuple[Matrix, Matrix],
) -> None:
    """Stores a value, in descending order, and its vectors, from where rows have them; the right one has the sign."""
    f, w, n = d.f, d.w, d.size["n"]
    (u, ones, rows), (vh, others), diagonal = left, right, d.reals(0)
    key = diagonal.item(k).real
    size = f.function("fabs", key)

    def before(j: str, rank: list[str]) -> list[str]:
        other = f.function("fabs", diagonal.item(j).real)
        equal = w(f"and i1 {f.compared('oeq', other, size)}, {w(f'icmp slt i64 {j}, {k}')}")
        ahead = w(f"or i1 {f.compared('ogt', other, size)}, {equal}")
        return [w.i64("add", rank[0], w(f"zext i1 {ahead} to i64"))]

    (rank,) = f.loop("0", n, "1", [("i64", "0")], before)
    values.set(f.real(f.binary("fdiv", size, factor)), rank)
    sign = f.real(f.function("copysign", f.literal(1.0), key))
    one, other = ones.line(k), others.line(k)
    d.each("0", rows, lambda i: u.put(one.item(i), i, rank))
    d.each("0", vh.row, lambda c: vh.put(other.item(c).conjugate() * sign, rank, c))
