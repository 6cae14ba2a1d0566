"""Eigenvalues and vectors of Hermitian matrices: made tridiagonal by reflections, then diagonal by rotations.

Golub and Van Loan, "Matrix Computations", 8.3: Householder's tridiagonal form, and implicit QL steps on that, whose
rotations turn the rows of the transposed vectors, a whole step's at a time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from hologram.backends.cpu.linear_algebra.desk import Desk, Unit
from hologram.backends.cpu.linear_algebra.numbers import Field, Matrix, Number
from hologram.backends.cpu.linear_algebra.triangles import filled, stepped

DIAGONAL, BESIDE, COSINES, SINES, TOLD = range(5)  # lists of real numbers
MOST_STEPS = 60  # for an eigenvalue
TINY = 2.0**-4  # of an epsilon of the largest number: what is smaller is 0 beside the diagonal


def eigh(upper: bool) -> Unit:
    return partial(_eigen, upper=upper, vectors=True)


def eigvalsh(upper: bool) -> Unit:
    return partial(_eigen, upper=upper, vectors=False)


def _eigen(d: Desk, upper: bool, vectors: bool) -> None:
    """One triangle of x is read. `info` is 1 where that is not finite, or no step converged; results are NaN then."""
    f, w, n, row = d.f, d.w, d.size["n"], d.size["row"]
    x, values = d.given(0, n, n), d.given(1, n, is_real=True)
    out = d.given(2, n, n) if vectors else None
    a, turned = d.first(), d.second()
    factor, finite = _brought(d, x, a, upper)
    failed, done = w.label("failed"), w.label("done")
    inside = w.label("finite")
    w.branch(finite, inside, failed)
    w.place(inside)
    _tridiagonal(d, a, turned)
    if vectors:
        _multiplied(d, a, turned)
        d.each("0", n, lambda i: d.each("0", n, lambda j: turned.put(a.at(j, i), i, j)))
    code = stepped(d, n, lambda l: _found(d, l, turned if vectors else None))
    solved = w.label("solved")
    w.branch(w(f"icmp eq i32 {code}, 0"), solved, failed)
    w.place(solved)
    _sorted(d, values, out, turned, factor)
    d.told(3 if vectors else 2, "0")
    w.jump(done)
    w.place(failed)
    d.each("0", n, lambda k: values.set(f.real(math.nan), k))
    if out is not None:
        filled(d, out, n, n)
    d.told(3 if vectors else 2, "1")
    w.jump(done)
    w.place(done)


def _brought(d: Desk, x: Matrix, a: Matrix, upper: bool) -> tuple[str, str]:
    """Fills a with the whole of x, times a power of 2 that makes the largest part about 1: that, and whether all is finite."""
    f, w, n = d.f, d.w, d.size["n"]
    kind, bits = f"i{f.part.bits}", f.part.bits
    mantissa, most = (23, 0xFF) if bits == 32 else (52, 0x7FF)
    peak = w.alloca(kind, 1)
    w.do(f"store {kind} 0, ptr {peak}, align 8")

    def load(i: str) -> None:
        low, high = (i, n) if upper else ("0", w.i64("add", i, 1))

        def each(j: str, held: list[str]) -> list[str]:
            z, best = x.at(i, j), held[0]
            on = w(f"icmp eq i64 {i}, {j}")
            if f.count > 1:  # the diagonal is real
                z = Number(f, (z.real, f.chosen(on, f.literal(0.0), z.imaginary)))
            for part in z.parts:  # sizes compare as integers do, NaN the largest
                raw = w(f"bitcast {f.scalar} {part} to {kind}")
                size = w(f"and {kind} {raw}, {(1 << (bits - 1)) - 1}")
                best = w.intrinsic(f"llvm.umax.{kind}", kind, (kind, best), (kind, size))
            a.put(z, i, j)
            a.put(z.conjugate(), j, i)
            return [best]

        (best,) = w.loop(low, high, "1", [(kind, w(f"load {kind}, ptr {peak}, align 8"))], each)
        w.do(f"store {kind} {best}, ptr {peak}, align 8")

    d.each("0", n, load)
    exponent = w(f"lshr {kind} {w(f'load {kind}, ptr {peak}, align 8')}, {mantissa}")
    finite = w(f"icmp ne {kind} {exponent}, {most}")
    # 2 * bias - exponent, held where that and its inverse are normal numbers.
    inverse = w(f"sub {kind} {most - 1}, {exponent}")
    inverse = w.intrinsic(f"llvm.smax.{kind}", kind, (kind, inverse), (kind, "1"))
    inverse = w.intrinsic(f"llvm.smin.{kind}", kind, (kind, inverse), (kind, str(most - 2)))
    factor = w(f"bitcast {kind} {w(f'shl {kind} {inverse}, {mantissa}')} to {f.scalar}")
    wide = f.real(factor).spread()
    d.each("0", n, lambda i: d.over("0", d.size["row"], lambda c: a.put_vector(a.vector(i, c) * wide, i, c)))
    return factor, finite


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

        held = w.loop(start, row, str(f.lanes), f.carried(f.zeros()), product)
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


def _multiplied(d: Desk, a: Matrix, lists: Matrix) -> None:
    """The reflections' product, in a."""
    f, w, n, row = d.f, d.w, d.size["n"], d.size["row"]
    taus, along = d.list(0), d.list(1)
    d.each("0", n, lambda i: d.over("0", row, lambda c: a.put_vector(f.zeros(), i, c)))
    d.each("0", n, lambda i: a.put(f.number(1.0), i, i))

    def turn(j: str) -> None:
        following = w.i64("add", j, 1)
        v, rows, columns = lists.line(j), (following, n), (d.start(following), row)
        d.along(a, rows, columns, v, along, taus.item(j))
        d.less(a, rows, columns, (v, along))

    d.falling(w.i64("sub", n, 1), turn)


def _found(d: Desk, l: str, turned: Matrix | None) -> str:
    """QL steps until nothing is beside the diagonal's element l; 1 where too many were taken."""
    f, w, n = d.f, d.w, d.size["n"]
    diagonal, beside = d.reals(DIAGONAL), d.reals(BESIDE)
    last = w.i64("sub", n, 1)
    epsilon = 2.0 ** -(f.part.mantissa + 1)
    steps = w.alloca("i32", 1)
    w.do(f"store i32 0, ptr {steps}, align 4")
    again, look, found, step, done = (w.label(x) for x in ("again", "look", "found", "step", "converged"))
    before = w.block
    w.jump(again)
    w.place(again)
    w.jump(look)
    w.place(look)
    m, following = w.name("m"), w.name("m")
    inner = w.label("inner")
    w.do(f"{m} = phi i64 [ {l}, %{again} ], [ {following}, %{inner} ]")
    at_end = w(f"icmp sge i64 {m}, {last}")
    compare = w.label("compare")
    w.branch(at_end, found, compare)
    w.place(compare)
    e = beside.item(m).real
    product = f.binary("fmul", diagonal.item(m).real, diagonal.item(w.i64("add", m, 1)).real)
    size = f.function("fabs", product)
    size = f.function("maxnum", size, f.literal(TINY**2))
    bound = f.binary("fmul", size, f.literal(epsilon**2))
    small = f.compared("ole", f.binary("fmul", e, e), bound)
    w.branch(small, found, inner)
    w.place(inner)
    w.do(f"{following} = add nsw i64 {m}, 1")
    w.jump(look)
    w.place(found)
    none, more = w.label("none"), w.label("more")
    w.branch(w(f"icmp eq i64 {m}, {l}"), none, more)
    w.place(more)
    taken = w(f"add i32 {w(f'load i32, ptr {steps}, align 4')}, 1")
    w.do(f"store i32 {taken}, ptr {steps}, align 4")
    w.branch(w(f"icmp sgt i32 {taken}, {MOST_STEPS}"), none, step)
    w.place(step)
    _step(d, l, m, turned)
    w.jump(again)
    w.place(none)
    code = w(f"phi i32 [ 0, %{found} ], [ 1, %{more} ]")
    w.jump(done)
    w.place(done)
    assert before
    return code


def _step(d: Desk, l: str, m: str, turned: Matrix | None) -> None:
    """One implicit QL step of the rows l .. m, shifted by Wilkinson's."""
    f, w = d.f, d.w
    diagonal, beside, cosines, sines = (d.reals(k) for k in (DIAGONAL, BESIDE, COSINES, SINES))
    first, e = diagonal.item(l).real, beside.item(l).real
    one, zero = f.literal(1.0), f.literal(0.0)
    difference = f.binary("fsub", diagonal.item(w.i64("add", l, 1)).real, first)
    g = f.binary("fdiv", difference, f.binary("fmul", e, f.literal(2.0)))
    r = f.function("sqrt", f.fused(g, g, one))
    g = f.binary("fadd", g, f.function("copysign", r, g))
    g = f.binary("fadd", f.binary("fsub", diagonal.item(m).real, first), f.binary("fdiv", e, g))
    # Rows i and i + 1 for i from m - 1 down to l.
    head, body, broken, after = (w.label(x) for x in ("head", "turn", "broken", "turned"))
    start = w.i64("sub", m, 1)
    before = w.block
    names = {x: w.name(x) for x in ("i", "g", "s", "c", "p")}
    following = {x: w.name(x) for x in ("i", "g", "s", "c", "p")}
    good = w.label("good")
    w.jump(head)
    w.place(head)
    w.do(f"{names['i']} = phi i64 [ {start}, %{before} ], [ {following['i']}, %{good} ]")
    for x, begin in (("g", g), ("s", one), ("c", one), ("p", zero)):
        w.do(f"{names[x]} = phi {f.scalar} [ {begin}, %{before} ], [ {following[x]}, %{good} ]")
    i, g, s, c, p = (names[x] for x in ("i", "g", "s", "c", "p"))
    w.branch(w(f"icmp sge i64 {i}, {l}"), body, after)
    w.place(body)
    e = beside.item(i).real
    upper = w.i64("add", i, 1)
    top, low = diagonal.item(upper).real, diagonal.item(i).real
    height, b = f.binary("fmul", s, e), f.binary("fmul", c, e)
    square = f.fused(height, height, f.binary("fmul", g, g))
    r = f.function("sqrt", square)
    beside.set(f.real(r), upper)
    w.branch(f.compared("oeq", r, zero), broken, good)
    w.place(good)
    inverse = f.binary("fdiv", one, r)
    s, c = f.binary("fmul", height, inverse), f.binary("fmul", g, inverse)
    g = f.binary("fsub", top, p)
    r = f.fused(f.binary("fsub", low, g), s, f.binary("fmul", f.binary("fmul", c, f.literal(2.0)), b))
    p = f.binary("fmul", s, r)
    diagonal.set(f.real(f.binary("fadd", g, p)), upper)
    if turned is not None:
        cosines.set(f.real(c), i)
        sines.set(f.real(s), i)
    for x, value in (("g", f.fused(c, r, f.negated(b))), ("s", s), ("c", c), ("p", p)):
        w.do(f"{following[x]} = fadd {f.scalar} {value}, {f.literal(-0.0)}")
    w.do(f"{following['i']} = add nsw i64 {i}, -1")
    w.jump(head)
    w.place(broken)  # what is left falls apart here
    diagonal.set(f.real(f.binary("fsub", top, names["p"])), upper)
    beside.set(f.real(0.0), m)
    lowest = w.i64("add", i, 1)
    w.jump(joined := w.label("joined"))
    w.place(after)
    diagonal.set(f.real(f.binary("fsub", diagonal.item(l).real, names["p"])), l)
    beside.set(f.real(names["g"]), l)
    beside.set(f.real(0.0), m)
    w.jump(joined)
    w.place(joined)
    end = w(f"phi i64 [ {lowest}, %{broken} ], [ {l}, %{after} ]")
    if turned is not None:
        w.do(
            f"call void @rotated(ptr {turned.address}, i64 {turned.row}, i64 {turned.plane}, i64 {end}, i64 {m}, "
            f"i64 {d.size['row']}, ptr {cosines.address}, ptr {sines.address})"
        )


ROTATED = "ptr %a, i64 %row, i64 %plane, i64 %low, i64 %high, i64 %right, ptr %c, ptr %s"


def rotated(f: Field) -> None:
    """Turns rows i and i + 1 of a, for i from high - 1 down to low: the upper one stays in registers."""
    w, a = f.w, Matrix(f, "%a", "%row", "%plane")
    cosines, sines = (Matrix(f, x, is_real=True) for x in ("%c", "%s"))
    count, last = w.i64("sub", "%high", "%low"), w.i64("sub", "%high", 1)
    position = "0"
    for size in (4, 2, 1):
        if size * f.count > 4 and size > 1:
            continue
        stop = w.i64("and", "%right", -size * f.lanes)

        def each(c: str, _: list[str], size: int = size) -> Sequence[str]:
            places = [w.i64("add", c, k * f.lanes) for k in range(size)]

            def turn(k: str, held: list[str]) -> list[str]:
                i = w.i64("sub", last, k)
                cosine, sine = cosines.item(i).spread(), sines.item(i).spread()
                above, line = a.line(w.i64("add", i, 1)), a.line(i)
                kept: list[str] = []
                for k, place in enumerate(places):
                    z = Number(f, tuple(held[k * f.count : (k + 1) * f.count]), f.lanes)
                    x = line.vector("0", place)
                    above.put_vector((x * sine).plus(cosine, z), "0", place)
                    kept += (x * cosine).plus(-sine, z).parts
                return kept

            first = a.line("%high")
            held = [pair for place in places for pair in f.carried(first.vector("0", place))]
            held = w.loop("0", count, "1", held, turn)
            end = a.line("%low")
            for k, place in enumerate(places):
                end.put_vector(Number(f, tuple(held[k * f.count : (k + 1) * f.count]), f.lanes), "0", place)
            return ()

        w.loop(position, stop, str(size * f.lanes), (), each)
        position = stop


def _sorted(d: Desk, values: Matrix, out: Matrix | None, turned: Matrix, factor: str) -> None:
    """Values in ascending order, equal ones as they were, and their vectors as columns."""
    f, w, n = d.f, d.w, d.size["n"]
    diagonal = d.reals(DIAGONAL)

    def store(k: str) -> None:
        key = diagonal.item(k).real

        def before(j: str, rank: list[str]) -> list[str]:
            other = diagonal.item(j).real
            equal = w(f"and i1 {f.compared('oeq', other, key)}, {w(f'icmp slt i64 {j}, {k}')}")
            ahead = w(f"or i1 {f.compared('olt', other, key)}, {equal}")
            return [w.i64("add", rank[0], w(f"zext i1 {ahead} to i64"))]

        (rank,) = w.loop("0", n, "1", [("i64", "0")], before)
        values.set(f.real(f.binary("fdiv", key, factor)), rank)
        if out is not None:
            line = turned.line(k)
            d.each("0", n, lambda i: out.put(line.item(i), i, rank))

    d.each("0", n, store)
