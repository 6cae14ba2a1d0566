"""Code for products of our own: operands are packed panel by panel, or read as they lie; 16-bit floats become f32.

Where the processor multiplies pairs of bf16, pairs.py has that in place of f32.

Two steps, of which a launch takes one:

- `dots`, for few rows of operands that both lie along k: each result is a dot product; four columns are read together
  and the rows in turns, so that b comes from memory once. Nothing is packed.
- `blocks`, for all else, as Goto and van de Geijn cut products ("Anatomy of High-Performance Matrix Multiplication",
  2008): a block of a, and of b one panel after the other, are written into the launch's room, where they stay in the
  caches; MICRO_ROWS rows times two vectors are added up in registers, and rounded once, when all of k is in.

Sums are f64 for operands of that, else f32. A word of the launch for each line of `WORDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hologram.backends.cpu.llvm.writer import Writer
from hologram.backends.cpu.products.packing import Packing, added_as
from hologram.foundation.dtypes import DType

WORDS = (
    *("a", "b", "out", "room"),  # addresses
    *("m", "n", "k"),
    *("a_batch", "a_row", "a_column"),  # steps in bytes
    *("b_batch", "b_row", "b_column"),
    *("out_batch", "out_row", "out_column"),
    *("rows", "columns"),  # of a unit of work
    *("row_blocks", "column_blocks"),  # of a product
    *("flags", "rooms", "room_bytes"),  # address of which rooms are in use, how many there are; bytes of one
)
DEPTH = 320  # elements along k that are packed together
MICRO_ROWS = 6
DOT_COLUMNS = 4
_POINTERS = frozenset({"a", "b", "out", "room", "flags", "x", "other", "taps", "after"})


def panel_columns(dtype: DType, vector_bits: int) -> int:
    """Columns of a panel of b: two vectors of what is added up."""
    return 2 * vector_bits // added_as(dtype).bits


class Panels(Packing):
    """Writes what products of packed panels have in common, for one pair of dtypes."""

    micro_rows = MICRO_ROWS

    def module(self, functions: Sequence[str]) -> str:
        """IR of these functions and of those that they call."""
        micros = range(self.micro_rows - 1 if self._ways.many else 1, self.micro_rows + 1)
        pointers = ", ".join(f"ptr @micro{max(rows, micros.start)}" for rows in range(self.micro_rows + 1))
        table = f"@micros = internal constant [{self.micro_rows + 1} x ptr] [{pointers}]"
        return self.joined([table, self.convert(), *map(self.micro, micros), self.finish(), *functions])

    def joined(self, functions: Sequence[str]) -> str:
        """IR of these functions alone."""
        metadata = [f"!{k} = {node}" for k, node in enumerate(self.metadata)]
        return "\n".join([*functions, *sorted(self.declarations), *metadata, ""])

    def micro(self, rows: int) -> str:
        """c = a b, or c += a b, of a block's rows and a panel; rows of a are DEPTH apart, of c `%c.row` bytes."""
        vector, lanes, number, align = self._vector, self._lanes, self._number, self._size

        def body(w: Writer) -> None:
            places = []
            for r in range(rows):
                line = w.element("%c", "i8", w(f"mul i64 %c.row, {r}"))
                places += [line, w.element(line, number, str(lanes))]
            before, more, start = w.block, w.label("more"), w.label("start")
            w.branch("%first", start, more)
            w.place(more)
            loaded = [w(f"load {vector}, ptr {p}, align {align}") for p in places]
            w.jump(start)
            w.place(start)
            sums = [
                (vector, w(f"phi {vector} [ zeroinitializer, %{before} ], [ {x}, %{more} ]")) for x in loaded
            ]

            def step(k: str, before: list[str]) -> Sequence[str]:
                line = w.element("%b", number, w(f"mul i64 {k}, {2 * lanes}"))
                pair = [
                    w(f"load {vector}, ptr {w.element(line, number, str(x))}, align {align}")
                    for x in (0, lanes)
                ]
                after = []
                for r in range(rows):
                    at = w.element("%a", number, w(f"add i64 {k}, {r * DEPTH}"))
                    scalar = w(f"load {number}, ptr {at}, align {align}")
                    one = w(f"insertelement {vector} poison, {number} {scalar}, i32 0")
                    all_ = w(
                        f"shufflevector {vector} {one}, {vector} poison, <{lanes} x i32> zeroinitializer"
                    )
                    after += [self._fused(w, vector, all_, pair[x], before[2 * r + x]) for x in (0, 1)]
                return after

            for place, total in zip(places, w.loop("0", "%k", "1", sums, step), strict=True):
                self._keep(w, vector, total, place)

        arguments = "ptr noalias %a, ptr noalias %b, ptr noalias %c, i64 %c.row, i64 %k, i1 %first"
        return self._function(f"internal void @micro{rows}({arguments})", body)

    @staticmethod
    def _words(w: Writer, names: Sequence[str]) -> dict[str, str]:
        """The launch's words by name."""
        return {
            name: w(
                f"load {'ptr' if name in _POINTERS else 'i64'}, ptr {w.element('%arguments', 'i64', str(k))}"
            )
            for k, name in enumerate(names)
        }

    def _claimed(self, w: Writer, word: dict[str, str]) -> tuple[str, str]:
        """One of the launch's rooms, which no other thread is in: where it begins, and the flag that says so."""
        before, ask, after = w.block, w.label("ask"), w.label("claimed")
        following = w.name("i")
        w.jump(ask)
        w.place(ask)
        index = w(f"phi i64 [ 0, %{before} ], [ {following}, %{ask} ]")
        flag = w.element(word["flags"], "i64", index)
        taken = w(f"icmp ne i64 {w(f'atomicrmw xchg ptr {flag}, i64 1 acquire')}, 0")
        w.do(f"{following} = urem i64 {w(f'add i64 {index}, 1')}, {word['rooms']}")
        w.branch(taken, ask, after)
        w.place(after)
        above = w.element(word["room"], "i8", "63")
        aligned = w.intrinsic("llvm.ptrmask.p0.i64", "ptr", ("ptr", above), ("i64", "-64"))
        return w.element(aligned, "i8", w(f"mul i64 {index}, {word['room_bytes']}")), flag

    @staticmethod
    def _left(w: Writer, flag: str) -> None:
        w.do(f"store atomic i64 0, ptr {flag} release, align 8")

    def _panels(
        self,
        w: Writer,
        sizes: tuple[str, str, str],
        room: tuple[str, str, str, str],
        first: str,
        pack: Callable[[str, str], None],
    ) -> None:
        """The block of a times every panel of b, which `pack` writes: the one that begins at a column, so wide."""
        rows, columns, count = sizes
        a, b, sums, sums_row = room
        width = 2 * self._lanes
        groups = w.i64("udiv", w.i64("add", rows, self.micro_rows - 1), self.micro_rows)
        tall = w.i64("udiv", w.i64("sub", w.i64("add", rows, groups), 1), groups)
        low = w.i64(
            "sub", tall, 1
        )  # rows of the groups that follow; so few are never left over that they are slow
        split = w.i64("mul", w.i64("sub", rows, w.i64("mul", groups, low)), tall)
        heights = [
            (tall, "0", split),
            (w.intrinsic("llvm.smax.i64", "i64", ("i64", low), ("i64", "1")), split, rows),
        ]
        functions = [w(f"load ptr, ptr {w.element('@micros', 'ptr', h)}, align 8") for h, _, _ in heights]

        def panel(c: str, _: list[str]) -> Sequence[str]:
            pack(c, self._least(w, str(width), w(f"sub i64 {columns}, {c}")))
            to = w.element(sums, self._number, c)
            for function, (height, begin, end) in zip(functions, heights, strict=True):

                def group(r: str, _: list[str], function: str = function) -> Sequence[str]:
                    left = w.element(a, "i8", w(f"mul i64 {r}, {DEPTH * self._size}"))
                    at = w.element(to, "i8", w(f"mul i64 {r}, {sums_row}"))
                    told = f"ptr {left}, ptr {b}, ptr {at}, i64 {sums_row}, i64 {count}, i1 {first}"
                    w.do(f"call void {function}({told})")
                    return ()

                w.loop(begin, end, height, (), group)
            return ()

        w.loop("0", columns, str(width), (), panel)

    def _cleared(self, w: Writer, count: str, wide: str, b: str) -> None:
        """Zeros in a panel of so many rows that will not be filled."""
        width = 2 * self._lanes
        short, full = w.label("short"), w.label("full")
        w.branch(w(f"icmp eq i64 {wide}, {width}"), full, short)
        w.place(short)
        self._zeros(w, b, w(f"mul i64 {count}, {width * self._size}"))
        w.jump(full)
        w.place(full)

    def _zeros(self, w: Writer, at: str, nbytes: str) -> None:
        self.declarations.add("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
        w.do(f"call void @llvm.memset.p0.i64(ptr {at}, i8 0, i64 {nbytes}, i1 false)")

    def _convert(
        self, w: Writer, source: tuple[str, str, str], sizes: tuple[str, str], target: str, target_row: int
    ) -> None:
        (begin, row, column), (rows, columns) = source, sizes
        w.do(
            f"call void @convert(ptr {begin}, i64 {row}, i64 {column}, i64 {rows}, i64 {columns}, ptr {target}, "
            f"i64 {target_row * self._size})"
        )


class Products(Panels):
    """Writes the functions of products for one pair of dtypes; results are stored as one, or as they are added up."""

    together = 1  # neighbours along k that a number of a block or panel stands for
    block_rows = 192  # of a unit, at most: its block of a takes 240 KiB of f32, and stays in the second cache
    dot_rows = (2, 1)  # of a that go along b together
    dot_rounds = 8  # vectors of a row alone that are added up apart from one another
    goes_by_ways = True  # whether there is code for some ways of lying alone

    def text(self, function: str) -> str:
        """The module of `dots`, or of `blocks`."""
        if function == "blocks":
            return self.module([self.blocks()])
        return self.joined([*(self.dot(rows) for rows in self.dot_rows), self.dots()])

    def _line(self, w: Writer, pointer: str) -> str:
        """A vector of neighbours along k, as what is multiplied."""
        return self._vector_at(w, pointer, self._lanes)

    def _lines(self, w: Writer, count: str) -> str:
        """How many numbers of a panel so many elements along k are."""
        return count

    def _pack_rows(self, w: Writer, source: tuple[str, str, str], sizes: tuple[str, str], to: str) -> None:
        """The block of a, of so many rows and elements along k."""
        self._convert(w, source, sizes, to, DEPTH)

    def _pack_columns(self, w: Writer, source: tuple[str, str, str], sizes: tuple[str, str], to: str) -> None:
        """A panel of b, of so many elements along k and columns."""
        self._convert(w, source, sizes, to, 2 * self._lanes)

    def dot(self, rows: int) -> str:
        """Results of so many rows of a and DOT_COLUMNS columns of b, both along k.

        For a row alone the columns go one after the other where `dot_rounds` says so: one stream of memory.
        """

        def body(w: Writer) -> None:
            left = [w.element("%a", "i8", w(f"mul i64 %a.row, {r}")) for r in range(rows)]

            def columns(first: str, count: int, rounds: int) -> None:
                places = [w.i64("add", first, c) for c in range(count)]
                right = [w.element("%b", "i8", w(f"mul i64 %b.column, {c}")) for c in places]
                to = [w.element("%out", "i8", w(f"mul i64 %out.column, {c}")) for c in places]
                found = iter(self._along_k(w, left, right, rounds))
                for r in range(rows):
                    step = w(f"mul i64 %out.row, {r}")
                    for column in to:
                        self._store(w, next(found), w.element(column, "i8", step))

            def alone(c: str, _: list[str]) -> Sequence[str]:
                columns(c, 1, self.dot_rounds)
                return ()

            if rows == 1 and self.dot_rounds > 1:
                w.loop("0", str(DOT_COLUMNS), "1", (), alone, kept=True)
            else:
                columns("0", DOT_COLUMNS, 1)

        arguments = (
            "ptr %a, i64 %a.row, ptr %b, i64 %b.column, ptr %out, i64 %out.row, i64 %out.column, i64 %k"
        )
        return self._function(f"internal void @dot{rows}({arguments})", body)

    def _along_k(self, w: Writer, left: Sequence[str], right: Sequence[str], rounds: int) -> list[str]:
        """Dot products of each with each, first of `rounds` vectors together, then vector by vector, then the rest."""
        vector, lanes, number = self._vector, self._lanes, self._number
        many = lanes * self.together

        def vectors(k: str, before: list[str]) -> Sequence[str]:
            after: list[str] = []
            for turn in range(len(before) // (len(left) * len(right))):
                at, place = w.i64("add", k, many * turn), turn * len(left) * len(right)
                lines, columns = (
                    [self._line(w, w.element(x, self._raw, at)) for x in side] for side in (left, right)
                )
                pairs = [(x, y) for x in lines for y in columns]
                after += [
                    self._fused(w, vector, *pair, z) for pair, z in zip(pairs, before[place:], strict=False)
                ]
            return after

        def scalars(k: str, before: list[str]) -> Sequence[str]:
            rest = [[self._element(w, w.element(p, self._raw, k)) for p in side] for side in (left, right)]
            pairs = [(x, y) for x in rest[0] for y in rest[1]]
            return [self._fused(w, number, x, y, z) for (x, y), z in zip(pairs, before, strict=True)]

        done, sums = "0", ["zeroinitializer"] * (len(left) * len(right) * rounds)
        for together in sorted({rounds, 1}, reverse=True):
            stop = w(f"and i64 %k, {-many * together}")
            while len(sums) > len(left) * len(right) * together:
                half = len(sums) // 2
                sums = [w(f"fadd {vector} {x}, {y}") for x, y in zip(sums[:half], sums[half:], strict=True)]
            sums = w.loop(done, stop, str(many * together), [(vector, x) for x in sums], vectors)
            done = stop
        name = f"llvm.vector.reduce.fadd.v{lanes}{self._sum.name}"
        self.declarations.add(f"declare {number} @{name}({number}, {vector})")
        folded = [(number, w(f"call reassoc {number} @{name}({number} 0.0, {vector} {s})")) for s in sums]
        return w.loop(done, "%k", "1", folded, scalars)

    def _unit(self, w: Writer, word: dict[str, str], number: str) -> tuple[dict[str, str], str, str]:
        """Where the matrices of a unit begin, its rows and its columns."""
        row_blocks, column_blocks = word["row_blocks"], word["column_blocks"]
        blocks = w(f"mul i64 {row_blocks}, {column_blocks}")
        batch, inside = (w(f"{x} i64 {number}, {blocks}") for x in ("udiv", "urem"))
        row_block, column_block = w(f"urem i64 {inside}, {row_blocks}"), w(f"udiv i64 {inside}, {row_blocks}")
        first_row, first_column = (
            w(f"mul i64 {row_block}, {word['rows']}"),
            w(f"mul i64 {column_block}, {word['columns']}"),
        )
        rows = self._least(w, word["rows"], w(f"sub i64 {word['m']}, {first_row}"))
        columns = self._least(w, word["columns"], w(f"sub i64 {word['n']}, {first_column}"))
        begin = {
            x: w.element(word[x], "i8", w(f"mul i64 {batch}, {word[x + '_batch']}"))
            for x in ("a", "b", "out")
        }
        for x, axis, first in (
            *(("a", "row", first_row), ("b", "column", first_column)),
            *(("out", "row", first_row), ("out", "column", first_column)),
        ):
            begin[x] = w.element(begin[x], "i8", w(f"mul i64 {first}, {word[f'{x}_{axis}']}"))
        return begin, rows, columns

    def dots(self) -> str:
        """Units begin .. end, DOT_COLUMNS columns at a time; the last of a product's may be computed twice."""

        def body(w: Writer) -> None:
            word = self._words(w, WORDS)

            def unit(number: str, _: list[str]) -> Sequence[str]:
                begin, rows, columns = self._unit(w, word, number)
                last = w(f"sub i64 {columns}, {DOT_COLUMNS}")
                bounds = ["0", *(w(f"and i64 {rows}, {-x}") for x in self.dot_rows)]
                turns = [*zip(self.dot_rows, bounds, bounds[1:], strict=False)]

                def group(c: str, _: list[str]) -> Sequence[str]:
                    c = self._least(w, c, last)
                    b = w.element(begin["b"], "i8", w(f"mul i64 {c}, {word['b_column']}"))
                    out = w.element(begin["out"], "i8", w(f"mul i64 {c}, {word['out_column']}"))
                    for height, first, stop in turns:

                        def line(r: str, _: list[str], height: int = height) -> Sequence[str]:
                            a = w.element(begin["a"], "i8", w(f"mul i64 {r}, {word['a_row']}"))
                            to = w.element(out, "i8", w(f"mul i64 {r}, {word['out_row']}"))
                            w.do(
                                f"call void @dot{height}(ptr {a}, i64 {word['a_row']}, ptr {b}, "
                                f"i64 {word['b_column']}, ptr {to}, i64 {word['out_row']}, "
                                f"i64 {word['out_column']}, i64 {word['k']})"
                            )
                            return ()

                        w.loop(first, stop, str(height), (), line)
                    return ()

                w.loop("0", columns, str(DOT_COLUMNS), (), group)
                return ()

            w.loop("%begin", "%end", "1", (), unit)

        return self._function("void @dots(ptr %arguments, i64 %begin, i64 %end)", body)

    def blocks(self) -> str:
        """Units begin .. end, in a room of their own: the block of a, the panel of b, the sums."""

        def body(w: Writer) -> None:
            word = self._words(w, WORDS)
            a, flag = self._claimed(w, word)
            width, deep = 2 * self._lanes, DEPTH * self.together
            b = w.element(a, "i8", w(f"mul i64 {word['rows']}, {DEPTH * self._size}"))
            sums = w.element(b, "i8", str(DEPTH * width * self._size))
            sums_row = w(f"mul i64 {word['columns']}, {self._size}")

            def unit(number: str, _: list[str]) -> Sequence[str]:
                begin, rows, columns = self._unit(w, word, number)

                def depth(k: str, _: list[str]) -> Sequence[str]:
                    count = self._least(w, str(deep), w(f"sub i64 {word['k']}, {k}"))
                    lines = self._lines(w, count)
                    left = w.element(begin["a"], "i8", w(f"mul i64 {k}, {word['a_column']}"))
                    right = w.element(begin["b"], "i8", w(f"mul i64 {k}, {word['b_row']}"))
                    self._pack_rows(w, (left, word["a_row"], word["a_column"]), (rows, count), a)

                    def pack(c: str, wide: str) -> None:
                        source = w.element(right, "i8", w(f"mul i64 {c}, {word['b_column']}"))
                        self._cleared(w, lines, wide, b)
                        self._pack_columns(w, (source, word["b_row"], word["b_column"]), (count, wide), b)

                    first = w(f"icmp eq i64 {k}, 0")
                    self._panels(w, (rows, columns, lines), (a, b, sums, sums_row), first, pack)
                    return ()

                w.loop("0", word["k"], str(deep), (), depth)
                w.do(
                    f"call void @finish(ptr {sums}, i64 {sums_row}, i64 {rows}, i64 {columns}, ptr {begin['out']}, "
                    f"i64 {word['out_row']}, i64 {word['out_column']})"
                )
                return ()

            w.loop("%begin", "%end", "1", (), unit)
            self._left(w, flag)

        return self._function("void @blocks(ptr %arguments, i64 %begin, i64 %end)", body)
