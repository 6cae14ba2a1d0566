"""Code for convolutions: products of panels of which one operand is patches of images.

Two steps, of which a launch takes one; a word of it for each line of `WORDS` (patches.py):

- `convolve`: weights (rows) times patches. An epilogue, code of its own, runs on results while they are cached.
- `weigh`: patches (rows are taps) times what they led to (columns are channels), summed over places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hologram.backends.cpu.llvm.writer import Writer
from hologram.backends.cpu.products.panels import DEPTH
from hologram.backends.cpu.products.patches import WORDS, Patches
from hologram.foundation.dtypes import DType

FUNCTIONS = ("convolve", "weigh")


def text(dtype: DType, stored: DType, vector_bits: int) -> str:
    """IR for images of that dtype, and results of another one."""
    code = Convolutions(dtype, stored, vector_bits)
    called = [code.line(), code.surround(), code.places(), code.gather()]
    return code.module([*called, code.convolve(), code.weigh()])


class Convolutions(Patches):
    """Writes the functions of convolutions for one pair of dtypes."""

    def _step(self, name: str, unit: Callable[[Writer, dict[str, str], dict[str, str], str], None]) -> str:
        """A function that does units begin .. end in a room of its own."""

        def body(w: Writer) -> None:
            word = self._words(w, WORDS)
            a, flag = self._claimed(w, word)
            room = {x: w.element(a, "i8", word[f"{x}_at"]) for x in ("panel", "sums", "places", "box")}
            room["a"], room["row"] = a, w.i64("mul", word["columns"], self._size)

            def one(number: str, _: list[str]) -> Sequence[str]:
                unit(w, word, room, number)
                return ()

            w.loop("%begin", "%end", "1", (), one)
            self._left(w, flag)

        return self._function(f"void @{name}(ptr %arguments, i64 %begin, i64 %end)", body)

    def convolve(self) -> str:
        """Units of output channels and of places: whole images, or a part of one."""

        def unit(w: Writer, word: dict[str, str], room: dict[str, str], number: str) -> None:
            split = self._split(w, number, *(word[f"{x}_blocks"] for x in ("row", "place", "image")))
            row_block, place_block, image_block, group = split
            row, rows = self._block(w, row_block, word["rows"], word["m"])
            place, places = self._block(w, place_block, word["places_at_once"], word["area"])
            image, images = self._block(w, image_block, word["images_at_once"], word["images"])
            begin = self._at(w, word["x"], "i8", (group, word["x_group"]), (image, word["x_image"]))
            weight = self._at(w, word["other"], "i8", (group, word["other_group"]), (row, word["other_row"]))
            w.do(
                f"call void @places(ptr %arguments, ptr {room['places']}, i64 {images}, i64 {place}, i64 {places})"
            )
            columns = w.i64("mul", images, places)

            def depth(k: str, _: list[str]) -> Sequence[str]:
                count = self._least(w, word["depth"], w.i64("sub", word["k"], k))
                left = self._at(w, weight, "i8", (k, word["other_column"]))
                self._convert(
                    w, (left, word["other_row"], word["other_column"]), (rows, count), room["a"], DEPTH
                )
                source = self._source(w, word, begin, room["box"], images, place, (k, count))
                taps = w.element(word["taps"], "i64", k)

                def pack(c: str, _: str) -> None:
                    at = w.element(room["places"], "i64", c)
                    w.do(
                        f"call void @gather(ptr {source}, ptr {taps}, i64 {count}, ptr {at}, ptr {room['panel']}, "
                        f"i64 {2 * self._lanes * self._size})"
                    )

                self._multiplied(w, room, (rows, columns, count), w(f"icmp eq i64 {k}, 0"), pack)
                return ()

            w.loop("0", word["k"], word["depth"], (), depth)
            channel = w.i64("add", w.i64("mul", group, word["m"]), row)
            self._finished(w, word, room, (image, images), (channel, rows), (place, places))

        return self._step("convolve", unit)

    def _multiplied(
        self,
        w: Writer,
        room: dict[str, str],
        sizes: tuple[str, str, str],
        first: str,
        pack: Callable[[str, str], None],
    ) -> None:
        self._panels(w, sizes, (room["a"], room["panel"], room["sums"], room["row"]), first, pack)

    def _finished(
        self,
        w: Writer,
        word: dict[str, str],
        room: dict[str, str],
        of_images: tuple[str, str],
        of_channels: tuple[str, str],
        of_places: tuple[str, str],
    ) -> None:
        """Stores the results of a unit, (where it begins, how many) of each, and runs the epilogue on them."""
        (image, images), (channel, rows), (place, places) = of_images, of_channels, of_places
        own = w.element("%arguments", "i64", str(len(WORDS)))
        out = self._at(w, word["out"], "i8", (channel, word["out_row"]), (place, word["out_column"]))

        def one(i: str, _: list[str]) -> Sequence[str]:
            number = w.i64("add", image, i)
            sums = self._at(w, room["sums"], self._number, (i, places))
            to = self._at(w, out, "i8", (number, word["out_image"]))
            w.do(
                f"call void @finish(ptr {sums}, i64 {room['row']}, i64 {rows}, i64 {places}, ptr {to}, "
                f"i64 {word['out_row']}, i64 {word['out_column']})"
            )
            after, done = w.label("after"), w.label("done")
            w.branch(w(f"icmp ne ptr {word['after']}, null"), after, done)
            w.place(after)
            line = w.i64("add", w.i64("mul", number, word["channels"]), channel)
            begin = w.i64("add", w.i64("mul", line, word["area"]), place)
            whole = w(f"icmp eq i64 {places}, {word['area']}")  # then channels follow one another
            lines = w(f"select i1 {whole}, i64 1, i64 {rows}")
            length = w(f"select i1 {whole}, i64 {w.i64('mul', rows, places)}, i64 {places}")

            def lane(r: str, _: list[str]) -> Sequence[str]:
                start = w.i64("add", begin, w.i64("mul", r, word["area"]))
                stop = w.i64("add", start, length)
                w.do(f"call void {word['after']}(ptr {own}, i64 {start}, i64 {stop})")
                return ()

            w.loop("0", lines, "1", (), lane)
            w.jump(done)
            w.place(done)
            return ()

        w.loop("0", images, "1", (), one)

    def weigh(self) -> str:
        """Units of taps and of output channels, of a part of the images."""
        width = 2 * self._lanes

        def unit(w: Writer, word: dict[str, str], room: dict[str, str], number: str) -> None:
            split = self._split(w, number, word["row_blocks"], word["column_blocks"], word["parts"])
            row_block, column_block, part, group = split
            tap, rows = self._block(w, row_block, word["rows"], word["m"])
            channel, columns = self._block(w, column_block, word["columns"], word["n"])
            first_image, of_part = self._block(w, part, word["images_of_part"], word["images"])
            begun = self._at(w, word["x"], "i8", (group, word["x_group"]), (first_image, word["x_image"]))
            other = self._at(w, word["other"], "i8", (group, word["other_group"]), (channel, word["other_column"]),
                             (first_image, word["other_image"]))  # fmt: skip
            taps = w.element(word["taps"], "i64", tap)

            def several(image: str, _: list[str]) -> Sequence[str]:
                images = self._least(w, word["images_at_once"], w.i64("sub", of_part, image))
                begin = self._at(w, begun, "i8", (image, word["x_image"]))
                right = self._at(w, other, "i8", (image, word["other_image"]))

                def some(place: str, _: list[str]) -> Sequence[str]:
                    places = self._least(w, word["places_at_once"], w.i64("sub", word["area"], place))
                    count = w.i64("mul", images, places)
                    listed = f"ptr {room['places']}, i64 {images}, i64 {place}, i64 {places}"
                    w.do(f"call void @places(ptr %arguments, {listed})")
                    source = self._source(w, word, begin, room["box"], images, place, (tap, rows))

                    def gathered(c: str, _: list[str]) -> Sequence[str]:
                        at = w.element(room["places"], "i64", c)
                        to = w.element(room["a"], self._number, c)
                        w.do(
                            f"call void @gather(ptr {source}, ptr {taps}, i64 {rows}, ptr {at}, ptr {to}, "
                            f"i64 {DEPTH * self._size})"
                        )
                        return ()

                    w.loop("0", count, str(width), (), gathered)

                    def pack(c: str, wide: str) -> None:
                        self._cleared(w, count, wide, room["panel"])
                        start = self._at(
                            w, right, "i8", (place, word["other_row"]), (c, word["other_column"])
                        )

                        def one(i: str, _: list[str]) -> Sequence[str]:
                            source = self._at(w, start, "i8", (i, word["other_image"]))
                            to = self._at(
                                w, room["panel"], self._number, (w.i64("mul", i, places), str(width))
                            )
                            steps = (source, word["other_row"], word["other_column"])
                            self._convert(w, steps, (places, wide), to, width)
                            return ()

                        w.loop("0", images, "1", (), one)

                    first = w(f"icmp eq i64 {w.i64('or', image, place)}, 0")
                    self._multiplied(w, room, (rows, columns, count), first, pack)
                    return ()

                w.loop("0", word["area"], word["places_at_once"], (), some)
                return ()

            w.loop("0", of_part, word["images_at_once"], (), several)
            out = self._at(w, word["out"], "i8", (part, word["out_image"]), (group, word["out_group"]),
                           (tap, word["out_row"]), (channel, word["out_column"]))  # fmt: skip
            w.do(
                f"call void @finish(ptr {room['sums']}, i64 {room['row']}, i64 {rows}, i64 {columns}, ptr {out}, "
                f"i64 {word['out_row']}, i64 {word['out_column']})"
            )

        return self._step("weigh", unit)
