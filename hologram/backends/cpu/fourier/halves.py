"""Code that takes the spectrum of n / 2 pairs of real numbers apart into that of all n, and puts it together again.

Elements k and n / 2 - k follow from each other's, so both are read before one is written, and a row may be made where
it lies.
"""

from __future__ import annotations

from hologram.backends.cpu.fourier.vectors import Pair, Vectors, turned
from hologram.backends.cpu.llvm.arguments import load_slot
from hologram.backends.cpu.llvm.writer import Writer
from hologram.foundation.dtypes import DType

ADDRESSES = ("x", "out", "roots")
WORDS = (*ADDRESSES, "half", "x_row", "out_row")  # rows in bytes
FUNCTIONS = ("apart", "together")


def text(part: DType, lanes: int) -> str:
    """IR of the functions."""
    metadata = ["distinct !{}"]
    declarations: set[str] = set()
    written = []
    for name in FUNCTIONS:
        w = Writer(metadata)
        _Rows(w, part, lanes, name == "together").all()
        written.append(w.function(f"void @{name}(ptr %arguments, i64 %begin, i64 %end)", "nounwind"))
        declarations |= w.declarations
    nodes = [f"!{k} = {node}" for k, node in enumerate(metadata)]
    return "\n".join([*written, *sorted(declarations), *nodes, ""])


class _Rows:
    """Writes one of the functions."""

    def __init__(self, w: Writer, part: DType, lanes: int, together: bool) -> None:
        self.w, self.part, self.lanes, self.together = w, part, lanes, together
        self.words = {
            word: load_slot(w, k, "ptr" if word in ADDRESSES else "i64") for k, word in enumerate(WORDS)
        }

    def all(self) -> None:
        w, half = self.w, self.words["half"]
        # Elements 1 to half / 2 have their opposites; of the last vectors' both, no lane may be the other's.
        opposites = w(f"lshr i64 {w(f'sub i64 {half}, 1')}, 1")
        vectors = w(f"udiv i64 {opposites}, {self.lanes}")

        def row(k: str, _: list[str]) -> list[str]:
            x, out = (
                w.element(self.words[name], "i8", w(f"mul i64 {k}, {self.words[row]}"))
                for name, row in (("x", "x_row"), ("out", "out_row"))
            )
            self._ends(x, out)

            def pairs(i: str, _: list[str]) -> list[str]:
                self._pairs(x, out, w(f"add i64 {w(f'mul i64 {i}, {self.lanes}')}, 1"), self.lanes)
                return []

            w.loop("0", vectors, "1", [], pairs)

            def pair(i: str, _: list[str]) -> list[str]:
                self._pairs(x, out, i, 1)
                return []

            start = w(f"add i64 {w(f'mul i64 {vectors}, {self.lanes}')}, 1")
            w.loop(start, w(f"add i64 {w(f'lshr i64 {half}, 1')}, 1"), "1", [], pair)
            return []

        w.loop("%begin", "%end", "1", [], row)
        w.do("ret void")

    def _at(self, row: str, k: str) -> str:
        return self.w.element(row, "i8", self.w(f"mul i64 {k}, {2 * self.part.itemsize}"))

    def _ends(self, x: str, out: str) -> None:
        v, half = Vectors(self.w, self.part, 1), self.words["half"]
        first, zero = v.load_numbers(x), v.all_of(0.0)
        if self.together:
            last = v.load_numbers(self._at(x, half))
            total, apart = v.binary("fadd", first.re, last.re), v.binary("fsub", first.re, last.re)
            v.store_numbers(Pair(v, total, apart), out)
        else:
            total, apart = v.binary("fadd", first.re, first.im), v.binary("fsub", first.re, first.im)
            v.store_numbers(Pair(v, total, zero), out)
            v.store_numbers(Pair(v, apart, zero), self._at(out, half))

    def _pairs(self, x: str, out: str, k: str, lanes: int) -> None:
        """Elements k, k + 1, ... and their opposites."""
        w, v = self.w, Vectors(self.w, self.part, lanes)
        opposite = w(f"sub i64 {self.words['half']}, {w(f'add i64 {k}, {lanes - 1}')}")
        one, other = v.load_numbers(self._at(x, k)), self._mirrored(v, v.load_numbers(self._at(x, opposite)))
        root = v.load_numbers(self._at(self.words["roots"], k))
        root = self._conjugate(v, root) if self.together else root
        even, odd = one + other, turned(one - other, 0.25 if self.together else -0.25)
        odd = v.product(odd, root.re, root.im)
        if not self.together:
            even, odd = even * 0.5, odd * 0.5
        v.store_numbers(even + odd, self._at(out, k))
        v.store_numbers(self._mirrored(v, even - odd), self._at(out, opposite))

    def _conjugate(self, v: Vectors, z: Pair) -> Pair:
        return Pair(v, z.re, self.w(f"fneg {v.type} {z.im}"))

    def _mirrored(self, v: Vectors, z: Pair) -> Pair:
        """Conjugates, the last lane first."""
        back = range(v.lanes - 1, -1, -1)
        return self._conjugate(v, Pair(v, *(v.shuffled(part, part, back) for part in (z.re, z.im))))
