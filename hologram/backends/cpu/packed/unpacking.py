"""Code that unpacks codes of several rows of weights side by side, so that lanes of vectors are rows.

Codes of a unit are words whose four bytes are four neighbours (opset/packed/formats.py). So it is words that are turned
round, before they are unpacked: 4 words of 4 rows are two rounds of interleaving.
"""

from __future__ import annotations

from collections.abc import Sequence

from hologram.backends.cpu.llvm.writer import Writer
from hologram.backends.cpu.packed.decoding import WIDE, Decoding, Machine, listed, splat
from hologram.opset.packed.formats import UNIT

PLANES = ("codes", "scales", "high", "factors")
QUAD = 4  # neighbours in a word
PAIRS = UNIT // 2
OUT = ("%scales", "%offsets")


def lanes_of(machine: Machine) -> int:
    """Rows of weights that are multiplied side by side."""
    return max(machine.bits // 32, WIDE)


class Unpacking(Decoding):
    """Writes the function, for one format."""

    @property
    def lanes(self) -> int:
        """Rows of weights that are multiplied side by side."""
        return lanes_of(self.machine)

    @property
    def lane_words(self) -> str:
        return f"<{self.lanes} x i32>"

    @property
    def lane_floats(self) -> str:
        return f"<{self.lanes} x float>"

    @property
    def steps(self) -> int:
        """Vectors of 32 bits a lane that the codes of a unit are."""
        return PAIRS

    @property
    def step_type(self) -> str:
        """What such a vector holds: pairs of neighbours."""
        return f"<{2 * self.lanes} x i16>"

    def _unpacked(self) -> str:
        """A segment of units of `lanes` rows: codes by pairs, and scales and offsets by entries."""

        def body(w: Writer) -> None:
            def unit(number: str, _: list[str]) -> Sequence[str]:
                place = w(f"add i64 %first, {number}")
                to = w.element("%codes", "i8", w(f"mul i64 {number}, {self.steps * self.lanes * 4}"))
                for k, pair in enumerate(self._codes_of(w, place)):
                    at = w.element(to, "i8", str(k * self.lanes * 4))
                    w.do(f"store {self.step_type} {pair}, ptr {at}, align 32")
                return ()

            turned = self._turned_scales(w)

            def lane(number: str, _: list[str]) -> Sequence[str]:
                places = {
                    name: w(f"load ptr, ptr {self._row_place(w, name, number)}, align 8") for name in PLANES
                }
                first, middle, stop = (
                    w(f"mul i64 {w(f'add i64 %first, {x}')}, {self.entries}") for x in ("0", turned, "%units")
                )
                for count in (WIDE, 1) if self.together and not self.units_turned else (1,):
                    begin, end = middle, stop
                    if count > 1:
                        whole = w(f"and i64 {w(f'sub i64 {stop}, {first}')}, {-count}")
                        middle = end = w(f"add i64 {first}, {whole}")

                    def entry(e: str, _: list[str], count: int = count) -> Sequence[str]:
                        at = w(f"sub i64 {e}, {first}")
                        at = w(f"add i64 {w(f'mul i64 {at}, {self.lanes}')}, {number}")
                        scales, centre = (
                            self.scales(w, places, e, count),
                            self.centre(w, places, e, count, "float"),
                        )
                        type_ = "float" if count == 1 else f"<{count} x float>"
                        for plane, value in zip(OUT, self._terms(w, type_, scales, centre), strict=False):
                            self._scattered(w, value, count, plane, at)
                        return ()

                    w.loop(begin, end, str(count), (), entry)
                return ()

            w.loop("0", "%units", "1", (), unit)
            rest = w(f"icmp slt i64 {turned}, %units")
            w.loop("0", w(f"select i1 {rest}, i64 {self.lanes}, i64 0"), "1", (), lane)

        arguments = (
            "ptr %rows, i64 %first, i64 %units, ptr noalias %codes, ptr noalias %scales, ptr noalias %offsets"
        )
        return self._function(f"internal void @unpacked({arguments})", body)

    def _row_place(self, w: Writer, plane: str, lane: str) -> str:
        """Where the table of rows keeps the address of a plane's row."""
        at = w(f"add i64 {lane}, {PLANES.index(plane) * self.lanes}")
        return w.element("%rows", "ptr", at)

    @property
    def units_turned(self) -> int:
        """Units whose scales are turned round together as words of codes are; 0: they are stored one by one."""
        format = self.format
        words = format.scale.itemsize == 2 and format.block == format.group == UNIT and not format.factored
        return (QUAD if format.minima else 2 * QUAD) if words and not format.zeros else 0

    def _turned_scales(self, w: Writer) -> str:
        """Stores the terms of as many units as are turned round together; gives of how many."""
        together, pairs = self.units_turned, self.format.minima
        if not together:
            return "0"
        turned = w(f"and i64 %units, {-together}")

        def units(number: str, _: list[str]) -> Sequence[str]:
            offset = w(f"mul i64 {w(f'add i64 %first, {number}')}, {4 * QUAD // together}")
            words = self._turned_four(w, self._rows_at(w, "scales", offset), 0)
            halves = [self._half(w, word, upper) for word in words for upper in (False, True)]
            each = [halves[k : k + 1 + pairs] for k in range(0, len(halves), 1 + pairs)]
            for k, scales in enumerate(each):
                at = w(f"mul i64 {w(f'add i64 {number}, {k}')}, {self.lanes}")
                centre = self.centre(w, {}, "", self.lanes, "float")
                for plane, value in zip(OUT, self._terms(w, self.lane_floats, scales, centre), strict=False):
                    w.do(f"store {self.lane_floats} {value}, ptr {w.element(plane, 'float', at)}, align 32")
            return ()

        w.loop("0", turned, str(together), (), units)
        return turned

    def _half(self, w: Writer, words: str, upper: bool) -> str:
        """The lower or upper 16 bits of words, which are scales, as floats."""
        count = self.lanes
        if self.format.scale.name == "bf16":
            moved = w(
                f"{'and' if upper else 'shl'} {self.lane_words} {words}, {splat(count, 'i32', -65536 if upper else 16)}"
            )
            return w(f"bitcast {self.lane_words} {moved} to {self.lane_floats}")
        if upper:
            words = w(f"lshr {self.lane_words} {words}, {splat(count, 'i32', 16)}")
        short = w(f"trunc {self.lane_words} {words} to <{count} x i16>")
        return w(
            f"fpext <{count} x half> {w(f'bitcast <{count} x i16> {short} to <{count} x half>')} to {self.lane_floats}"
        )

    def _terms(self, w: Writer, type_: str, scales: Sequence[str], centre: str | None) -> list[str]:
        """Scales of entries, and if there are any, offsets: what a sum of x is multiplied by and taken away."""
        scale, *minimum = scales
        if centre is not None:
            below = w(f"fmul {type_} {scale}, {centre}")
            minimum = [w(f"fadd {type_} {minimum[0]}, {below}") if minimum else below]
        return [scale, *minimum]

    @property
    def has_offsets(self) -> bool:
        """Whether there is something to take away."""
        return self.format.minima or self.format.zeros or bool(self.format.centre)

    def _scattered(self, w: Writer, value: str, count: int, plane: str, at: str) -> None:
        """Stores entries of one row, each `lanes` elements behind the one before."""
        for k in range(count):
            one = value if count == 1 else w(f"extractelement <{count} x float> {value}, i32 {k}")
            to = w.element(plane, "float", w(f"add i64 {at}, {k * self.lanes}"))
            w.do(f"store float {one}, ptr {to}, align 4")

    def _codes_of(self, w: Writer, unit: str) -> list[str]:
        """The codes of a unit of all rows, as vectors of pairs of i16, in order."""
        size = QUAD * self.lanes
        pairs, signed = [], self.format.signed or bool(self.format.table)
        for quad in self._bytes_of(w, unit):
            for half in (0, 2):
                # Bytes of zeros below or above those of codes.
                order = [
                    size if (k + signed) % 2 else QUAD * (k // QUAD) + half + k % QUAD // 2
                    for k in range(size)
                ]
                wide = w(
                    f"shufflevector <{size} x i8> {quad}, <{size} x i8> zeroinitializer, "
                    f"<{size} x i32> {listed('i32', order)}"
                )
                pair = w(f"bitcast <{size} x i8> {wide} to {self.step_type}")
                if signed:
                    pair = w(f"ashr {self.step_type} {pair}, {splat(2 * self.lanes, 'i16', 8)}")
                pairs.append(pair)
        return pairs

    def _bytes_of(self, w: Writer, unit: str) -> list[str]:
        """The codes of a unit of all rows, or what the table has for them, as vectors of four bytes a row, in order."""
        quads = self._quads_of(w, "codes", self.format.bits, unit)
        if self.format.high:
            shift = splat(self.lanes, "i32", self.format.bits)
            above = self._quads_of(w, "high", self.format.high, unit)
            quads = [
                w(f"or {self.lane_words} {low}, {w(f'shl {self.lane_words} {up}, {shift}')}")
                for low, up in zip(quads, above, strict=True)
            ]
        size = QUAD * self.lanes
        made = [w(f"bitcast {self.lane_words} {quad} to <{size} x i8>") for quad in quads]
        return [self.looked_up(w, quad, size) for quad in made] if self.format.table else made

    def _quads_of(self, w: Writer, plane: str, bits: int, unit: str) -> list[str]:
        """The codes of `bits` bits of a unit from a plane, four neighbours a word of each row."""
        stored = self._turned(w, plane, bits, unit)
        if bits == 8:
            return stored
        mask = splat(self.lanes, "i32", 0x01010101 * ((1 << bits) - 1))
        quads = []
        for quad in range(UNIT // QUAD):
            shift = splat(self.lanes, "i32", quad // bits * bits)
            shifted = w(f"lshr {self.lane_words} {stored[quad % bits]}, {shift}")
            quads.append(w(f"and {self.lane_words} {shifted}, {mask}"))
        return quads

    def _turned(self, w: Writer, plane: str, count: int, unit: str) -> list[str]:
        """So many words of a unit of all rows: a vector for each word, a lane for each row."""
        offset = w(f"mul i64 {unit}, {count * 4}")
        rows = self._rows_at(w, plane, offset)
        if count < QUAD:
            found = []
            for word in range(count):
                vector = "poison"
                for lane, row in enumerate(rows):
                    value = w(f"load i32, ptr {w.element(row, 'i32', str(word))}, align 4")
                    vector = w(f"insertelement {self.lane_words} {vector}, i32 {value}, i32 {lane}")
                found.append(vector)
            return found
        return [vector for first in range(0, count, QUAD) for vector in self._turned_four(w, rows, first)]

    def _rows_at(self, w: Writer, plane: str, offset: str) -> list[str]:
        """Where a plane has something of each row."""
        return [
            w.element(w(f"load ptr, ptr {self._row_place(w, plane, str(lane))}, align 8"), "i8", offset)
            for lane in range(self.lanes)
        ]

    def _fetched(self, w: Writer, number: str, units: str) -> None:
        """Asks for a unit's part of the rows behind these: a few lines at a time, for memory serves few at once."""
        self.declarations.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        for plane in ("codes", *(["high"] if self.format.high else []), "scales"):
            first, second = (w(f"load i64, ptr {self._row_place(w, plane, k)}, align 8") for k in ("0", "1"))
            bytes_ = w(f"mul i64 {w(f'sub i64 {second}, {first}')}, {self.lanes}")
            behind = w(f"add i64 {first}, {bytes_}")
            part = w(f"udiv i64 {bytes_}, {units}")
            begin = w(f"add i64 {behind}, {w(f'mul i64 {number}, {part}')}")

            def line(at: str, _: list[str]) -> Sequence[str]:
                w.do(
                    f"call void @llvm.prefetch.p0(ptr {w(f'inttoptr i64 {at} to ptr')}, i32 0, i32 2, i32 1)"
                )
                return ()

            w.loop(begin, w(f"add i64 {begin}, {part}"), "64", (), line, kept=True)

    def _turned_four(self, w: Writer, rows: Sequence[str], first: int) -> list[str]:
        """Four words from one on of all rows, a vector for each: within quarters, 4 rows by 4 words at a time."""
        lines = []
        for k in range(QUAD):
            parts = [
                w(f"load <4 x i32>, ptr {w.element(row, 'i32', str(first))}, align 4")
                for row in rows[k::QUAD]
            ]
            size = QUAD
            while len(parts) > 1:
                order = listed("i32", range(2 * size))
                parts = [
                    w(f"shufflevector <{size} x i32> {a}, <{size} x i32> {b}, <{2 * size} x i32> {order}")
                    for a, b in zip(parts[::2], parts[1::2], strict=True)
                ]
                size *= 2
            lines += parts
        low, high = [self._interleaved(w, lines[a], lines[a + 1], 1) for a in (0, 2)]
        return [vector for a, b in zip(low, high, strict=True) for vector in self._interleaved(w, a, b, 2)]

    def _interleaved(self, w: Writer, a: str, b: str, width: int) -> list[str]:
        """The lower and the upper halves of quarters of two vectors, `width` elements of each in turn."""
        made = []
        for half in (0, 2):
            order = []
            for quarter in range(0, self.lanes, QUAD):
                for k in range(0, 2, width):
                    begin = quarter + half + k
                    order += [
                        *range(begin, begin + width),
                        *range(self.lanes + begin, self.lanes + begin + width),
                    ]
            made.append(
                w(
                    f"shufflevector {self.lane_words} {a}, {self.lane_words} {b}, "
                    f"{self.lane_words} {listed('i32', order)}"
                )
            )
        return made
