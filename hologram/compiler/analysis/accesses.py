"""What a launch accesses: which positions of which buffer each load, store and atomic reaches, and how it steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

from hologram.atlas.opcodes import ACCESSES, Opcode
from hologram.atlas.program import Instruction, Program
from hologram.compiler.analysis.ranges import Interval, Lanes, Range, positions_from, ranges
from hologram.compiler.passes import Place
from hologram.foundation.frozen import frozen

O = Opcode


@frozen(slots=True)
class Reference:
    """A load, store or atomic, of a buffer or a shared array, and the positions it reaches."""

    instruction: Instruction
    range: Range | None  # None: unknown

    @property
    def place(self) -> Place:
        return str(self.instruction.attribute), self.instruction.operands[0]

    def stride(self, axis: int) -> int | None:
        if self.range is None or self.range.strides is None:
            return None
        return self.range.strides.get(axis, 0)


@frozen
class Paths:
    """A program's accesses, and the instructions their positions are computed from."""

    program: Program
    accesses: tuple[Instruction, ...]
    sources: tuple[Instruction, ...]

    @cached_property
    def chosen(self) -> dict[int, int]:
        """Positions that are choices, with their first ones."""
        return {i.result: i.operands[1] for i in self.sources if i.opcode is O.SELECT}


def paths(program: Program) -> Paths:
    """The program's paths to memory."""
    everything = tuple(program.body.walk())
    accesses = tuple(i for i in everything if i.opcode in ACCESSES)
    return Paths(program, accesses, positions_from(everything, {i.operands[0] for i in accesses}))


def references(program_paths: Paths, lanes: Lanes) -> tuple[Reference, ...]:
    """Every access of a launch."""
    known = ranges(program_paths.sources, lanes)
    return tuple(Reference(i, _reached_by(i, known, program_paths.chosen)) for i in program_paths.accesses)


def _reached_by(i: Instruction, known: Mapping[int, Range], chosen: Mapping[int, int]) -> Range | None:
    """The positions of an access; a load that is elsewhere where a condition fails steps as it does where it holds."""
    found = known.get(i.operands[0])
    first = known.get(chosen[i.operands[0]]) if i.opcode is O.LOAD and i.operands[0] in chosen else None
    if found is None or first is None or found.strides is not None:
        return found
    return Range(found.low, found.high, first.strides)


def unproven(accesses: Iterable[Reference], lengths: Mapping[str, int]) -> frozenset[Place]:
    """The accesses that may miss their buffer, or shared array, of so many elements."""
    return frozenset(
        r.place for r in accesses if r.range is None or not r.range.within((0, lengths[r.place[0]] - 1))
    )


def reached(accesses: Iterable[Reference]) -> dict[str, Interval]:
    """The positions at which each buffer is accessed; those that cannot be told (a gather) are missing."""
    hulls: dict[str, Range | None] = {}
    for r in accesses:
        before = hulls.get(r.place[0], r.range)
        hulls[r.place[0]] = None if before is None or r.range is None else before.hull(r.range)
    return {name: (hull.low, hull.high) for name, hull in hulls.items() if hull is not None}
