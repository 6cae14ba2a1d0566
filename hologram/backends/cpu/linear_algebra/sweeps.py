"""The loops that take the time: products of a list with a matrix's columns, and what is taken from a matrix's rows.

A matrix lies row by row, columns filled up to whole vectors. A few vectors side by side are in registers while all rows
pass: `along` adds up, `less` multiplies; `across` adds up along rows. `reflected` makes a column the list of a
Householder reflection.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hologram.backends.cpu.linear_algebra.numbers import Field, Matrix, Number
from hologram.backends.cpu.llvm.writer import Writer
from hologram.foundation.dtypes import DType

CHAINS = 8  # of sums side by side, as many as hide what an addition takes
# Sums of squares below and above which numbers are scaled first, and the smallest normal number, by bits.
SAFE = {32: (1e-27, 1e36), 64: (1e-270, 1e300)}
SMALLEST = {32: 2.0**-126, 64: 2.0**-1022}


class Sweeps:
    """Writes them, and their calls, for a dtype and vectors of so many lanes."""

    def __init__(self, dtype: DType, lanes: int) -> None:
        self.dtype, self.lanes = dtype, lanes
        self.declarations: set[str] = set()
        self.metadata = ["distinct !{}"]
        self.field = Field(Writer(self.metadata), dtype, lanes)

    def function(self, name: str, given: str, body: Callable[[Field], None]) -> str:
        """A function of the module's own."""
        w = Writer(self.metadata)
        body(Field(w, self.dtype, self.lanes))
        w.do("ret void")
        self.declarations |= w.declarations
        return w.function(f"internal void @{name}({given})", "nounwind noinline")

    def text(self) -> list[str]:
        """The functions."""
        matrix = "ptr %a, i64 %row, i64 %plane, i64 %first, i64 %last, i64 %left, i64 %right"
        kind = self.field.scalar
        factor = f"{kind} %f_0" if self.field.count == 1 else f"{kind} %f_0, {kind} %f_1"
        return [
            self.function("along", f"{matrix}, ptr %v, ptr %w, {factor}", self._along),
            self.function("across", f"{matrix}, ptr %v, ptr %w, {factor}", self._across),
            self.function("less", f"{matrix}, ptr %v_0, ptr %w_0", lambda f: self._less(f, 1)),
            self.function(
                "less_both", f"{matrix}, ptr %v_0, ptr %w_0, ptr %v_1, ptr %w_1", lambda f: self._less(f, 2)
            ),
            self.function(
                "reflected", "ptr %v, i64 %plane, i64 %first, i64 %stop, ptr %told", self._reflected
            ),
        ]

    def _blocks(self, f: Field, most: int, block: Callable[[str, int], None]) -> None:
        """Columns from %left to %right, as many vectors at a time as there is code for."""
        w, position = f.w, "%left"
        for size in (4, 2, 1):
            if size > most:
                continue
            rest = w.i64("sub", "%right", position)
            stop = w.i64("add", position, w.i64("and", rest, -size * self.lanes))

            def each(c: str, _: list[str], size: int = size) -> Sequence[str]:
                block(c, size)
                return ()

            f.loop(position, stop, str(size * self.lanes), (), each)
            position = stop

    def _at(self, f: Field, c: str, k: int) -> str:
        return c if not k else f.w.i64("add", c, k * self.lanes)

    def _along(self, f: Field) -> None:
        """w = factor (v^H a), of the rows from first to last."""
        w = f.w
        a, v, out = Matrix(f, "%a", "%row", "%plane"), *(Matrix(f, x, "0", "%plane") for x in ("%v", "%w"))
        factor = Number(f, ("%f_0", "%f_1")[: f.count])

        def block(c: str, size: int) -> None:
            rounds = max(1, CHAINS // (size * f.count))

            def rows(i: str, sums: list[str], count: int) -> list[str]:
                totals = numbers(f, sums)
                for k in range(count):
                    row = i if not k else w.i64("add", i, k)
                    line, x = a.line(row), v.item(row).conjugate().spread()
                    for j in range(size):
                        at = k * size + j
                        totals[at] = totals[at].plus(x, line.vector("0", self._at(f, c, j)))
                return [x for total in totals for x in total.parts]

            rest = w.i64("sub", "%last", "%first")
            middle = w.i64("add", "%first", w.i64("and", rest, -rounds))
            zeros = [pair for _ in range(rounds * size) for pair in f.carried(f.zeros())]
            sums = numbers(f, f.loop("%first", middle, str(rounds), zeros, lambda i, s: rows(i, s, rounds)))
            while len(sums) > size:
                half = len(sums) // 2
                sums = [x + y for x, y in zip(sums[:half], sums[half:], strict=True)]
            held = [pair for total in sums for pair in f.carried(total)]
            sums = numbers(f, f.loop(middle, "%last", "1", held, lambda i, s: rows(i, s, 1)))
            for j, total in enumerate(sums):
                out.put_vector(total * factor.spread(), "0", self._at(f, c, j))

        self._blocks(f, 4, block)

    def _across(self, f: Field) -> None:
        """w = factor (a v), of the rows from first to last."""
        w = f.w
        a, v, out = Matrix(f, "%a", "%row", "%plane"), *(Matrix(f, x, "0", "%plane") for x in ("%v", "%w"))
        factor, position = Number(f, ("%f_0", "%f_1")[: f.count]), "%first"
        for count in (4, 1):
            stop = w.i64("add", position, w.i64("and", w.i64("sub", "%last", position), -count))

            def rows(i: str, count: int = count) -> None:
                places = [i if not k else w.i64("add", i, k) for k in range(count)]
                lines = [a.line(place) for place in places]

                def add(c: str, sums: list[str]) -> list[str]:
                    x = v.vector("0", c)
                    totals = [
                        s.plus(x, y.vector("0", c)) for s, y in zip(numbers(f, sums), lines, strict=True)
                    ]
                    return [part for total in totals for part in total.parts]

                zeros = [pair for _ in lines for pair in f.carried(f.zeros())]
                sums = f.loop("%left", "%right", str(self.lanes), zeros, add)
                for place, total in zip(places, numbers(f, sums), strict=True):
                    out.set(total.summed() * factor, place)

            f.each(position, stop, rows, count)
            position = stop

    def _less(self, f: Field, pairs: int) -> None:
        """a = a - v w, and less another such product, of the rows from first to last."""
        a = Matrix(f, "%a", "%row", "%plane")
        columns, rows = ([Matrix(f, f"%{x}_{k}", "0", "%plane") for k in range(pairs)] for x in "vw")

        def block(c: str, size: int) -> None:
            places = [self._at(f, c, j) for j in range(size)]
            taken = [[-x.vector("0", p) for p in places] for x in rows]

            def each(i: str, _: list[str]) -> Sequence[str]:
                line, factors = a.line(i), [x.item(i).spread() for x in columns]
                for j, place in enumerate(places):
                    z = line.vector("0", place)
                    for factor, x in zip(factors, taken, strict=True):
                        z = z.plus(factor, x[j])
                    line.put_vector(z, "0", place)
                return ()

            f.loop("%first", "%last", "1", (), each)

        self._blocks(f, CHAINS // (f.count * pairs), block)

    def _reflected(self, f: Field) -> None:
        """v, from the element `first` on, becomes that of 1 - tau v v^H, whose adjoint makes it (beta, 0, ...).

        Other elements are 0, up to `stop`. Tells beta and tau (LAPACK's larfg).
        """
        w, lanes, zero = f.w, self.lanes, f.literal(0.0)
        v = Matrix(f, "%v", "0", "%plane")
        told = Matrix(f, "%told", "0", "0", is_real=True)
        start = w.i64("and", "%first", -lanes)
        given = v.item("%first")
        v.set(f.number(0.0), "%first")

        def squares() -> str:
            def each(c: str, total: list[str]) -> list[str]:
                z = v.vector("0", c)
                return [f.binary("fadd", total[0], z.square(), lanes)]

            (sums,) = f.loop(start, "%stop", str(lanes), [(f.type(lanes), "zeroinitializer")], each)
            return Number(f, (sums,), lanes).summed().real

        def scaled(factor: Number) -> None:
            wide = factor.spread()

            def each(c: str, _: list[str]) -> Sequence[str]:
                v.put_vector(v.vector("0", c) * wide, "0", c)
                return ()

            f.loop(start, "%stop", str(lanes), (), each)

        below = squares()
        low, high = SAFE[f.part.bits]
        whole = f.binary("fadd", below, given.square())
        safe = w(f"and i1 {f.compared('ogt', below, low)}, {f.compared('olt', whole, high)}")
        careful, done = w.label("careful"), w.label("summed")
        before = w.block
        w.branch(safe, done, careful)
        w.place(careful)
        factor = self._factor(f, v, start, given)
        scaled(f.real(factor))
        again, shrunk = squares(), given * f.real(factor)
        last = w.block
        w.jump(done)
        w.place(done)
        one = f.literal(1.0)
        pairs = [(one, factor), (below, again), *zip(given.parts, shrunk.parts, strict=True)]
        factor, below, *parts = (w(f"phi {f.scalar} [ {x}, %{before} ], [ {y}, %{last} ]") for x, y in pairs)
        alpha = Number(f, tuple(parts))
        size = f.function("sqrt", f.binary("fadd", below, alpha.square()))
        beta = f.function("copysign", size, f.negated(alpha.real))
        flat = w(f"and i1 {f.compared('oeq', below, zero)}, {f.compared('oeq', alpha.imaginary, zero)}")
        difference = alpha - f.real(beta)
        if f.count == 1:
            inverse = Number(f, (f.binary("fdiv", one, difference.real),))
        else:
            inverse = difference.conjugate().over(difference.square())
        tau = [f.binary("fsub", beta, alpha.real), *(f.negated(x) for x in alpha.parts[1:])]
        tau = [f.chosen(flat, zero, f.binary("fdiv", x, beta)) for x in tau]
        scaled(Number(f, tuple(f.chosen(flat, zero, x) for x in inverse.parts)))
        v.set(f.number(1.0), "%first")
        beta = f.binary("fdiv", f.chosen(flat, alpha.real, beta), factor)
        for k, x in enumerate((beta, *tau)):
            told.set(f.real(x), str(k))

    def _factor(self, f: Field, v: Matrix, start: str, first: Number) -> str:
        """What makes the largest part 1, or less where that is next to nothing."""
        w, lanes = f.w, self.lanes
        kind, bits = f.type(lanes), f.part.bits

        def larger(x: str, y: str, lanes: int) -> str:
            kind, of = f.type(lanes), f"f{bits}" if lanes == 1 else f"v{lanes}f{bits}"
            size = w.intrinsic(f"llvm.fabs.{of}", kind, (kind, y))
            return w.intrinsic(f"llvm.maxnum.{of}", kind, (kind, x), (kind, size))

        def each(c: str, best: list[str]) -> list[str]:
            (x,) = best
            for part in v.vector("0", c).parts:
                x = larger(x, part, lanes)
            return [x]

        (best,) = f.loop(start, "%stop", str(lanes), [(kind, "zeroinitializer")], each)
        peak = w.intrinsic(f"llvm.vector.reduce.fmax.v{lanes}f{bits}", f.scalar, (kind, best))
        for part in first.parts:
            peak = larger(peak, part, 1)
        least = SMALLEST[bits]
        inverse = f.binary("fdiv", f.literal(1.0), peak)
        return f.chosen(f.compared("olt", peak, least), f.literal(1 / least), inverse)


def numbers(f: Field, registers: Sequence[str]) -> list[Number]:
    """Vectors, from what a loop carries."""
    return [Number(f, tuple(registers[k : k + f.count]), f.lanes) for k in range(0, len(registers), f.count)]
