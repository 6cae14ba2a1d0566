"""Code that packs patches of images as panels (panels.py), for convolutions (convolving.py).

A patch matrix has a row for each tap (channel, row and column of the window) and a column for each place of a result.
It is packed where it is multiplied: channels of images are copied into the room with zeros around them, columns sorted
by their remainder by the stride (`surround`), so that the elements which neighbouring places have for one tap are
neighbours too; a panel is then a few vectors for each tap (`gather`). Images that need neither are read as they lie.

A word of the launch for each line of `WORDS`.
"""

from __future__ import annotations

from collections.abc import Sequence

from hologram.backends.cpu.llvm.writer import Writer
from hologram.backends.cpu.products.panels import Panels

WORDS = (
    *("x", "other", "out", "taps", "room", "flags", "after"),  # addresses; `after` is the epilogue's, or 0
    *("m", "n", "k"),  # rows and columns of the product; taps
    *("images", "area", "out_width", "channels"),  # of results
    *("x_group", "x_image", "x_channel", "x_row", "x_column"),  # steps in bytes
    *("other_group", "other_image", "other_row", "other_column"),
    *("out_group", "out_image", "out_row", "out_column"),
    *("rows", "columns", "row_blocks", "column_blocks"),  # of a unit of work, and how many there are
    *("images_at_once", "places_at_once", "image_blocks", "place_blocks"),
    *("parts", "images_of_part"),  # `weigh` sums parts of the images
    *("height", "width", "padding_y", "padding_x", "stride_y", "stride_x"),
    *(
        "direct",
        "box_rows",
        "phase",
        "row_pitch",
        "channel_pitch",
        "image_pitch",
    ),  # of what `gather` reads, in elements
    *("taps_of_channel", "depth"),  # taps that are packed together
    *("rooms", "room_bytes", "panel_at", "sums_at", "places_at", "box_at"),  # bytes
)


class Patches(Panels):
    """Writes what packs patches, for one pair of dtypes."""

    def line(self) -> str:
        """So many elements, `%step` bytes apart, as numbers."""
        lanes, size = self._lanes, self._dtype.itemsize

        def vector(w: Writer, j: str) -> None:
            value = self._vector_at(w, w.element("%from", "i8", w.i64("mul", j, size)), lanes)
            self._keep(w, self._vector, value, w.element("%to", self._number, j))

        def body(w: Writer) -> None:
            def vectors(j: str, _: list[str]) -> Sequence[str]:
                vector(w, j)
                return ()

            def scalars(j: str, _: list[str]) -> Sequence[str]:
                value = self._element(w, w.element("%from", "i8", w.i64("mul", j, "%step")))
                self._keep(w, self._number, value, w.element("%to", self._number, j))
                return ()

            along, rest, apart, done = (w.label(x) for x in ("along", "rest", "apart", "end"))
            near = w(f"icmp eq i64 %step, {size}")
            many = w(f"icmp sge i64 %count, {lanes}")
            w.branch(w(f"and i1 {near}, {many}"), along, apart)
            w.place(along)
            whole = w.i64("and", "%count", -lanes)
            w.loop("0", whole, str(lanes), (), vectors)
            w.branch(w(f"icmp eq i64 {whole}, %count"), done, rest)
            w.place(rest)  # some once more
            vector(w, w.i64("sub", "%count", lanes))
            w.jump(done)
            w.place(apart)
            w.loop("0", "%count", "1", (), scalars)
            w.jump(done)
            w.place(done)

        return self._function("internal void @line(ptr %from, i64 %step, ptr noalias %to, i64 %count)", body)

    def surround(self) -> str:
        """Rows of channels of images from row `%first` on, with zeros around them, columns sorted by remainder."""

        def body(w: Writer) -> None:
            word = self._words(w, WORDS)
            step, size = word["stride_x"], self._size
            self._zeros(w, "%to", w.i64("mul", w.i64("mul", "%images", word["image_pitch"]), size))
            top = self._most(w, "0", w.i64("sub", "0", "%first"))
            bottom = self._least(w, word["box_rows"], w.i64("sub", word["height"], "%first"))
            apart = w.i64("mul", step, word["x_column"])

            def phase(f: str, _: list[str]) -> Sequence[str]:
                shift = w.i64("sub", word["padding_x"], f)
                up = w.i64("add", shift, w.i64("sub", step, "1"))
                low = w.i64("sdiv", up, step)
                high = w.i64("sdiv", self._most(w, "0", w.i64("add", up, word["width"])), step)
                count = w.i64("sub", self._least(w, high, word["phase"]), low)
                column = w.i64("sub", w.i64("mul", low, step), shift)
                source = w.element("%from", "i8", w.i64("mul", column, word["x_column"]))
                target = w.element("%to", self._number, w.i64("add", low, w.i64("mul", f, word["phase"])))

                def image(i: str, _: list[str]) -> Sequence[str]:
                    def channel(c: str, _: list[str]) -> Sequence[str]:
                        begin = self._at(
                            w,
                            source,
                            "i8",
                            (i, word["x_image"]),
                            (c, word["x_channel"]),
                            ("%first", word["x_row"]),
                        )
                        to = self._at(
                            w, target, self._number, (i, word["image_pitch"]), (c, word["channel_pitch"])
                        )

                        def row(r: str, _: list[str]) -> Sequence[str]:
                            begun = self._at(w, begin, "i8", (r, word["x_row"]))
                            into = self._at(w, to, self._number, (r, word["row_pitch"]))
                            w.do(f"call void @line(ptr {begun}, i64 {apart}, ptr {into}, i64 {count})")
                            return ()

                        w.loop(top, bottom, "1", (), row)
                        return ()

                    w.loop("0", "%channels", "1", (), channel)
                    return ()

                w.loop("0", "%images", "1", (), image)
                return ()

            w.loop("0", step, "1", (), phase)

        arguments = "ptr %arguments, ptr %from, ptr noalias %to, i64 %images, i64 %channels, i64 %first"
        return self._function(f"internal void @surround({arguments})", body)

    def places(self) -> str:
        """Where the first tap's element of each place lies; the last one once more, up to a panel's width."""
        width = 2 * self._lanes

        def body(w: Writer) -> None:
            word = self._words(w, WORDS)
            advance = w.i64("mul", word["stride_y"], word["row_pitch"])
            begin = w.i64("urem", "%first", word["out_width"])

            def image(i: str, _: list[str]) -> Sequence[str]:
                to = self._at(w, "%to", "i64", (i, "%count"))
                line = w.i64("mul", i, word["image_pitch"])

                def place(p: str, before: list[str]) -> Sequence[str]:
                    x, line = before
                    w.do(f"store i64 {w.i64('add', x, line)}, ptr {w.element(to, 'i64', p)}, align 8")
                    following = w.i64("add", x, "1")
                    over = w(f"icmp eq i64 {following}, {word['out_width']}")
                    below = w.i64("add", line, advance)
                    return (
                        w(f"select i1 {over}, i64 0, i64 {following}"),
                        w(f"select i1 {over}, i64 {below}, i64 {line}"),
                    )

                w.loop("0", "%count", "1", [("i64", begin), ("i64", line)], place)
                return ()

            w.loop("0", "%images", "1", (), image)
            total = w.i64("mul", "%images", "%count")
            last = w(f"load i64, ptr {w.element('%to', 'i64', w.i64('sub', total, '1'))}, align 8")

            def more(p: str, _: list[str]) -> Sequence[str]:
                w.do(f"store i64 {last}, ptr {w.element('%to', 'i64', p)}, align 8")
                return ()

            w.loop(total, w.i64("and", w.i64("add", total, width - 1), -width), "1", (), more)

        arguments = "ptr %arguments, ptr noalias %to, i64 %images, i64 %first, i64 %count"
        return self._function(f"internal void @places({arguments})", body)

    def gather(self) -> str:
        """A panel: for each tap the elements of as many places, rows `%to.row` bytes apart.

        Places of a vector that lie in one row, or in two, are one load or two; others are read one by one.
        """
        lanes, vector = self._lanes, self._vector

        def lines(w: Writer, starts: Sequence[Sequence[str]], masks: Sequence[str]) -> None:
            def tap(t: str, _: list[str]) -> Sequence[str]:
                offset = w(f"load i64, ptr {w.element('%taps', 'i64', t)}, align 8")
                begin = w.element("%from", self._number, offset)
                to = self._at(w, "%to", "i8", (t, "%to.row"))
                for half, (places, mask) in enumerate(zip(starts, masks, strict=True)):
                    found = [
                        w(f"load {vector}, ptr {w.element(begin, self._number, p)}, align {self._size}")
                        for p in places
                    ]
                    if len(found) == 2:
                        found = [w(f"select <{lanes} x i1> {mask}, {vector} {found[0]}, {vector} {found[1]}")]
                    self._keep(w, vector, found[0], w.element(to, self._number, str(half * lanes)))
                return ()

            w.loop("0", "%count", "1", (), tap)

        def one_by_one(w: Writer) -> None:
            def column(c: str, _: list[str]) -> Sequence[str]:
                place = w(f"load i64, ptr {w.element('%places', 'i64', c)}, align 8")
                begin = w.element("%from", self._number, place)
                to = w.element("%to", self._number, c)

                def tap(t: str, _: list[str]) -> Sequence[str]:
                    offset = w(f"load i64, ptr {w.element('%taps', 'i64', t)}, align 8")
                    at = w.element(begin, self._number, offset)
                    value = w(f"load {self._number}, ptr {at}, align {self._size}")
                    self._keep(w, self._number, value, self._at(w, to, "i8", (t, "%to.row")))
                    return ()

                w.loop("0", "%count", "1", (), tap)
                return ()

            w.loop("0", str(2 * lanes), "1", (), column)

        def body(w: Writer) -> None:
            halves = [self._runs(w, half) for half in (0, lanes)]
            straight, asked, crossing, scattered, done = (
                w.label(x) for x in ("straight", "asked", "crossing", "scattered", "end")
            )
            w.branch(w(f"and i1 {halves[0][3]}, {halves[1][3]}"), straight, asked)
            w.place(asked)
            w.branch(w(f"and i1 {halves[0][4]}, {halves[1][4]}"), crossing, scattered)
            w.place(straight)
            lines(w, [h[:1] for h in halves], [h[2] for h in halves])
            w.jump(done)
            w.place(crossing)
            lines(w, [h[:2] for h in halves], [h[2] for h in halves])
            w.jump(done)
            w.place(scattered)
            one_by_one(w)
            w.jump(done)
            w.place(done)

        arguments = "ptr %from, ptr %taps, i64 %count, ptr %places, ptr noalias %to, i64 %to.row"
        return self._function(f"internal void @gather({arguments})", body)

    def _runs(self, w: Writer, first: int) -> tuple[str, str, str, str, str]:
        """Of a vector of places from that one on: where loads of a first and a last run begin, which are of the first,
        and whether all are, or are of either.
        """
        lanes = self._lanes
        many = f"<{lanes} x i64>"
        places = w(f"load {many}, ptr {w.element('%places', 'i64', str(first))}, align 8")
        low = w(f"extractelement {many} {places}, i64 0")
        high = w.i64("sub", w(f"extractelement {many} {places}, i64 {lanes - 1}"), lanes - 1)
        counting = f"<{', '.join(f'i64 {x}' for x in range(lanes))}>"
        masks = []
        for start in (low, high):
            one = w(f"insertelement {many} poison, i64 {start}, i32 0")
            all_ = w(f"shufflevector {many} {one}, {many} poison, <{lanes} x i32> zeroinitializer")
            masks.append(w(f"icmp eq {many} {w(f'add {many} {all_}, {counting}')}, {places}"))
        either = w(f"or <{lanes} x i1> {masks[0]}, {masks[1]}")
        name = f"llvm.vector.reduce.and.v{lanes}i1"
        straight, both = (w.intrinsic(name, "i1", (f"<{lanes} x i1>", x)) for x in (masks[0], either))
        return low, high, masks[0], straight, w(f"and i1 {both}, {w(f'icmp sge i64 {high}, {low}')}")

    @staticmethod
    def _most(w: Writer, x: str, y: str) -> str:
        return w.intrinsic("llvm.smax.i64", "i64", ("i64", x), ("i64", y))

    @staticmethod
    def _at(w: Writer, begin: str, type_: str, *moves: tuple[str, str]) -> str:
        """So many steps further: (how many, of which length)."""
        for count, length in moves:
            begin = w.element(begin, type_, w.i64("mul", count, length))
        return begin

    @staticmethod
    def _split(w: Writer, number: str, *counts: str) -> list[str]:
        """A number's digits, the last first: how many each has; and what is left."""
        found = []
        for count in counts:
            found.append(w.i64("urem", number, count))
            number = w.i64("udiv", number, count)
        return [*found, number]

    def _block(self, w: Writer, index: str, size: str, total: str) -> tuple[str, str]:
        """Where a block begins, and how long it is."""
        first = w.i64("mul", index, size)
        return first, self._least(w, size, w.i64("sub", total, first))

    def _source(
        self,
        w: Writer,
        word: dict[str, str],
        begin: str,
        box: str,
        images: str,
        place: str,
        taps: tuple[str, str],
    ) -> str:
        """What tap 0's element would be of the block's first place, in x or in a box that is filled for these taps."""
        channel = w.i64("udiv", taps[0], word["taps_of_channel"])
        last = w.i64("udiv", w.i64("sub", w.i64("add", taps[0], taps[1]), "1"), word["taps_of_channel"])
        channels = w.i64("add", w.i64("sub", last, channel), "1")
        row = w.i64("mul", w.i64("udiv", place, word["out_width"]), word["stride_y"])
        direct, boxed, done = (w.label(x) for x in ("direct", "boxed", "found"))
        w.branch(w(f"icmp ne i64 {word['direct']}, 0"), direct, boxed)
        w.place(direct)
        there = self._at(w, begin, "i8", (row, word["x_row"]))
        w.jump(done)
        w.place(boxed)
        source = self._at(w, begin, "i8", (channel, word["x_channel"]))
        first = w.i64("sub", row, word["padding_y"])
        w.do(
            f"call void @surround(ptr %arguments, ptr {source}, ptr {box}, i64 {images}, i64 {channels}, i64 {first})"
        )
        here = self._at(w, box, self._number, (w.i64("sub", "0", channel), word["channel_pitch"]))
        w.jump(done)
        w.place(done)
        return w(f"phi ptr [ {there}, %{direct} ], [ {here}, %{boxed} ]")
