"""Code that reads planes of packed weights: 32 codes at once, and what scales their sums."""

from __future__ import annotations

from collections.abc import Sequence

from hologram.backends.cpu.llvm.writer import Writer
from hologram.backends.cpu.products.packing import Packing
from hologram.foundation.dtypes import DType, f32
from hologram.foundation.frozen import frozen
from hologram.opset.packed.formats import UNIT, Format

HALF = UNIT // 2  # codes that are multiplied at once: a vector of 256 bits, of 16 bits each
BYTES = f"<{HALF} x i8>"
WORDS = f"<{HALF} x i16>"
WIDE = 8  # sums of a vector, and groups whose scales are read together
LANES = f"<{WIDE} x float>"
SUMS = f"<{WIDE} x i32>"


@frozen
class Machine:
    """What the code is for, as far as it matters."""

    architecture: str  # "x86", "arm" or another
    bits: int  # of vectors of short integers
    adds_products: bool = False  # x86 has instructions for sums of products of short integers (VNNI)


def splat(count: int, type_: str, value: object) -> str:
    """A vector constant of equal elements."""
    return f"<{', '.join([f'{type_} {value}'] * count)}>"


def listed(type_: str, values: Sequence[object]) -> str:
    """A vector constant."""
    return f"<{', '.join(f'{type_} {value}' for value in values)}>"


def spread(w: Writer, type_: str, value: str, count: int) -> str:
    """A vector of so many copies of a register."""
    one = w(f"insertelement <{count} x {type_}> poison, {type_} {value}, i32 0")
    return w(
        f"shufflevector <{count} x {type_}> {one}, <{count} x {type_}> poison, <{count} x i32> zeroinitializer"
    )


_POINTERS = frozenset({"x", "chosen", "codes", "scales", "high", "factors", "out", "room"})


def words_of(w: Writer, names: Sequence[str]) -> dict[str, str]:
    """The launch's words by name."""
    return {
        name: w(
            f"load {'ptr' if name in _POINTERS else 'i64'}, ptr {w.element('%arguments', 'i64', str(k))}, align 8"
        )
        for k, name in enumerate(names)
    }


def parted(w: Writer, type_: str, vector: str, total: int, width: int) -> list[str]:
    """Of a vector of tuples of `width`, a vector for each place in these."""
    count = total // width
    return [
        w(
            f"shufflevector <{total} x {type_}> {vector}, <{total} x {type_}> poison, "
            f"<{count} x i32> {listed('i32', range(k, total, width))}"
        )
        for k in range(width)
    ]


# Instructions by the architecture and how many bytes, or sums, they give.
_SHUFFLES = {
    ("x86", 16): "llvm.x86.ssse3.pshuf.b.128",
    ("x86", 32): "llvm.x86.avx2.pshuf.b",
    ("x86", 64): "llvm.x86.avx512.pshuf.b.512",
    ("arm", 16): "llvm.aarch64.neon.tbl1.v16i8",
}
_MULTIPLIES = {("x86", 8): "llvm.x86.avx2.pmadd.wd", ("x86", 16): "llvm.x86.avx512.pmaddw.d.512"}


class Decoding(Packing):
    """Writes what reads one format's planes, for x of a dtype."""

    def __init__(self, format: Format, dtype: DType, machine: Machine) -> None:
        super().__init__(dtype, f32, 256)
        self.format = format
        self.machine = machine
        self.entry = min(format.group, UNIT)  # neighbours that are added up as integers
        self.entries = UNIT // self.entry  # of a unit

    def _module(self, functions: Sequence[str]) -> str:
        """The functions with what they need."""
        metadata = [f"!{k} = {node}" for k, node in enumerate(self.metadata)]
        return "\n".join([*functions, *sorted(self.declarations), *metadata, ""])

    # Codes.

    def codes(self, w: Writer, codes: str, high: str | None) -> list[str]:
        """What the 32 codes of a unit stand for but for `centre`, as two vectors of i16."""
        halves = self._bytes(w, codes, self.format.bits)
        if high is not None:
            above = self._bytes(w, high, self.format.high)
            shift = splat(HALF, "i8", self.format.bits)
            halves = [
                w(f"or {BYTES} {low}, {w(f'shl {BYTES} {up}, {shift}')}")
                for low, up in zip(halves, above, strict=True)
            ]
        if self.format.table:
            halves = [self.looked_up(w, half, HALF) for half in halves]
        widen = "sext" if self.format.signed or self.format.table else "zext"
        return [w(f"{widen} {BYTES} {half} to {WORDS}") for half in halves]

    def _bytes(self, w: Writer, at: str, bits: int) -> list[str]:
        """The 32 codes of `bits` bits each from a plane, a byte each, in two halves; see formats.py."""
        if bits == 8:
            return [w(f"load {BYTES}, ptr {w.element(at, 'i8', str(first))}, align 4") for first in (0, HALF)]
        mask = (1 << bits) - 1
        if bits == 4:
            packed = w(f"load {BYTES}, ptr {at}, align 4")
            low = w(f"and {BYTES} {packed}, {splat(HALF, 'i8', mask)}")
            return [low, w(f"lshr {BYTES} {packed}, {splat(HALF, 'i8', 4)}")]
        # Copies side by side, each shifted to its codes.
        type_ = f"i{UNIT * bits}"
        count = 8 // bits
        copies = spread(w, type_, w(f"load {type_}, ptr {at}, align 4"), count)
        shifts = listed(type_, [bits * k for k in range(count)])
        every = w(
            f"bitcast <{count} x {type_}> {w(f'lshr <{count} x {type_}> {copies}, {shifts}')} to <32 x i8>"
        )
        every = w(f"and <32 x i8> {every}, {splat(UNIT, 'i8', mask)}")
        halves = []
        for first in (0, HALF):
            order = listed("i32", range(first, first + HALF))
            halves.append(w(f"shufflevector <32 x i8> {every}, <32 x i8> poison, <{HALF} x i32> {order}"))
        return halves

    def looked_up(self, w: Writer, codes: str, size: int) -> str:
        """Entries of the table of 16: one instruction where the processor has it, else 16 choices."""
        type_ = f"<{size} x i8>"
        table = listed("i8", self.format.table * (size // len(self.format.table)))
        name = _SHUFFLES.get((self.machine.architecture, size))
        if name is not None and 8 * size <= max(self.machine.bits, 128):
            return w.intrinsic(name, type_, (type_, table), (type_, codes))
        found = splat(size, "i8", 0)
        for code, value in enumerate(self.format.table):
            same = w(f"icmp eq {type_} {codes}, {splat(size, 'i8', code)}")
            found = w(f"select <{size} x i1> {same}, {type_} {splat(size, 'i8', value)}, {type_} {found}")
        return found

    def multiplied(self, w: Writer, codes: str, x: str, count: int = WIDE) -> str:
        """Sums of neighbouring products of i16, two and two, in i32: so many of them."""
        pairs, sums = f"<{2 * count} x i16>", f"<{count} x i32>"
        name = _MULTIPLIES.get((self.machine.architecture, count))
        if name is not None and 32 * count <= self.machine.bits:
            return w.intrinsic(name, sums, (pairs, codes), (pairs, x))
        wide = f"<{2 * count} x i32>"
        product = w(
            f"mul nsw {wide} {w(f'sext {pairs} {codes} to {wide}')}, {w(f'sext {pairs} {x} to {wide}')}"
        )
        even, odd = (
            w(
                f"shufflevector {wide} {product}, {wide} poison, "
                f"<{count} x i32> {listed('i32', range(k, 2 * count, 2))}"
            )
            for k in (0, 1)
        )
        return w(f"add nsw {sums} {even}, {odd}")

    def accumulated(self, w: Writer, total: str, codes: str, x: str, count: int) -> str:
        """`multiplied`, added to a total."""
        sums = f"<{count} x i32>"
        if self.machine.adds_products:
            codes, x = (w(f"bitcast <{2 * count} x i16> {v} to {sums}") for v in (codes, x))
            return w.intrinsic(
                f"llvm.x86.avx512.vpdpwssd.{32 * count}", sums, (sums, total), (sums, codes), (sums, x)
            )
        return w(f"add {sums} {total}, {self.multiplied(w, codes, x, count)}")

    # Scales.

    @property
    def together(self) -> bool:
        """Whether the scales of WIDE entries can be read together: all of one block, or a block for each."""
        return self.format.factored or self.format.block == self.format.group == self.entry

    def scales(self, w: Writer, places: dict[str, str], entry: str, count: int) -> list[str]:
        """Scales, and minima if there are, of `count` entries from one on; `places` are where the row's planes begin.

        A weight is the scale times what its code is above `centre`, less the minimum.
        """
        format = self.format
        if format.factored:
            return self._factored(w, places, entry, count)
        per = format.block // self.entry if format.block else 0
        block = entry if per == 1 else w(f"udiv i64 {entry}, {per}") if per else "0"
        width = 1 + format.minima
        return self._floats(w, places["scales"], w(f"mul i64 {block}, {width}"), width, count)

    def centre(self, w: Writer, places: dict[str, str], entry: str, count: int, number: str) -> str | None:
        """What codes of `count` entries are counted from, as numbers of a type (`float`, `i16`); None: from 0."""
        format, type_ = self.format, number if count == 1 else f"<{count} x {number}>"
        convert = "sitofp" if number == "float" else "sext"
        if format.zeros:
            per = max(format.group // self.entry, 1)
            group = entry if per == 1 else w(f"udiv i64 {entry}, {per}")
            kind = "i8" if count == 1 else f"<{count} x i8>"
            zeros = w(f"load {kind}, ptr {w.element(places['factors'], 'i8', group)}, align 1")
            return w(f"{convert} {kind} {zeros} to {type_}")
        if not format.centre:
            return None
        value = f"{float(format.centre):.1f}" if number == "float" else format.centre
        return str(value) if count == 1 else splat(count, number, value)

    def _factored(self, w: Writer, places: dict[str, str], entry: str, count: int) -> list[str]:
        """Scales (and minima) of groups within a block."""
        format, width = self.format, 1 + self.format.minima
        block = w(f"udiv i64 {entry}, {format.block // self.entry}")
        shared = self._floats(w, places["scales"], w(f"mul i64 {block}, {width}"), width, 1)
        at = w.element(places["factors"], "i8", w(f"mul i64 {entry}, {width}"))
        total = count * width
        raw = w(f"load <{total} x i8>, ptr {at}, align 1")
        if count == 1:
            bytes_ = [w(f"extractelement <{total} x i8> {raw}, i32 {k}") for k in range(width)]
            return [
                w(f"fmul float {x}, {w(f'sitofp i8 {b} to float')}")
                for x, b in zip(shared, bytes_, strict=True)
            ]
        found = []
        for number, part in zip(shared, parted(w, "i8", raw, total, width), strict=True):
            factors = w(f"sitofp <{count} x i8> {part} to <{count} x float>")
            found.append(w(f"fmul <{count} x float> {spread(w, 'float', number, count)}, {factors}"))
        return found

    def _floats(self, w: Writer, plane: str, at: str, width: int, count: int) -> list[str]:
        """`count` times `width` neighbours of the plane of scales: those with equal place in their tuple together."""
        size = self.format.scale.itemsize
        place = w.element(plane, "i8", w(f"mul i64 {at}, {size}"))
        total = count * width
        kind = {"f32": "float", "f16": "half", "bf16": "i16"}[self.format.scale.name]
        if kind == "half" and total == 1:
            # LLVM would load it into a part of a register, and so wait for what that held: it shall not know the load.
            bits = w(f"zext i16 {w(f'load i16, ptr {place}, align 2')} to i32")
            hidden = w(f'call i32 asm "", "=r,0"(i32 {bits})')
            pair = w(f"fpext <2 x half> {w(f'bitcast i32 {hidden} to <2 x half>')} to <2 x float>")
            return [w(f"extractelement <2 x float> {pair}, i32 0")]
        raw = w(f"load <{total} x {kind}>, ptr {place}, align {size}")
        if kind == "half":
            raw = w(f"fpext <{total} x half> {raw} to <{total} x float>")
        elif kind == "i16":
            wide = w(f"zext <{total} x i16> {raw} to <{total} x i32>")
            bits = w(f"shl <{total} x i32> {wide}, {splat(total, 'i32', 16)}")
            raw = w(f"bitcast <{total} x i32> {bits} to <{total} x float>")
        if count == 1:
            return [w(f"extractelement <{total} x float> {raw}, i32 {k}") for k in range(width)]
        return parted(w, "float", raw, total, width)
