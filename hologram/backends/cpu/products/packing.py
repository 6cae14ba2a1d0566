"""Code that packs matrices as numbers to add up, and stores sums; 16-bit floats are f32 meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from hologram.backends.cpu.llvm.writer import Writer, from_memory, memory_type, register_type, to_memory
from hologram.foundation.dtypes import DType
from hologram.foundation.frozen import frozen

_TURN = 8  # rows and columns that are transposed in registers


def added_as(dtype: DType) -> DType:
    """What products of a floating dtype are added up as; integers, which are only moved, as they are."""
    return dtype.computed


def _splat(count: int, type_: str, value: str) -> str:
    return f"<{', '.join([f'{type_} {value}'] * count)}>"


@frozen
class Ways:
    """How matrices lie that code is for: those that are packed, where results go, and how many rows there are.

    "along": neighbours of a row side by side; "turned": those of a column; "other": neither. `many` is for rows enough
    that none are left over by themselves.
    """

    packed: tuple[str, ...] = ("along", "turned", "other")
    stored: tuple[str, ...] = ("along", "other")
    many: bool = False


EVERY = Ways()


class Packing:
    """Writes functions that change operands to what is added up, and sums to what is stored, for a pair of dtypes."""

    def __init__(self, dtype: DType, stored: DType, vector_bits: int, ways: Ways = EVERY) -> None:
        self._ways = ways
        self._dtype, self._stored, self._align = dtype, stored, dtype.itemsize
        self._sum = added_as(dtype)
        self._size, self._lanes = self._sum.itemsize, vector_bits // self._sum.bits
        self._number = register_type(self._sum)
        self._vector = f"<{self._lanes} x {self._number}>"
        self._raw = "i16" if dtype.itemsize == 2 else self._number
        self.metadata = ["distinct !{}"]
        self.declarations: set[str] = set()

    def _function(self, signature: str, body: Callable[[Writer], None]) -> str:
        w = Writer(self.metadata)
        body(w)
        w.do("ret void")
        self.declarations |= w.declarations
        return w.function(signature, "nounwind")

    def _wide(self, w: Writer, raw: str, count: int) -> str:
        """So many elements of memory as numbers."""
        if self._dtype == self._sum:
            return raw
        if self._dtype.name == "f16":
            half = w(f"bitcast <{count} x i16> {raw} to <{count} x half>")
            return w(f"fpext <{count} x half> {half} to <{count} x float>")
        wide = w(f"zext <{count} x i16> {raw} to <{count} x i32>")
        shifted = w(f"shl <{count} x i32> {wide}, {_splat(count, 'i32', '16')}")
        return w(f"bitcast <{count} x i32> {shifted} to <{count} x float>")

    def _element(self, w: Writer, pointer: str) -> str:
        """One element of memory as a number."""
        kind = memory_type(self._dtype)
        return from_memory(w, w(f"load {kind}, ptr {pointer}, align {self._align}"), self._dtype)

    def _vector_at(self, w: Writer, pointer: str, count: int) -> str:
        """So many neighbours in memory as numbers."""
        return self._wide(w, w(f"load <{count} x {self._raw}>, ptr {pointer}, align {self._align}"), count)

    def _prefetched(self, w: Writer, pointer: str) -> None:
        """Asks for a line of memory, which need not be there, to be brought into the second cache."""
        self.declarations.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        w.do(f"call void @llvm.prefetch.p0(ptr {pointer}, i32 0, i32 2, i32 1)")

    @staticmethod
    def _least(w: Writer, x: str, y: str) -> str:
        return w.intrinsic("llvm.smin.i64", "i64", ("i64", x), ("i64", y))

    def _fused(self, w: Writer, type_: str, x: str, y: str, z: str) -> str:
        lanes = "" if type_ == self._number else f"v{self._lanes}"
        name = f"llvm.fma.{lanes}{self._sum.name}"
        return w.intrinsic(name, type_, (type_, x), (type_, y), (type_, z))

    def convert(self, name: str = "convert") -> str:
        """A matrix as numbers, its rows `%to.row` bytes apart: as it lies, turned, or from anywhere."""

        def body(w: Writer) -> None:
            size = str(self._dtype.itemsize)
            pack = {
                "along": lambda: self._convert_rows(w, size, "0", "%columns"),
                "turned": lambda: self._convert_turned(w),
                "other": lambda: self._convert_rows(w, "%column", "0", "%columns"),
            }
            asked = {"along": "%column", "turned": "%row"}
            _chosen(w, self._ways.packed, lambda way: w(f"icmp eq i64 {asked[way]}, {size}"), pack)

        arguments = "ptr %from, i64 %row, i64 %column, i64 %rows, i64 %columns, ptr noalias %to, i64 %to.row"
        return self._function(f"internal void @{name}({arguments})", body)

    def _convert_rows(
        self, w: Writer, step: str, start: str, stop: str, rows: tuple[str, str] = ("0", "%rows")
    ) -> None:
        def row(r: str, _: list[str]) -> Sequence[str]:
            source = w.element("%from", "i8", w(f"mul i64 {r}, %row"))
            target = w.element("%to", "i8", w(f"mul i64 {r}, %to.row"))

            def column(c: str, _: list[str]) -> Sequence[str]:
                value = self._element(w, w.element(source, "i8", w(f"mul i64 {c}, {step}")))
                self._keep(w, self._number, value, w.element(target, self._number, c))
                return ()

            w.loop(start, stop, "1", (), column, kept=step == "%column")  # no vectors of what lies apart
            return ()

        w.loop(*rows, "1", (), row)

    def _convert_turned(self, w: Writer) -> None:
        """Squares of 8 x 8 by three rounds of interleaving; then what is left to the right and below.

        A panel's next neighbour is fetched meanwhile: its lines are too short for the processor to see them coming.
        """
        next_panel = w(f"mul i64 %column, {2 * self._lanes}")
        whole_rows, whole_columns = (w(f"and i64 {x}, {-_TURN}") for x in ("%rows", "%columns"))

        def right(c: str, _: list[str]) -> Sequence[str]:
            source = w.element("%from", "i8", w(f"mul i64 {c}, %column"))
            target = w.element("%to", self._number, c)

            def down(r: str, _: list[str]) -> Sequence[str]:
                begin = w.element(source, "i8", w(f"mul i64 {r}, {self._dtype.itemsize}"))
                lines = []
                for x in range(_TURN):
                    at = w.element(begin, "i8", w(f"mul i64 %column, {x}"))
                    lines.append(w(f"load <8 x {self._raw}>, ptr {at}, align {self._align}"))
                    self._prefetched(w, w.element(at, "i8", next_panel))
                for k, line in enumerate(_turned(w, lines, self._raw)):
                    at = w.element(target, "i8", w(f"mul i64 {w(f'add i64 {r}, {k}')}, %to.row"))
                    self._keep(w, f"<8 x {self._number}>", self._wide(w, line, _TURN), at)
                return ()

            w.loop("0", whole_rows, str(_TURN), (), down)
            return ()

        w.loop("0", whole_columns, str(_TURN), (), right)
        self._convert_rows(w, "%column", whole_columns, "%columns", ("0", whole_rows))
        self._convert_rows(w, "%column", "0", "%columns", (whole_rows, "%rows"))

    def _keep(self, w: Writer, type_: str, value: str, place: str) -> None:
        """Stores numbers in the room."""
        w.do(f"store {type_} {value}, ptr {place}, align {self._size}")

    def _store(self, w: Writer, value: str, place: str) -> None:
        stored = to_memory(w, value, self._stored)
        w.do(f"store {memory_type(self._stored)} {stored}, ptr {place}, align {self._stored.itemsize}")

    def finish(self) -> str:
        """Sums, rounded, where results lie."""

        def lines(w: Writer, step: str) -> None:
            def row(r: str, _: list[str]) -> Sequence[str]:
                source = w.element("%from", "i8", w(f"mul i64 {r}, %from.row"))
                target = w.element("%to", "i8", w(f"mul i64 {r}, %row"))

                def column(c: str, _: list[str]) -> Sequence[str]:
                    at = w.element(source, self._number, c)
                    value = w(f"load {self._number}, ptr {at}, align {self._size}")
                    self._store(w, value, w.element(target, "i8", w(f"mul i64 {c}, {step}")))
                    return ()

                w.loop("0", "%columns", "1", (), column, kept=step == "%column")
                return ()

            w.loop("0", "%rows", "1", (), row)

        def body(w: Writer) -> None:
            size = str(self._stored.itemsize)
            store = {"along": lambda: lines(w, size), "other": lambda: lines(w, "%column")}
            _chosen(w, self._ways.stored, lambda way: w(f"icmp eq i64 %column, {size}"), store)

        arguments = "ptr noalias %from, i64 %from.row, i64 %rows, i64 %columns, ptr noalias %to, i64 %row, i64 %column"
        return self._function(f"internal void @finish({arguments})", body)


def _chosen(
    w: Writer, ways: Sequence[str], holds: Callable[[str], str], write: Mapping[str, Callable[[], None]]
) -> None:
    """The code of the first way that holds; the last does where none before it does."""
    *asked, last = ways
    done = w.label("end")
    for way in asked:
        here, further = w.label(way), w.label("asked")
        w.branch(holds(way), here, further)
        w.place(here)
        write[way]()
        w.jump(done)
        w.place(further)
    write[last]()
    w.jump(done)
    w.place(done)


def _turned(w: Writer, lines: list[str], type_: str) -> list[str]:
    """Eight lines of eight, transposed: thrice, line k beside line k + 4, interleaved."""
    low = ", ".join(f"i32 {x // 2 + x % 2 * 8}" for x in range(8))
    high = ", ".join(f"i32 {4 + x // 2 + x % 2 * 8}" for x in range(8))
    for _ in range(3):
        lines = [
            w(f"shufflevector <8 x {type_}> {lines[k]}, <8 x {type_}> {lines[k + 4]}, <8 x i32> <{mask}>")
            for k in range(4)
            for mask in (low, high)
        ]
    return lines
