"""Code that makes packed weights floats: rows of them at a time, in order, with the bits that `dequantize` promises."""

from __future__ import annotations

from collections.abc import Sequence

from hologram.backends.cpu.llvm.writer import Writer
from hologram.backends.cpu.packed.decoding import HALF, UNIT, WIDE, WORDS, Decoding, listed, spread, words_of

ARGUMENTS = (
    *("codes", "scales", "high", "factors", "out"),  # addresses
    *("n", "units"),
    *("codes_row", "scales_row", "high_row", "factors_row", "out_row"),  # bytes from row to row
)
_PLANES = ("codes", "scales", "high", "factors")


class Slabs(Decoding):
    """Writes the function, for one format."""

    arguments = ARGUMENTS
    functions = ("widen",)

    def text(self) -> str:
        """The module."""
        return self._module([self._widen()])

    def _widen(self) -> str:
        """Rows begin .. end of the weights."""

        def body(w: Writer) -> None:
            word = words_of(w, ARGUMENTS)

            def row(n: str, _: list[str]) -> Sequence[str]:
                places = {p: w.element(word[p], "i8", w(f"mul i64 {n}, {word[p + '_row']}")) for p in _PLANES}
                out = w.element(word["out"], "i8", w(f"mul i64 {n}, {word['out_row']}"))

                def unit(u: str, _: list[str]) -> Sequence[str]:
                    codes = w.element(places["codes"], "i8", w(f"mul i64 {u}, {4 * self.format.bits}"))
                    high = None
                    if self.format.high:
                        high = w.element(places["high"], "i8", w(f"mul i64 {u}, {4 * self.format.high}"))
                    to = w.element(out, "float", w(f"mul i64 {u}, {UNIT}"))
                    for k, half in enumerate(self.codes(w, codes, high)):
                        entry = w(f"add i64 {w(f'mul i64 {u}, {self.entries}')}, {k % self.entries}")
                        self._half(w, places, entry, half, w.element(to, "float", str(k * HALF)))
                    return ()

                w.loop("0", word["units"], "1", (), unit)
                return ()

            w.loop("%begin", "%end", "1", (), row)

        return self._function("void @widen(ptr %arguments, i64 %begin, i64 %end)", body)

    def _half(self, w: Writer, places: dict[str, str], entry: str, codes: str, to: str) -> None:
        """16 codes of an entry as weights."""
        centre = self.centre(w, places, entry, 1, "i16")
        if centre is not None:
            codes = w(f"sub {WORDS} {codes}, {spread(w, 'i16', centre, HALF)}")
        scale, *minimum = self.scales(w, places, entry, 1)
        floats = f"<{WIDE} x float>"
        for first in range(0, HALF, WIDE):
            order = listed("i32", range(first, first + WIDE))
            part = w(f"shufflevector {WORDS} {codes}, {WORDS} poison, <{WIDE} x i32> {order}")
            value = w(f"sitofp <{WIDE} x i16> {part} to {floats}")
            value = w(f"fmul {floats} {value}, {spread(w, 'float', scale, WIDE)}")
            if minimum:
                value = w(f"fsub {floats} {value}, {spread(w, 'float', minimum[0], WIDE)}")
            w.do(f"store {floats} {value}, ptr {w.element(to, 'float', str(first))}, align 4")
