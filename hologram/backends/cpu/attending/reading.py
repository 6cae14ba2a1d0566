"""What the steps of attention by few queries read: a launch's words, and where operands lie."""

from __future__ import annotations

from hologram.backends.cpu.attending.vectors import INTEGERS, LANES, WIDE
from hologram.backends.cpu.llvm.writer import Writer, memory_type
from hologram.backends.cpu.products.packing import Packing
from hologram.foundation.dtypes import DType, f32
from hologram.foundation.frozen import frozen

ADDRESSES = ("q", "k", "v", "mask", "lengths", "slopes", "scales", "sinks", "out", "room")
NUMBERS = ("rows", "keys", "e", "ev", "groups", "heads", "parts", "window", "block", "blocks", "turn")
FLOATS = ("scale", "softcap")
_OF_ROWS = tuple(
    f"{n}_{axis}" for n in ("q", "k", "v", "mask", "out") for axis in ("batch", "head", "group", "row")
)
_OF_HEADS = tuple(
    f"{n}_{axis}" for n in ("lengths", "slopes", "sinks") for axis in ("batch", "head", "group")
)
_OF_CACHES = ("k_block", "v_block", *(f"scales_{x}" for x in ("batch", "head", "row", "block", "of_values")))
ARGUMENTS = (*ADDRESSES, *NUMBERS, *FLOATS, *_OF_ROWS, *_OF_HEADS, *_OF_CACHES)


@frozen
class Kind:
    """What code there is for: the dtypes, None for operands that are not given, and how scores become weights."""

    dtype: DType
    cache: DType
    table: DType | None
    scales: DType | None
    mask: DType | None
    lengths: DType | None
    slopes: DType | None
    sinks: DType | None
    causal: bool
    window: bool
    softcap: bool


class Reading(Packing):
    """Writes functions for one kind."""

    def __init__(self, kind: Kind) -> None:
        super().__init__(kind.dtype, f32, 256)
        self.kind, self._cache = kind, Packing(kind.cache, f32, 256)

    def _words(self, w: Writer) -> dict[str, str]:
        found = {}
        for k, name in enumerate(ARGUMENTS):
            type_ = "ptr" if name in ADDRESSES else "float" if name in FLOATS else "i64"
            found[name] = w(f"load {type_}, ptr {w.element('%arguments', 'i64', str(k))}, align 8")
        return found

    @staticmethod
    def _place(w: Writer, word: dict[str, str], name: str, at: dict[str, str]) -> str:
        """Where an operand begins for an entry of the batch, a head, and so on."""
        place = word[name]
        for axis, position in at.items():
            place = w.element(place, "i8", w.i64("mul", position, word[f"{name}_{axis}"]))
        return place

    def _cached(self, w: Writer, line: str, column: str, more: int = 0) -> str:
        """A vector of keys' or values' elements, so many behind a column of a line."""
        if self.kind.cache.is_float:
            place = w.element(line, self._cache._raw, column)
            return self._cache._vector_at(w, w.element(place, self._cache._raw, str(more)), WIDE)
        place = w.element(w.element(line, "i8", column), "i8", str(more))
        codes = w(f"load <{WIDE} x i8>, ptr {place}, align 1")
        return w(f"sitofp {INTEGERS} {w(f'sext <{WIDE} x i8> {codes} to {INTEGERS}')} to {LANES}")

    @staticmethod
    def _whole_at(w: Writer, place: str, dtype: DType) -> str:
        """One integer, as i64."""
        value = w(f"load {memory_type(dtype)}, ptr {place}, align {dtype.itemsize}")
        if dtype.bits == 64:
            return value
        return w(f"{'sext' if dtype.kind == 'int' else 'zext'} {memory_type(dtype)} {value} to i64")

    @staticmethod
    def _number_at(w: Writer, place: str, dtype: DType) -> str:
        """One float."""
        return Packing(dtype, f32, 256)._element(w, place)

    @staticmethod
    def _most(w: Writer, x: str, y: str) -> str:
        return w.intrinsic("llvm.smax.i64", "i64", ("i64", x), ("i64", y))

    @staticmethod
    def _room(w: Writer, word: dict[str, str], row: str, part: str) -> str:
        """Where a part of a query lies: its sums of values, its largest score, its total."""
        at = w.i64("add", w.i64("mul", row, word["parts"]), part)
        return w.element(word["room"], "float", w.i64("mul", at, w.i64("add", word["ev"], WIDE)))
