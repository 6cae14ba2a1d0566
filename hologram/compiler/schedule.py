"""How the lanes of a program map to threads, chosen from the program and the limits of a device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from math import prod

from hologram.atlas.opcodes import EFFECTS, Opcode
from hologram.atlas.program import Instruction, Program
from hologram.compiler.dialect import FOLD, Dialect
from hologram.errors import ShapeError
from hologram.limits import Limits

# Lanes are counted in u32, and a thread may count a few past the end.
MAX_LANES = 2**32 - 2**16


class Sweep(Enum):
    """Who computes an element, or a row."""

    ELEMENT = "element"  # a map program: a thread computes `elements` consecutive lanes
    ROW_PER_THREAD = "row per thread"
    ROW_PER_GROUP = "row per workgroup"


@dataclass(frozen=True)
class Schedule:
    """How work maps to threads.

    `elements` is how many consecutive lanes a thread of a map program takes, or how many partial results a thread
    of a row program keeps.
    """

    sweep: Sweep
    workgroup: int  # threads
    elements: int = 1

    def groups(self, grid: Sequence[int], reduced: int, limits: Limits) -> tuple[int, int, int]:
        """Workgroups along x, y and z for a grid of elements; folded to 2-D past one dimension's limit."""
        lanes = prod(grid[: len(grid) - reduced])
        if lanes > MAX_LANES:
            raise ShapeError(f"one launch takes at most {MAX_LANES} lanes, got {lanes}: split it")
        per_group = 1
        if self.sweep is Sweep.ROW_PER_THREAD:
            per_group = self.workgroup
        elif self.sweep is Sweep.ELEMENT:
            per_group = self.workgroup * self.elements
        groups = -(-lanes // per_group)
        if groups <= limits.max_workgroups:
            return (groups, 1, 1)
        return (FOLD, -(-groups // FOLD), 1)


@dataclass(frozen=True)
class Units:
    """The buffers of a map program that are only accessed at the lane's own position, outside of any branch."""

    program: Program

    @cached_property
    def loads(self) -> dict[int, str]:
        """Results of loads at the lane, by value, with the buffer."""
        return {
            i.result: str(i.attribute) for i in self._accesses if i.opcode is Opcode.LOAD and self._unit(i)
        }

    @cached_property
    def stores(self) -> dict[str, int]:
        """Values stored at the lane, by buffer."""
        return {
            str(i.attribute): i.operands[1]
            for i in self._accesses
            if i.opcode is Opcode.STORE and self._unit(i)
        }

    @cached_property
    def _accesses(self) -> tuple[Instruction, ...]:
        return tuple(i for i in self.program.body.instructions if i.opcode in (Opcode.LOAD, Opcode.STORE))

    @cached_property
    def _lanes(self) -> frozenset[int]:
        """Values that are the lane's number."""
        return frozenset(
            i.result
            for i in self.program.body.instructions
            if i.opcode is Opcode.LANE or (i.opcode is Opcode.COORDINATE and self.program.rank == 1)
        )

    def _unit(self, access: Instruction) -> bool:
        return str(access.attribute) in self.buffers

    @cached_property
    def buffers(self) -> frozenset[str]:
        """Buffers with no other access than at the lane, loaded before they are stored, and stored at most once."""
        good = {b.name for b in self.program.buffers}
        stored: set[str] = set()
        own = set(map(id, self._accesses))
        for i in self.program.body.walk():
            if i.opcode is not Opcode.LOAD and i.opcode not in EFFECTS:
                continue
            name = str(i.attribute)
            if id(i) not in own or i.operands[0] not in self._lanes or name in stored:
                good.discard(name)
            if i.opcode is Opcode.STORE:
                stored.add(name)
        return frozenset(good)


def choose(program: Program, dialect: Dialect, limits: Limits) -> Schedule:
    """The schedule of a program on a device with these limits."""
    if program.workgroup is not None:
        return Schedule(Sweep.ELEMENT, program.workgroup)
    # lavapipe: a thread is one lane of a SIMD register, and a group of 1024 costs what 128 cost of 8.
    workgroup = min(1024 if limits.software else 256, limits.max_workgroup_threads)
    units = Units(program).buffers
    vector = any(b.name in units and b.dtype in dialect.vectors for b in program.buffers)
    return Schedule(Sweep.ELEMENT, workgroup, 4 if vector else 1)
