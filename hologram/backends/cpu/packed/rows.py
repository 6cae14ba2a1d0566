"""Code for products of few rows with packed weights: x becomes integers of 16 bits, and codes stay what they are.

Two steps of one launch:

- `prepare` turns x into integers q of 16 bits, 32 neighbours at a time, whose largest magnitude becomes 32,767: an
  error of 2**-16 of it. It also leaves, for each group of weights, the scale and the sum of these neighbours.
- `dots` gives each result as the sum over groups of scale * scale of x * sum(code * q) - offset * sum of x. The inner
  sum is of integers, and exact. Weights are read once, in order, for up to MOST_ROWS rows of x at a time.

Neighbours of x that are not finite, and scales that are not, make results NaN. A word of the launch for each line of
`ARGUMENTS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hologram.backends.cpu.llvm.writer import Writer
from hologram.backends.cpu.packed.decoding import (
    HALF,
    LANES,
    SUMS,
    UNIT,
    WIDE,
    WORDS,
    Decoding,
    splat,
    spread,
    words_of,
)

ARGUMENTS = (
    *("x", "codes", "scales", "high", "factors", "out", "room"),  # addresses
    *("m", "n", "units"),
    *("codes_row", "scales_row", "high_row", "factors_row"),  # bytes from row to row
)
PLANES = ("codes", "scales", "high", "factors")
SEGMENT = 256  # entries whose scales are worked out together
HEIGHTS = (4, 2, 1)  # rows of x that read weights together
_PADDING = 64  # bytes behind a row of integers: rows a power of two apart would share a few places of a cache
_SMALLEST = "0x39B4484C00000000"  # 1e-30: neighbours that are all smaller are rounded as if one were this
_INFINITY = "2139095040"  # its bits
_NAN = "0x7FF8000000000000"


def room_bytes(m: int, units: int, entries: int) -> int:
    """Of x as integers of at most 16 bits, and scales and sums of its entries."""
    return m * (units * (2 * UNIT + 8 * entries) + _PADDING) + 64


class Rows(Decoding):
    """Writes the functions of products of few rows, for one format and dtype of x."""

    arguments = ARGUMENTS
    functions = ("prepare", "dots")
    integer_bits = 16  # of x

    def text(self) -> str:
        """The module."""
        return self._module([*map(self._dot, HEIGHTS), self._prepare(), self._dots()])

    @property
    def unit_bytes(self) -> int:
        """Of a unit of x as integers."""
        return UNIT * self.integer_bits // 8

    def row_bytes(self, w: Writer, units: str) -> str:
        """How far rows of integers are apart."""
        return w(f"add i64 {w(f'mul i64 {units}, {self.unit_bytes}')}, {_PADDING}")

    def _room(self, w: Writer, word: dict[str, str]) -> tuple[str, str, str]:
        """Where integers, scales and sums of x begin: a row's integers, then the scales of all rows, then the sums."""
        above = w.element(word["room"], "i8", "63")
        integers = w.intrinsic("llvm.ptrmask.p0.i64", "ptr", ("ptr", above), ("i64", "-64"))
        total = w(f"mul i64 {word['m']}, {word['units']}")
        rows = w(f"mul i64 {word['m']}, {self.row_bytes(w, word['units'])}")
        scales = w.element(integers, "i8", rows)
        return integers, scales, w.element(scales, "i8", w(f"mul i64 {total}, {4 * self.entries}"))

    def _source(self, w: Writer, word: dict[str, str], number: str) -> str:
        """The unit of x that becomes the unit `number` of integers."""
        return number

    def _place(self, w: Writer, word: dict[str, str], number: str) -> str:
        """Bytes ahead of a unit of integers."""
        row = w(f"udiv i64 {number}, {word['units']}")
        before = w(f"mul i64 {row}, {_PADDING}")
        return w(f"add i64 {w(f'mul i64 {number}, {self.unit_bytes}')}, {before}")

    def _prepare(self) -> str:
        """Units begin .. end of all rows of x."""

        def body(w: Writer) -> None:
            word = words_of(w, self.arguments)
            integers, scales, sums = self._room(w, word)

            def unit(number: str, _: list[str]) -> Sequence[str]:
                source = w(f"mul i64 {self._source(w, word, number)}, {UNIT * self._dtype.itemsize}")
                first = w.element(word["x"], "i8", source)
                parts = [
                    self._vector_at(w, w.element(first, "i8", str(k * HALF * self._dtype.itemsize)), HALF)
                    for k in (0, 1)
                ]
                largest, finite = self._largest(w, parts)
                most = f"{(1 << self.integer_bits - 1) - 1}.0"
                inverse = w(f"fdiv float {most}, {largest}")
                inverse = w(f"select i1 {finite}, float {inverse}, float 0.0")
                step = w(f"fdiv float {largest}, {most}")
                step = w(f"select i1 {finite}, float {step}, float {_NAN}")
                to = w.element(integers, "i8", self._place(w, word, number))
                totals = [
                    self._rounded(
                        w, part, inverse, finite, w.element(to, "i8", str(k * self.unit_bytes // 2))
                    )
                    for k, part in enumerate(parts)
                ]
                if self.entries == 1:
                    totals = [w(f"add i32 {totals[0]}, {totals[1]}")]
                for k, total in enumerate(totals):
                    at = w(f"add i64 {w(f'mul i64 {number}, {self.entries}')}, {k}")
                    w.do(f"store float {step}, ptr {w.element(scales, 'float', at)}, align 4")
                    whole = w(f"fmul float {w(f'sitofp i32 {total} to float')}, {step}")
                    w.do(f"store float {whole}, ptr {w.element(sums, 'float', at)}, align 4")
                return ()

            w.loop("%begin", "%end", "1", (), unit)

        return self._function("void @prepare(ptr %arguments, i64 %begin, i64 %end)", body)

    def _largest(self, w: Writer, parts: Sequence[str]) -> tuple[str, str]:
        """The largest magnitude, and whether all are finite: as integers, where NaN is above infinity."""
        bits = []
        for part in parts:
            raw = w(f"bitcast <{HALF} x float> {part} to <{HALF} x i32>")
            bits.append(w(f"and <{HALF} x i32> {raw}, {splat(HALF, 'i32', 0x7FFFFFFF)}"))
        type_ = f"<{HALF} x i32>"
        both = w.intrinsic(f"llvm.umax.v{HALF}i32", type_, (type_, bits[0]), (type_, bits[1]))
        found = w.intrinsic(f"llvm.vector.reduce.umax.v{HALF}i32", "i32", (type_, both))
        finite = w(f"icmp ult i32 {found}, {_INFINITY}")
        value = w(f"bitcast i32 {found} to float")
        above = w(f"fcmp ogt float {value}, {_SMALLEST}")
        return w(f"select i1 {above}, float {value}, float {_SMALLEST}"), finite

    def _rounded(self, w: Writer, part: str, inverse: str, finite: str, to: str) -> str:
        """Stores half a unit as integers, and gives their sum."""
        floats = f"<{HALF} x float>"
        kept = w(f"select i1 {finite}, {floats} {part}, {floats} zeroinitializer")
        scaled = w(f"fmul {floats} {kept}, {spread(w, 'float', inverse, HALF)}")
        rounded = w.intrinsic(f"llvm.rint.v{HALF}f32", floats, (floats, scaled))
        wide = w(f"fptosi {floats} {rounded} to <{HALF} x i32>")
        kind = f"<{HALF} x i{self.integer_bits}>"
        w.do(f"store {kind} {w(f'trunc <{HALF} x i32> {wide} to {kind}')}, ptr {to}, align 16")
        return w.intrinsic(f"llvm.vector.reduce.add.v{HALF}i32", "i32", (f"<{HALF} x i32>", wide))

    def _dots(self) -> str:
        """Rows begin .. end of the weights, times all rows of x."""

        def body(w: Writer) -> None:
            word = words_of(w, ARGUMENTS)
            room, columns = self._room(w, word), word["n"]

            def column(n: str, _: list[str]) -> Sequence[str]:
                planes = [w.element(word[p], "i8", w(f"mul i64 {n}, {word[p + '_row']}")) for p in PLANES]
                first = "0"
                for height in HEIGHTS:
                    stop = word["m"] if height == 1 else w(f"and i64 {word['m']}, {-height}")

                    def rows(r: str, _: list[str], height: int = height) -> Sequence[str]:
                        to = w(f"add i64 {w(f'mul i64 {r}, {columns}')}, {n}")
                        out = w.element(word["out"], "float", to)
                        self._called(w, height, room, r, planes, out, columns, word["units"])
                        return ()

                    w.loop(first, stop, str(height), (), rows)
                    first = stop
                return ()

            w.loop("%begin", "%end", "1", (), column)

        return self._function("void @dots(ptr %arguments, i64 %begin, i64 %end)", body)

    def _called(
        self,
        w: Writer,
        height: int,
        room: tuple[str, str, str],
        row: str,
        planes: Sequence[str],
        out: str,
        apart: str,
        units: str,
    ) -> None:
        """So many rows of x, from one on, times a row of weights: results are so many elements `apart`."""
        integers, scales, sums = room
        entry = w(f"mul i64 {w(f'mul i64 {row}, {units}')}, {self.entries}")
        at = w.element(integers, "i8", w(f"mul i64 {row}, {self.row_bytes(w, units)}"))
        places = (at, *(w.element(p, "float", entry) for p in (scales, sums)), *planes, out)
        told = ", ".join(f"ptr {p}" for p in places)
        w.do(f"call void @dot{height}({told}, i64 {units}, i64 {apart})")

    def _dot(self, rows: int) -> str:
        """So many results of one row of weights, segment by segment."""
        names = ("x.integers", "x.scales", "x.sums", *(f"p.{n}" for n in PLANES), "x.out")
        arguments = ", ".join(f"ptr noalias %{n}" for n in names)

        def body(w: Writer) -> None:
            places = {n: f"%p.{n}" for n in PLANES}
            made = w.alloca("float", rows * SEGMENT)
            total = w(f"mul i64 %units, {self.entries}")
            zero = [(LANES, "zeroinitializer")] * rows + [("float", "0.0")] * rows

            def segment(first: str, before: list[str]) -> Sequence[str]:
                stop = self._least(w, w(f"add i64 {first}, {SEGMENT}"), total)
                after = self._scaled(w, places, made, (first, stop, total), before[rows:])
                count = w(f"udiv i64 {w(f'sub i64 {stop}, {first}')}, {self.entries}")
                unit = w(f"udiv i64 {first}, {self.entries}")
                return [*self._added(w, places, made, (unit, count), before[:rows]), *after]

            found = w.loop("0", total, str(SEGMENT), zero, segment)
            name = f"llvm.vector.reduce.fadd.v{WIDE}f32"
            self.declarations.add(f"declare float @{name}(float, {LANES})")
            for r, (lanes, less) in enumerate(zip(found[:rows], found[rows:], strict=True)):
                value = w(f"call reassoc float @{name}(float {less}, {LANES} {lanes})")
                at = w.element("%x.out", "float", w(f"mul i64 %n, {r}"))
                w.do(f"store float {value}, ptr {at}, align 4")

        return self._function(f"internal void @dot{rows}({arguments}, i64 %units, i64 %n)", body)

    def _scaled(
        self,
        w: Writer,
        places: dict[str, str],
        made: str,
        bounds: tuple[str, str, str],
        before: Sequence[str],
    ) -> list[str]:
        """Leaves the entries' scales, weights' times x's, for each row in `made`; gives what offsets add to results."""
        first, stop, total = bounds
        rows = len(before)
        count_ = w(f"sub i64 {stop}, {first}")
        middle = w(f"add i64 {first}, {w(f'and i64 {count_}, {-WIDE}')}")
        begin = first
        singles = list(before)
        for count in (WIDE, 1) if self.together else (1,):
            type_ = LANES if count > 1 else "float"
            end = middle if count > 1 else stop

            def entry(e: str, sums: list[str], count: int = count, type_: str = type_) -> Sequence[str]:
                scale, *minimum = self.scales(w, places, e, count)
                offset = minimum[0] if minimum else None
                centre = self.centre(w, places, e, count, "float")
                if centre is not None:
                    below = w(f"fmul {type_} {scale}, {centre}")
                    offset = below if offset is None else w(f"fadd {type_} {offset}, {below}")
                after = []
                for r in range(rows):
                    at = w(f"add i64 {w(f'mul i64 {total}, {r}')}, {e}")
                    of_x = w(f"load {type_}, ptr {w.element('%x.scales', 'float', at)}, align 4")
                    here = w(f"add i64 {w(f'sub i64 {e}, {first}')}, {r * SEGMENT}")
                    product = w(f"fmul {type_} {scale}, {of_x}")
                    w.do(f"store {type_} {product}, ptr {w.element(made, 'float', here)}, align 4")
                    # A scale that is not finite makes the result NaN: times 0, where nothing else is added.
                    whole = splat(count, "float", "0.0") if count > 1 else "0.0"
                    left = w(f"fmul {type_} {scale}, {whole}")
                    if offset is not None:
                        sum_ = w(f"load {type_}, ptr {w.element('%x.sums', 'float', at)}, align 4")
                        left = w(f"fsub {type_} {left}, {w(f'fmul {type_} {offset}, {sum_}')}")
                    after.append(w(f"fadd {type_} {sums[r]}, {left}"))
                return after

            start = [(type_, "zeroinitializer")] * rows if count > 1 else [("float", s) for s in singles]
            found = w.loop(begin, end, str(count), start, entry)
            if count > 1:
                name = f"llvm.vector.reduce.fadd.v{WIDE}f32"
                self.declarations.add(f"declare float @{name}(float, {LANES})")
                singles = [
                    w(f"call reassoc float @{name}(float {one}, {LANES} {lanes})")
                    for one, lanes in zip(singles, found, strict=True)
                ]
                begin = end
            else:
                singles = found
        return singles

    def _added(
        self,
        w: Writer,
        places: dict[str, str],
        made: str,
        units: tuple[str, str],
        before: Sequence[str],
    ) -> list[str]:
        """Sums of codes times integers, scaled, for a segment of so many units from one on.

        Each sum of a turn has an accumulator of its own: additions one after the other would wait for each other.
        """
        first, count = units
        rows = len(before)
        together = 2 if rows == 1 else 1  # units of a turn
        each = rows * self.entries

        def turn(copies: int) -> Callable[[str, list[str]], Sequence[str]]:
            def unit(number: str, sums: list[str]) -> Sequence[str]:
                after = list(sums)
                for k in range(copies):
                    here = w(f"add i64 {number}, {k}")
                    part = slice(k * each, (k + 1) * each)
                    after[part] = self._unit(w, places, made, (first, here), sums[part])
                return after

            return unit

        zero = [(LANES, "zeroinitializer")] * (together * each - rows)
        sums = w.loop(
            "0",
            w(f"and i64 {count}, {-together}"),
            str(together),
            [*((LANES, s) for s in before), *zero],
            turn(together),
        )
        if together > 1:
            begin = w(f"and i64 {count}, {-together}")
            sums = w.loop(begin, count, "1", [(LANES, s) for s in sums], turn(1))
        found = sums[:rows]
        for k in range(rows, len(sums)):
            found[k % rows] = w(f"fadd {LANES} {found[k % rows]}, {sums[k]}")
        return found

    def _unit(
        self, w: Writer, places: dict[str, str], made: str, at: tuple[str, str], before: Sequence[str]
    ) -> list[str]:
        """The sums with a unit added, the one so far behind the first of the segment: of all rows, entry by entry."""
        first, number = at
        rows = len(before) // self.entries
        place = w(f"add i64 {first}, {number}")
        codes = w.element(places["codes"], "i8", w(f"mul i64 {place}, {4 * self.format.bits}"))
        high = None
        if self.format.high:
            high = w.element(places["high"], "i8", w(f"mul i64 {place}, {4 * self.format.high}"))
        halves = self.codes(w, codes, high)
        after = list(before)
        for r in range(rows):
            row = w(f"add i64 {w(f'mul i64 %units, {r}')}, {place}")
            x = w.element(
                "%x.integers", "i8", w(f"add i64 {w(f'mul i64 {row}, {2 * UNIT}')}, {r * _PADDING}")
            )
            products = [
                self.multiplied(
                    w, half, w(f"load {WORDS}, ptr {w.element(x, 'i16', str(k * HALF))}, align 32")
                )
                for k, half in enumerate(halves)
            ]
            if self.entries == 1:
                products = [w(f"add {SUMS} {products[0]}, {products[1]}")]
            for k, product in enumerate(products):
                entry = w(f"add i64 {w(f'mul i64 {number}, {self.entries}')}, {r * SEGMENT + k}")
                scale = w(f"load float, ptr {w.element(made, 'float', entry)}, align 4")
                floats = w(f"sitofp {SUMS} {product} to {LANES}")
                to = k * rows + r
                after[to] = self._fused(w, LANES, floats, spread(w, "float", scale, WIDE), before[to])
        return after
