"""LLVM IR that multiplies rows of floats by packed weights, as whole numbers.

Rows of x are rounded first, UNIT columns by one scale, to i16: the error is 2^-16 of the largest of the 32, and sums of
products with codes, of at most 8 bits, are exact in i32. A unit's codes stand in the order in which they come out of
their bytes (first the lowest bits of all bytes, then the next), and so do the numbers of x, so that codes need no move.
Neighbours in that order are a lane of i32, which x86 multiplies and adds in one instruction.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from hologram.backends.cpu.llvm.arguments import load_slot
from hologram.backends.cpu.llvm.writer import Writer, literal, memory_type
from hologram.foundation.dtypes import f32
from hologram.foundation.frozen import frozen
from hologram.opset.packed.formats import Format

BUFFERS = ("x", "codes", "high", "scale", "scale_codes", "minimum", "minimum_codes", "out")
WORDS = (*BUFFERS, "m", "n", "k", "room")
FUNCTIONS = ("rounded", "product")
UNIT = 32  # columns that are taken at a time
LANES = 8  # of a register of i32, a lane for two columns
MOST = 32767.0  # magnitude of a rounded number
SIDE_BY_SIDE = 4  # rows of x that share what is read of the weights
FLOATS, WHOLE = f"<{UNIT} x float>", f"<{UNIT} x i32>"
SUMS, NUMBERS, BYTES = f"<{LANES} x float>", f"<{LANES} x i32>", f"<{UNIT} x i8>"
_ATTRIBUTES = 'nounwind "prefer-vector-width"="256"'


def _f(number: float) -> str:
    return literal(number, f32)


def _all(count: int, type_: str, number: object) -> str:
    return f"<{', '.join([f'{type_} {number}'] * count)}>"


def out_of_bytes(bits: int) -> list[int]:
    """The columns of a unit in the order in which codes of so many bits come out of their bytes."""
    each = 8 // bits
    return [each * j + s for s in range(each) for j in range(UNIT // each)]


@frozen
class Geometry:
    """How a unit's columns lie in registers."""

    format: Format

    @property
    def order(self) -> list[int]:
        return out_of_bytes(self.format.low_bits)

    @property
    def group(self) -> int:
        """Columns of a unit that share a scale."""
        return min(self.format.group, UNIT)

    @property
    def groups(self) -> int:
        return UNIT // self.group

    @property
    def group_of_lanes(self) -> list[int] | None:
        """Which group each lane belongs to, in all registers of a unit; None where that is not one."""
        found = [{self.order[k] // self.group for k in _columns_of(lane)} for lane in range(LANES)]
        return [groups.pop() for groups in found] if all(len(groups) == 1 for groups in found) else None

    def row_words(self, k: int) -> int:
        """Floats that a rounded row takes: numbers of two bytes, scales of units, and sums of groups."""
        return k // 2 + k // UNIT * (1 + self.groups)


def _columns_of(lane: int) -> list[int]:
    """Places in a unit whose products a lane adds up."""
    return [first + 2 * lane + k for first in range(0, UNIT, 2 * LANES) for k in range(2)]


def text(format: Format, pairs: bool) -> str:
    """The module; `pairs`: there are AVX2's instructions."""
    metadata, declarations = ["distinct !{}"], set[str]()
    written = []
    for name, body in (("rounded", _rounded), ("product", _product)):
        w = Writer(metadata)
        pointers = {*BUFFERS, "room"}
        words = {n: load_slot(w, k, "ptr" if n in pointers else "i64") for k, n in enumerate(WORDS)}
        body(_Code(w, Geometry(format), words, pairs))
        w.do("ret void")
        declarations |= w.declarations
        written.append(w.function(f"void @{name}(ptr noalias %arguments, i64 %begin, i64 %end)", _ATTRIBUTES))
    nodes = [f"!{k} = {node}" for k, node in enumerate(metadata)]
    return "\n".join([*written, *sorted(declarations), *nodes, ""])


@frozen
class _Row:
    """Where the parts of a rounded row begin."""

    numbers: str
    scales: str
    sums: str


class _Code:
    """What both functions are written with."""

    def __init__(self, w: Writer, geometry: Geometry, words: dict[str, str], pairs: bool) -> None:
        self.w, self.geometry, self.words, self.pairs = w, geometry, words, pairs
        self.units = w.i64("udiv", words["k"], UNIT)
        parts = w.i64("mul", self.units, UNIT // 2 + 1 + geometry.groups)
        self.row_words = parts

    def row(self, number: str) -> _Row:
        w = self.w
        numbers = w.element(self.words["room"], "float", w.i64("mul", number, self.row_words))
        scales = w.element(numbers, "i16", self.words["k"])
        return _Row(numbers, scales, w.element(scales, "float", self.units))

    def load(self, count: int, type_: str, pointer: str, position: str) -> str:
        return self.w(f"load <{count} x {type_}>, ptr {self.w.element(pointer, type_, position)}, align 1")

    def store(self, count: int, type_: str, value: str, pointer: str, position: str) -> None:
        place = self.w.element(pointer, type_, position)
        self.w.do(f"store <{count} x {type_}> {value}, ptr {place}, align 1")

    def shuffled(self, count: int, type_: str, value: str, mask: Sequence[int], other: str = "poison") -> str:
        kind, numbers = f"<{count} x {type_}>", ", ".join(f"i32 {k}" for k in mask)
        return self.w(f"shufflevector {kind} {value}, {kind} {other}, <{len(mask)} x i32> <{numbers}>")

    def vector(self, values: Sequence[str]) -> str:
        found = "poison"
        for k, value in enumerate(values):
            found = self.w(f"insertelement <{len(values)} x float> {found}, float {value}, i64 {k}")
        return found

    def parts(self, pointer: str, bits: int, position: str) -> str:
        """A unit's codes of so many bits, as bytes in the order in which they come out of theirs."""
        w, each = self.w, 8 // bits
        count = UNIT // each
        kind, mask = f"<{count} x i8>", _all(count, "i8", (1 << bits) - 1)
        loaded = self.load(count, "i8", pointer, w.i64("mul", position, count))
        shifted = [w(f"lshr {kind} {loaded}, {_all(count, 'i8', s * bits)}") for s in range(each)]
        found = [w(f"and {kind} {part}, {mask}") for part in shifted]
        while len(found) > 1:
            pairs = zip(found[::2], found[1::2], strict=True)
            found = [self.shuffled(count, "i8", a, range(2 * count), b) for a, b in pairs]
            count *= 2
        return found[0]


def _rounded(code: _Code) -> None:
    """A slice of the units of all rows of x, as whole numbers."""
    w, words = code.w, code.words

    def each(number: str, _: list[str]) -> list[str]:
        row, at = w.i64("udiv", number, code.units), w.i64("urem", number, code.units)
        place, column = code.row(row), w.i64("mul", at, UNIT)
        x = code.load(UNIT, "float", w.element(words["x"], "float", w.i64("mul", row, words["k"])), column)
        whole, scale = _rounded_unit(w, x)
        narrow = w(f"trunc {WHOLE} {whole} to <{UNIT} x i16>")
        code.store(
            UNIT, "i16", code.shuffled(UNIT, "i16", narrow, code.geometry.order), place.numbers, column
        )
        w.do(f"store float {scale}, ptr {w.element(place.scales, 'float', at)}")
        sums, run = [], code.geometry.group
        for first in range(0, UNIT, run):
            part = code.shuffled(UNIT, "i32", whole, range(first, first + run))
            total = w.intrinsic(f"llvm.vector.reduce.add.v{run}i32", "i32", (f"<{run} x i32>", part))
            sums.append(w(f"fmul float {w(f'sitofp i32 {total} to float')}, {scale}"))
        groups = len(sums)
        code.store(groups, "float", code.vector(sums), place.sums, w.i64("mul", at, groups))
        return []

    w.loop("%begin", "%end", "1", [], each)


def _rounded_unit(w: Writer, x: str) -> tuple[str, str]:
    """Whole numbers, and the scale that makes x of them: NaN where one of x is not finite."""
    size = w.intrinsic(f"llvm.fabs.v{UNIT}f32", FLOATS, (FLOATS, x))
    top = w.intrinsic(f"llvm.vector.reduce.fmaximum.v{UNIT}f32", "float", (FLOATS, size))
    finite = w(f"fcmp olt float {top}, {_f(math.inf)}")
    # Of smaller ones the inverse is infinite, and products with them are as good as 0.
    usable = w(f"and i1 {finite}, {w(f'fcmp ogt float {top}, {_f(1e-33)}')}")
    inverse = w(f"select i1 {usable}, float {w(f'fdiv float {_f(MOST)}, {top}')}, float {_f(0.0)}")
    scale = w(f"select i1 {finite}, float {w(f'fmul float {top}, {_f(1.0 / MOST)}')}, float {_f(math.nan)}")
    one = w(f"insertelement {FLOATS} poison, float {inverse}, i64 0")
    every = w(f"shufflevector {FLOATS} {one}, {FLOATS} poison, <{UNIT} x i32> zeroinitializer")
    ratio = w(f"fmul {FLOATS} {x}, {every}")
    known = w(f"fcmp ord {FLOATS} {ratio}, {ratio}")
    ratio = w(f"select <{UNIT} x i1> {known}, {FLOATS} {ratio}, {FLOATS} zeroinitializer")
    nearest = w.intrinsic(f"llvm.rint.v{UNIT}f32", FLOATS, (FLOATS, ratio))
    return w(f"fptosi {FLOATS} {nearest} to {WHOLE}"), scale


def _product(code: _Code) -> None:
    """A slice of the rows of the weights, with all rows of x."""
    w, words = code.w, code.words

    def each(n: str, _: list[str]) -> list[str]:
        def block(first: str, count: int) -> list[str]:
            for k, total in enumerate(_totals(code, n, first, count)):
                place = w.i64("add", w.i64("mul", w.i64("add", first, k), words["n"]), n)
                w.do(f"store float {total}, ptr {w.element(words['out'], 'float', place)}")
            return []

        whole = w.i64("and", words["m"], -SIDE_BY_SIDE)
        w.loop("0", whole, str(SIDE_BY_SIDE), [], lambda first, _: block(first, SIDE_BY_SIDE))
        w.loop(whole, words["m"], "1", [], lambda first, _: block(first, 1))
        return []

    w.loop("%begin", "%end", "1", [], each)


def _totals(code: _Code, n: str, first: str, count: int) -> list[str]:
    """A row of the weights times so many rows of x."""
    w, groups, format = code.w, code.geometry.groups, code.geometry.format
    rows = [code.row(w.i64("add", first, k)) for k in range(count)]
    based = bool(format.zero or format.table or format.has_minimum)
    others, lanes = f"<{groups} x float>", code.geometry.group_of_lanes
    assert lanes is not None

    def each(at: str, carried: list[str]) -> list[str]:
        weights, scale = _codes(code, n, at), _level(code, "scale", n, at)
        base = _base(code, n, at, scale) if based else ""
        results, totals = [], []
        for k, row in enumerate(rows):
            whole = _dots(code, weights, w.element(row.numbers, "i16", w.i64("mul", at, UNIT)))
            of_x = w(f"load <1 x float>, ptr {w.element(row.scales, 'float', at)}, align 4")
            factor = w(f"fmul {others} {scale}, {code.shuffled(1, 'float', of_x, [0] * groups)}")
            value = w(f"sitofp {NUMBERS} {whole} to {SUMS}")
            of_lanes = code.shuffled(groups, "float", factor, lanes)
            results.append(_added(w, LANES, value, of_lanes, carried[k]))
            if based:
                sums = code.load(groups, "float", row.sums, w.i64("mul", at, groups))
                totals.append(_added(w, groups, base, sums, carried[count + k]))
        return results + totals

    start = [(SUMS, "zeroinitializer")] * count + [(others, "zeroinitializer")] * (count if based else 0)
    found = w.loop("0", code.units, "1", start, each)
    totals = [_sum(w, LANES, x) for x in found[:count]]
    if not based:
        return totals
    return [w(f"fadd float {x}, {_sum(w, groups, y)}") for x, y in zip(totals, found[count:], strict=True)]


def _added(w: Writer, count: int, x: str, y: str, z: str) -> str:
    kind = f"<{count} x float>"
    return w.intrinsic(f"llvm.fmuladd.v{count}f32", kind, (kind, x), (kind, y), (kind, z))


def _sum(w: Writer, count: int, value: str) -> str:
    kind, name = f"<{count} x float>", f"llvm.vector.reduce.fadd.v{count}f32"
    w.declarations.add(f"declare float @{name}(float, {kind})")
    return w(f"call reassoc float @{name}(float {_f(-0.0)}, {kind} {value})")


def _codes(code: _Code, n: str, at: str) -> str:
    """A unit's codes, from 0 on, as unsigned bytes; those of a table are its numbers + 128."""
    w, format = code.w, code.geometry.format
    position = w.i64("add", w.i64("mul", n, code.units), at)
    found = code.parts(code.words["codes"], format.low_bits, position)
    if format.high_bits:
        upper = w(f"shl {BYTES} {_high_codes(code, position)}, {_all(UNIT, 'i8', format.low_bits)}")
        found = w(f"or {BYTES} {found}, {upper}")
    if not format.table:
        return found
    values = [_all(UNIT, "i8", (x + 256) % 256 ^ 128) for x in format.table]
    for bit in range(format.bits):
        masked = w(f"and {BYTES} {found}, {_all(UNIT, 'i8', 1 << bit)}")
        odd = w(f"icmp ne {BYTES} {masked}, zeroinitializer")
        pairs = zip(values[::2], values[1::2], strict=True)
        values = [w(f"select <{UNIT} x i1> {odd}, {BYTES} {b}, {BYTES} {a}") for a, b in pairs]
    return values[0]


def _high_codes(code: _Code, position: str) -> str:
    """The upper bits of a unit's codes, in the order of the lower ones."""
    w, bits = code.w, code.geometry.format.high_bits
    if bits > 1:
        found, order = code.parts(code.words["high"], bits, position), out_of_bytes(bits)
        return code.shuffled(UNIT, "i8", found, [order.index(column) for column in code.geometry.order])
    word = w(f"load i{UNIT}, ptr {w.element(code.words['high'], f'i{UNIT}', position)}, align 1")
    # Each byte holds a copy of the byte with its bit, which is masked.
    bytes_ = w(f"bitcast i{UNIT} {word} to <{UNIT // 8} x i8>")
    spread = code.shuffled(UNIT // 8, "i8", bytes_, [column // 8 for column in code.geometry.order])
    masks = ", ".join(f"i8 {1 << column % 8}" for column in code.geometry.order)
    bit = w(f"icmp ne {BYTES} {w(f'and {BYTES} {spread}, <{masks}>')}, zeroinitializer")
    return w(f"zext <{UNIT} x i1> {bit} to {BYTES}")


def _level(code: _Code, level: str, n: str, at: str) -> str:
    """The scales, or minima, of a unit's groups, in f32."""
    w, g, format = code.w, code.geometry, code.geometry.format
    kind = f"<{g.groups} x float>"

    def run(name: str, type_: str, columns: int, count: int) -> str:
        row = w.i64("mul", n, w.i64("udiv", code.words["k"], columns))
        column = w.i64("mul", at, UNIT // columns) if columns <= UNIT else w.i64("udiv", at, columns // UNIT)
        return code.load(count, type_, code.words[name], w.i64("add", row, column))

    def floats(value: str, count: int) -> str:
        half = memory_type(format.scales) == "half"
        return w(f"fpext <{count} x half> {value} to <{count} x float>") if half else value

    if not format.block:
        return floats(run(level, memory_type(format.scales), format.group, g.groups), g.groups)
    one = floats(run(level, memory_type(format.scales), format.block, 1), 1)
    codes = run(f"{level}_codes", "i8", format.group, g.groups)
    numbers = w(f"sitofp <{g.groups} x i8> {codes} to {kind}")
    return w(f"fmul {kind} {code.shuffled(1, 'float', one, [0] * g.groups)}, {numbers}")


def _base(code: _Code, n: str, at: str, scale: str) -> str:
    """What every column of a group adds besides its code: minimum - scale * zero."""
    w, g, format = code.w, code.geometry, code.geometry.format
    kind, zero = f"<{g.groups} x float>", 128 if format.table else format.zero
    minimum = _level(code, "minimum", n, at) if format.has_minimum else ""
    if not zero:
        return minimum
    lowered = w(f"fmul {kind} {scale}, {_all(g.groups, 'float', _f(-float(zero)))}")
    return w(f"fadd {kind} {minimum}, {lowered}") if minimum else lowered


def _dots(code: _Code, codes: str, numbers: str) -> str:
    """The sums of a unit's products of unsigned bytes and i16, a lane for two columns of each register."""
    w, count = code.w, 2 * LANES
    wide = w(f"zext {BYTES} {codes} to <{UNIT} x i16>")
    total = ""
    for first in range(0, UNIT, count):
        kind = f"<{count} x i16>"
        x = code.shuffled(UNIT, "i16", wide, range(first, first + count))
        y = code.load(count, "i16", numbers, str(first))
        if code.pairs:
            part = w.intrinsic("llvm.x86.avx2.pmadd.wd", NUMBERS, (kind, x), (kind, y))
        else:
            products = w(
                f"mul nsw <{count} x i32> {w(f'sext {kind} {x} to <{count} x i32>')}, "
                f"{w(f'sext {kind} {y} to <{count} x i32>')}"
            )
            even, odd = (code.shuffled(count, "i32", products, range(k, count, 2)) for k in range(2))
            part = w(f"add nsw {NUMBERS} {even}, {odd}")
        total = w(f"add nsw {NUMBERS} {total}, {part}") if total else part
    return total
