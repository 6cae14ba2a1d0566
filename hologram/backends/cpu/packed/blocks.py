"""Code for products of more rows with packed weights: as in rows.py, but lanes are rows of weights.

Of `lanes` rows of weights a segment of units is unpacked into memory that the nearest cache holds: two neighbours of
all these rows are a vector of pairs of i16. It is multiplied by the same two neighbours of several rows of x, and added
up in i32. So codes are unpacked once for up to CHUNK rows of x, and a group's sums are scaled for all lanes at once.
Of x a unit of all rows lies together: what a step multiplies are constants apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hologram.backends.cpu.llvm.writer import Writer
from hologram.backends.cpu.packed.decoding import spread, words_of
from hologram.backends.cpu.packed.rows import Rows
from hologram.backends.cpu.packed.unpacking import PLANES, Unpacking

CHUNK = 256  # rows of x whose sums wait in memory
STEPS = 2  # that a turn of the innermost loop has
SEGMENT = 24  # units that are unpacked together: whole blocks of all formats, 24 KB of 512 bits


class Blocks(Unpacking, Rows):
    """Writes the functions of products of more rows, for one format and dtype of x."""

    functions = ("prepare", "blocks")

    @property
    def heights(self) -> tuple[int, ...]:
        """Rows of x that read unpacked codes together: as many sums as registers hold."""
        return (16, 8, 4, 2, 1) if self.machine.bits >= 512 else (4, 2, 1)

    def text(self) -> str:
        """The module."""
        return self._module([*self._shared(), self._prepare(), self._blocks()])

    def _source(self, w: Writer, word: dict[str, str], number: str) -> str:
        unit, row = (w(f"{f} i64 {number}, {word['m']}") for f in ("udiv", "urem"))
        first = w(f"mul i64 {row}, {word['units']}")
        return w(f"add i64 {first}, {unit}")

    def _place(self, w: Writer, word: dict[str, str], number: str) -> str:
        return w(f"mul i64 {number}, {self.unit_bytes}")

    def _shared(self) -> list[str]:
        """What multiplies `lanes` rows of weights by a chunk of rows of x."""
        return [*map(self._tile, self.heights), self._unpacked(), self._chunk()]

    def _tile(self, rows: int) -> str:
        """Adds to sums (rows, lanes) what a segment gives for so many rows of x."""
        names = ("x.integers", "x.scales", "x.sums", "codes", "scales", "offsets", "found")
        arguments = ", ".join(f"ptr noalias %{n}" for n in names)

        def body(w: Writer) -> None:
            places = [w.element("%found", "float", str(r * self.lanes)) for r in range(rows)]
            before = [w(f"load {self.lane_floats}, ptr {p}, align 32") for p in places]

            def unit(number: str, sums: list[str]) -> Sequence[str]:
                self._fetched(w, w(f"add i64 {number}, %first"), "%all")
                first = w(f"mul i64 {number}, %m")
                x = w.element("%x.integers", "i8", w(f"mul i64 {first}, {self.unit_bytes}"))
                steps = w.element("%codes", "i8", w(f"mul i64 {number}, {self.steps * self.lanes * 4}"))
                after, each = list(sums), self.steps // self.entries
                for k in range(self.entries):
                    totals = self._totals(w, rows, x, steps, range(k * each, (k + 1) * each))
                    entry, of_x = (
                        w(f"add i64 {w(f'mul i64 {n}, {self.entries}')}, {k}") for n in (number, first)
                    )
                    after = self._scaled_sums(w, entry, of_x, totals, after)
                return after

            after = w.loop("0", "%units", "1", [(self.lane_floats, b) for b in before], unit)
            for place, value in zip(places, after, strict=True):
                w.do(f"store {self.lane_floats} {value}, ptr {place}, align 32")

        return self._function(
            f"internal void @tile{rows}(ptr %rows, {arguments}, i64 %first, i64 %units, i64 %all, i64 %m)",
            body,
        )

    def _totals(self, w: Writer, rows: int, x: str, steps: str, own: range) -> list[str]:
        """Sums of codes times integers of a group, for each row of x.

        All rows take a step before the next: LLVM's own order is row by row, and a row's additions wait for each other.
        """

        def turn(first: str, before: list[str]) -> Sequence[str]:
            totals = list(before)
            for k in range(STEPS):
                number = w(f"add i64 {first}, {k}")
                codes = self._step_codes(w, steps, number)
                for r in range(rows):
                    totals[r] = self.accumulated(
                        w, totals[r], codes, self._step_of(w, x, r, number), self.lanes
                    )
            return totals

        zero = [(self.lane_words, "zeroinitializer")] * rows
        return w.loop(str(own.start), str(own.stop), str(STEPS), zero, turn, kept=True)

    def _step_codes(self, w: Writer, steps: str, number: str | int) -> str:
        """The codes of a step of all lanes."""
        at = w.element(steps, "i8", w(f"mul i64 {number}, {self.lanes * 4}"))
        return w(f"load {self.step_type}, ptr {at}, align 32")

    def _step_of(self, w: Writer, x: str, row: int, number: str | int) -> str:
        """The neighbours of a row of x that a step multiplies, for every lane."""
        at = w.element(x, "i8", w(f"add i64 {w(f'mul i64 {number}, 4')}, {row * self.unit_bytes}"))
        every = spread(w, "i32", w(f"load i32, ptr {at}, align 4"), self.lanes)
        return w(f"bitcast {self.lane_words} {every} to {self.step_type}")

    def _scaled_sums(
        self, w: Writer, entry: str, first: str, totals: list[str], before: list[str]
    ) -> list[str]:
        """The sums with those of a group, scaled: its number of the weights, and of the first row of x."""
        at = w(f"mul i64 {entry}, {self.lanes}")
        scale = w(f"load {self.lane_floats}, ptr {w.element('%scales', 'float', at)}, align 32")
        offset = None
        if self.has_offsets:
            offset = w(f"load {self.lane_floats}, ptr {w.element('%offsets', 'float', at)}, align 32")
            offset = w(f"fneg {self.lane_floats} {offset}")
        after = []
        for r, (total, sum_) in enumerate(zip(totals, before, strict=True)):
            place = w(f"add i64 {first}, {r * self.entries}")
            of_x = w(f"load float, ptr {w.element('%x.scales', 'float', place)}, align 4")
            step = w(f"fmul {self.lane_floats} {scale}, {spread(w, 'float', of_x, self.lanes)}")
            whole = w(f"sitofp {self.lane_words} {total} to {self.lane_floats}")
            sum_ = self._added_to(w, whole, step, sum_)
            if offset is not None:
                added = w(f"load float, ptr {w.element('%x.sums', 'float', place)}, align 4")
                sum_ = self._added_to(w, offset, spread(w, "float", added, self.lanes), sum_)
            after.append(sum_)
        return after

    def _added_to(self, w: Writer, x: str, y: str, z: str) -> str:
        """x y + z, fused."""
        floats = self.lane_floats
        return w.intrinsic(f"llvm.fma.v{self.lanes}f32", floats, (floats, x), (floats, y), (floats, z))

    def _chunk(self) -> str:
        """Sums (count, lanes) of a chunk of rows of x, with the rows of weights that a table says."""
        names = ("rows", "x.integers", "x.scales", "x.sums", "found")
        arguments = ", ".join(f"ptr %{n}" for n in names)

        def body(w: Writer) -> None:
            codes = w.alloca("i32", SEGMENT * self.steps * self.lanes)
            scales, offsets = (w.alloca("float", SEGMENT * self.entries * self.lanes) for _ in range(2))

            def cleared(r: str, _: list[str]) -> Sequence[str]:
                to = w.element("%found", "float", w(f"mul i64 {r}, {self.lanes}"))
                w.do(f"store {self.lane_floats} zeroinitializer, ptr {to}, align 32")
                return ()

            def segment(first: str, _: list[str]) -> Sequence[str]:
                count = self._least(w, w(f"sub i64 %units, {first}"), str(SEGMENT))
                told = f"ptr %rows, i64 {first}, i64 {count}, ptr {codes}, ptr {scales}, ptr {offsets}"
                w.do(f"call void @unpacked({told})")
                ahead, begin = w(f"mul i64 {first}, %m"), "0"
                for height in self.heights:
                    stop = "%count" if height == 1 else w(f"and i64 %count, {-height}")

                    def rows(r: str, _: list[str], height: int = height) -> Sequence[str]:
                        place = w(f"add i64 {ahead}, {r}")
                        x = self._of_x(w, ("%x.integers", "%x.scales", "%x.sums"), place)
                        to = w.element("%found", "float", w(f"mul i64 {r}, {self.lanes}"))
                        told = ", ".join(f"ptr {p}" for p in ("%rows", *x, codes, scales, offsets, to))
                        told += "".join(f", i64 {n}" for n in (first, count, "%units", "%m"))
                        w.do(f"call void @tile{height}({told})")
                        return ()

                    w.loop(begin, stop, str(height), (), rows)
                    begin = stop
                return ()

            w.loop("0", "%count", "1", (), cleared)
            w.loop("0", "%units", str(SEGMENT), (), segment)

        return self._function(f"internal void @chunk({arguments}, i64 %count, i64 %units, i64 %m)", body)

    def _of_x(self, w: Writer, room: Sequence[str], number: str) -> list[str]:
        """Where a unit of x has its integers, scales and sums."""
        entry = w(f"mul i64 {number}, {self.entries}")
        integers = w.element(room[0], "i8", w(f"mul i64 {number}, {self.unit_bytes}"))
        return [integers, *(w.element(p, "float", entry) for p in room[1:])]

    def _blocks(self) -> str:
        """Groups begin .. end of `lanes` rows of the weights, times all rows of x."""

        def body(w: Writer) -> None:
            word = words_of(w, self.arguments)
            room, n = self._room(w, word), word["n"]
            table = w.alloca("ptr", len(PLANES) * self.lanes)
            found = w.alloca("float", CHUNK * self.lanes)

            def group(number: str, _: list[str]) -> Sequence[str]:
                first = w(f"mul i64 {number}, {self.lanes}")
                width = self._least(w, w(f"sub i64 {n}, {first}"), str(self.lanes))
                self._tabled(w, word, table, first, width, lambda row: row)

                def chunk(begin: str, _: list[str]) -> Sequence[str]:
                    count = self._least(w, w(f"sub i64 {word['m']}, {begin}"), str(CHUNK))
                    told = ", ".join(f"ptr {p}" for p in (table, *self._of_x(w, room, begin), found))
                    w.do(f"call void @chunk({told}, i64 {count}, i64 {word['units']}, i64 {word['m']})")

                    def row(r: str, _: list[str]) -> Sequence[str]:
                        to = w(f"mul i64 {w(f'add i64 {begin}, {r}')}, {n}")
                        out = w.element(word["out"], "float", w(f"add i64 {to}, {first}"))
                        self._put(w, found, r, out, width)
                        return ()

                    w.loop("0", count, "1", (), row)
                    return ()

                w.loop("0", word["m"], str(CHUNK), (), chunk)
                return ()

            w.loop("%begin", "%end", "1", (), group)

        return self._function("void @blocks(ptr %arguments, i64 %begin, i64 %end)", body)

    def _tabled(
        self,
        w: Writer,
        word: dict[str, str],
        table: str,
        first: str,
        width: str,
        row_of: Callable[[str], str],
    ) -> None:
        """Puts the addresses of so many rows of weights into a table: the last again for lanes without one."""
        last = w(f"sub i64 {width}, 1")

        def lane(number: str, _: list[str]) -> Sequence[str]:
            row = row_of(w(f"add i64 {first}, {self._least(w, number, last)}"))
            for k, name in enumerate(PLANES):
                address = w.element(word[name], "i8", w(f"mul i64 {row}, {word[name + '_row']}"))
                to = w.element(table, "ptr", w(f"add i64 {number}, {k * self.lanes}"))
                w.do(f"store ptr {address}, ptr {to}, align 8")
            return ()

        w.loop("0", str(self.lanes), "1", (), lane)

    def _put(self, w: Writer, found: str, row: str, out: str, width: str) -> None:
        """Copies the sums of a row of x where they go: all lanes, or so many."""
        source = w.element(found, "float", w(f"mul i64 {row}, {self.lanes}"))
        whole = w(f"icmp eq i64 {width}, {self.lanes}")
        at_once, one_by_one, done = (w.label(x) for x in ("whole", "part", "stored"))
        w.branch(whole, at_once, one_by_one)
        w.place(at_once)
        sums = w(f"load {self.lane_floats}, ptr {source}, align 32")
        w.do(f"store {self.lane_floats} {sums}, ptr {out}, align 4")
        w.jump(done)
        w.place(one_by_one)

        def lane(number: str, _: list[str]) -> Sequence[str]:
            value = w(f"load float, ptr {w.element(source, 'float', number)}, align 4")
            w.do(f"store float {value}, ptr {w.element(out, 'float', number)}, align 4")
            return ()

        w.loop("0", width, "1", (), lane)
        w.jump(done)
        w.place(done)
