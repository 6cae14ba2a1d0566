"""What is known of a program's memory accesses at a launch: every position's range, and its stride along each axis.

At a launch every scalar and extent is a number, so positions are intervals and mostly affine in the coordinates. From
that follow which accesses need a bounds check, which axis to vectorise, and whether operands overlap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hologram.atlas.opcodes import ATOMICS, COMPARISONS, Opcode
from hologram.atlas.program import Instruction, Program

O = Opcode
ACCESSES = frozenset({O.LOAD, O.STORE}) | ATOMICS


@dataclass(frozen=True, slots=True)
class Span:
    """Integers from `low` to `high`, changing by `strides[k]` from one coordinate of axis k to the next.

    `strides` is None where the value is not affine in the coordinates.
    """

    low: int
    high: int
    strides: Mapping[int, int] | None = field(default_factory=dict)

    @property
    def number(self) -> int | None:
        return self.low if self.low == self.high else None


@dataclass(frozen=True, slots=True)
class Site:
    """A load, store or atomic of a buffer and where it reaches."""

    instruction: Instruction
    span: Span | None  # None: unknown

    @property
    def key(self) -> tuple[str, int]:
        return str(self.instruction.attribute), self.instruction.operands[0]

    def stride(self, axis: int) -> int | None:
        if self.span is None or self.span.strides is None:
            return None
        return self.span.strides.get(axis, 0)


@dataclass(frozen=True)
class Paths:
    """A program's accesses, and the instructions their positions are computed from."""

    program: Program
    accesses: tuple[Instruction, ...]
    sources: tuple[Instruction, ...]


def paths(program: Program) -> Paths:
    """The program's paths to memory."""
    everything = tuple(program.body.walk())
    accesses = tuple(i for i in everything if i.opcode in ACCESSES)
    needed = {i.operands[0] for i in accesses}
    chosen: list[Instruction] = []
    for i in reversed(everything):
        arguments = {a for b in i.blocks for a in b.arguments}
        if needed & set(i.results) or needed & arguments:
            needed |= set(i.operands)
            chosen.append(i)
    return Paths(program, accesses, tuple(reversed(chosen)))


def sites(found: Paths, scalars: Mapping[str, int | float | bool], grid: Sequence[int]) -> tuple[Site, ...]:
    """Every access of a launch. The grid must not be empty."""
    program = found.program
    spans: dict[int, Span | None] = {}
    kept = program.rank - program.reduced
    for i in found.sources:
        if i.opcode is O.LOOP:
            start, stop, step = (spans.get(v) for v in i.operands[:3])
            if start is not None and stop is not None and step is not None:
                spans[i.blocks[0].arguments[0]] = Span(start.low, max(start.low, stop.high - 1), None)
        elif len(i.results) == 1 and not i.blocks:
            spans[i.result] = _span(
                i, [spans.get(v) for v in i.operands], scalars, grid, kept, program.workgroup
            )
    return tuple(Site(i, spans.get(i.operands[0])) for i in found.accesses)


def _span(
    i: Instruction,
    operands: Sequence[Span | None],
    scalars: Mapping[str, int | float | bool],
    grid: Sequence[int],
    kept: int,
    workgroup: int | None,
) -> Span | None:
    opcode = i.opcode
    if opcode is O.CONSTANT or opcode is O.SCALAR:
        number = i.attribute if opcode is O.CONSTANT else scalars[str(i.attribute)]
        return Span(int(number), int(number)) if i.type.kind in ("int", "uint", "index", "bool") else None  # type: ignore[arg-type]
    if opcode is O.COORDINATE:
        axis = int(i.attribute or 0)
        return Span(0, grid[axis] - 1, {axis: 1})
    if opcode is O.EXTENT:
        return Span(grid[int(i.attribute or 0)], grid[int(i.attribute or 0)])
    if opcode is O.LANE:
        strides, count = {}, 1
        for axis in reversed(range(kept)):
            strides[axis] = count
            count *= grid[axis]
        return Span(0, count - 1, strides)
    if opcode is O.THREAD and workgroup:
        return Span(0, workgroup - 1, None)
    if opcode in COMPARISONS:
        return Span(0, 1, None)
    known = [s for s in (operands[1:] if opcode is O.SELECT else operands) if s is not None]
    if not known or len(known) < len(operands) - (opcode is O.SELECT):
        return None
    if opcode is O.SELECT:
        return Span(min(s.low for s in known), max(s.high for s in known), None)
    span = _arithmetic(opcode, *known)
    if span is None or i.type.kind == "index":
        return span
    # Integers wrap: beyond the dtype's range nothing is known.
    bits = i.type.bits - (i.type.kind == "int")
    low = -(1 << bits) if i.type.kind == "int" else 0
    return span if low <= span.low and span.high < 1 << bits else None


def _combined(x: Span, y: Span, sign: int) -> dict[int, int] | None:
    if x.strides is None or y.strides is None:
        return None
    return {a: x.strides.get(a, 0) + sign * y.strides.get(a, 0) for a in {*x.strides, *y.strides}}


def _arithmetic(opcode: Opcode, x: Span, *rest: Span) -> Span | None:
    if opcode is O.CONVERT:
        return x
    if not rest:
        return Span(-x.high, -x.low, _combined(Span(0, 0), x, -1)) if opcode is O.NEG else None
    y = rest[0]
    if opcode is O.ADD:
        return Span(x.low + y.low, x.high + y.high, _combined(x, y, 1))
    if opcode is O.SUB:
        return Span(x.low - y.high, x.high - y.low, _combined(x, y, -1))
    if opcode is O.MUL:
        corners = [a * b for a in (x.low, x.high) for b in (y.low, y.high)]
        if x.number is not None:
            x, y = y, x
        strides = (
            {a: s * y.low for a, s in x.strides.items()}
            if y.number is not None and x.strides is not None
            else None
        )
        return Span(min(corners), max(corners), strides)
    if opcode is O.MAD:
        product = _arithmetic(O.MUL, x, y)
        return _arithmetic(O.ADD, product, rest[1]) if product is not None else None
    if opcode is O.MIN:
        return Span(min(x.low, y.low), min(x.high, y.high), None)
    if opcode is O.MAX:
        return Span(max(x.low, y.low), max(x.high, y.high), None)
    if opcode is O.DIV and y.low > 0 and x.low >= 0:
        return Span(x.low // y.high, x.high // y.low, None if y.number != 1 else x.strides)
    if opcode is O.REM and y.low > 0:
        return Span(0 if x.low >= 0 else 1 - y.high, min(max(x.high, 0), y.high - 1), None)
    if opcode is O.AND and x.low >= 0 and y.low >= 0:
        return Span(0, min(x.high, y.high), None)
    if opcode is O.SHR and x.low >= 0 and y.number is not None:
        return Span(x.low >> y.low, x.high >> y.low, None)
    if opcode is O.SHL and x.low >= 0 and y.number is not None and 0 <= y.low < 63:
        return _arithmetic(O.MUL, x, Span(1 << y.low, 1 << y.low))
    return None
