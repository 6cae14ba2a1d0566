"""A program for one launch: its scalars and sizes are numbers, and what a launch of that size does not use is gone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from hologram.atlas.builder import Builder, Value
from hologram.atlas.opcodes import READS, WRITES, Opcode
from hologram.atlas.program import Access, BufferParameter, Instruction, Program
from hologram.atlas.rewrite import Parameters, rewrite
from hologram.compiler.analysis.ranges import I64, Lanes, ranges
from hologram.compiler.canonical.form import formed, identity_of
from hologram.foundation.dtypes import bool_, index
from hologram.foundation.frozen import frozen


@frozen
class Specialised:
    """A program without scalars in canonical form, and its grid; axes of one lane are left out."""

    program: Program
    grid: tuple[int, ...]

    @property
    def reads(self) -> tuple[BufferParameter, ...]:
        """Buffers that are only read."""
        return tuple(b for b in self.program.buffers if b.access is Access.READ)

    @property
    def writes(self) -> tuple[BufferParameter, ...]:
        """Buffers that are written."""
        return tuple(b for b in self.program.buffers if b.access is not Access.READ)

    def reordered(self, buffers: Sequence[BufferParameter]) -> Specialised:
        """The same with its buffers declared in another order."""
        return replace(self, program=formed(replace(self.program, buffers=tuple(buffers))))

    @cached_property
    def identity(self) -> str:
        """That of the program."""
        return identity_of(self.program)


def specialised(program: Program, grid: Sequence[int], scalars: Sequence[int | float | bool]) -> Specialised:
    """What a program does on a grid without empty axes, given its scalars in order."""
    outer = program.rank - program.reduced
    kept = [k for k in range(program.rank) if k >= outer or grid[k] != 1]
    if not kept:
        kept = [0]
    places = {k: n for n, k in enumerate(kept)}
    numbers = dict(zip((s.name for s in program.scalars), scalars, strict=True))

    def coordinate(b: Builder, axis: int) -> Value:
        return b.coordinate(places[axis]) if grid[axis] != 1 else b.constant(0, index)

    def rule(b: Builder, i: Instruction, operands: list[Any]) -> Value | None:
        if i.opcode is Opcode.SCALAR:
            return b.constant(numbers[str(i.attribute)], i.type)
        if i.opcode is Opcode.EXTENT:
            return b.constant(grid[int(i.attribute or 0)], index)
        if i.opcode is Opcode.COORDINATE:
            return coordinate(b, int(i.attribute or 0))
        if i.opcode is Opcode.LANE:
            lane = b.constant(0, index)
            for axis in range(outer):
                lane = lane * grid[axis] + coordinate(b, axis)
            return lane
        return None

    found = rewrite(program, rule, parameters=Parameters(scalar=lambda _: ()))
    found = formed(replace(found, rank=len(kept)))
    sizes = tuple(grid[k] for k in kept)
    if found.opcodes & _COMPARED:
        found = formed(_unguarded(found, sizes))
    return Specialised(_as_used(found), sizes)


_COMPARED = frozenset({Opcode.LT, Opcode.LE})


def _unguarded(program: Program, grid: tuple[int, ...]) -> Program:
    """Without comparisons that every lane decides alike: a coordinate is below its axis's size, and not below 0."""
    known = ranges(program.body.walk(), Lanes.of(program, (), grid, I64))

    def rule(b: Builder, i: Instruction, operands: list[Any]) -> Value | None:
        if i.opcode not in _COMPARED:
            return None
        x, y = (known.get(v) for v in i.operands)
        if x is None or y is None:
            return None
        holds = x.high < y.low or (x.high == y.low and i.opcode is Opcode.LE)
        fails = x.low > y.high or (x.low == y.high and i.opcode is Opcode.LT)
        return b.constant(holds, bool_) if holds or fails else None

    return rewrite(program, rule)


def _as_used(program: Program) -> Program:
    """Buffers with the access that the program makes of them, and none that it does not touch."""
    read = {i.attribute for i in program.body.walk() if i.opcode in READS}
    written = {i.attribute for i in program.body.walk() if i.opcode in WRITES}
    buffers = []
    for b in program.buffers:
        if b.name in read or b.name in written:
            both = b.name in read and b.name in written
            access = Access.READ_WRITE if both else Access.WRITE if b.name in written else Access.READ
            buffers.append(replace(b, access=access))
    return replace(program, buffers=tuple(buffers))
