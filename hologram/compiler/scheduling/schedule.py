"""How the lanes of a program map to threads, chosen from the program and the limits of a device."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from functools import cached_property
from math import prod

from hologram.atlas.opcodes import ATOMICS, EFFECTS, POSITIONS, PURE, Opcode
from hologram.atlas.program import Instruction, Program
from hologram.atlas.ssa import definitions
from hologram.compiler.dialect import FOLD, Dialect
from hologram.foundation.errors import ShapeError
from hologram.foundation.frozen import frozen
from hologram.machine.limits import Limits


def most_lanes(index_bits: int) -> int:
    """What a launch may count, a buffer's elements as well: positions may run past the end by those of a workgroup."""
    return 2 ** min(index_bits, 63) - 2**16


UNROLLED = 4
# Instructions of a program whose threads take four elements each: compilers inline `element` seven times, and who
# computes more than this for an element does not wait for memory.
MOST_COPIED = 400


class Sweep(Enum):
    """What a thread works at."""

    ELEMENT = "element"  # map programs: a thread computes `elements` consecutive lanes
    ROW = "row"  # row programs: `threads` threads share a row


@frozen
class Schedule:
    """How work maps to threads."""

    sweep: Sweep
    workgroup: int  # threads
    elements: int = 1
    threads: int = 1
    subgroup: int = 1  # neighbouring threads of a row that look at each other's values

    @property
    def text(self) -> str:
        """For people."""
        what = (
            f"{self.threads} threads a row"
            if self.sweep is Sweep.ROW
            else f"{self.elements} elements a thread"
        )
        return f"{what}, {self.workgroup} a workgroup"

    def groups(self, grid: Sequence[int], reduced: int, index_bits: int) -> int:
        """How many workgroups a grid of elements takes, whose lanes are counted in so many bits."""
        lanes, most = prod(grid[: len(grid) - reduced]), most_lanes(index_bits)
        if lanes > most:
            raise ShapeError(f"one launch takes at most {most} lanes, got {lanes}: split it")
        per_group = (
            self.workgroup // self.threads if self.sweep is Sweep.ROW else self.workgroup * self.elements
        )
        return -(-lanes // per_group)

    def turns(self, grid: Sequence[int], reduced: int, sweeps: int) -> int:
        """How many loop turns a thread of a row program takes at most."""
        *leading, length = grid[len(grid) - reduced :]
        return sweeps * prod(leading) * (length // (self.threads * UNROLLED) + UNROLLED)


def fold(groups: int, limits: Limits) -> tuple[int, int, int]:
    """Workgroups along x, y and z; 2-D past one dimension's limit. ShapeError past that of two."""
    if groups <= limits.max_workgroups:
        return groups, 1, 1
    lines = -(-groups // FOLD)
    if lines > limits.max_workgroups:
        most = FOLD * limits.max_workgroups
        raise ShapeError(f"one launch takes at most {most} workgroups, got {groups}: split it")
    return FOLD, lines, 1


@frozen
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


def row_units(program: Program) -> frozenset[int]:
    """Loads and stores, by identity, outside of branches, whose position moves by one along the last axis of a row."""
    defined = definitions(program.body.instructions)
    last = program.rank - 1

    def steps(value: int) -> int | None:
        """How far the position moves when the last coordinate does; None where that is not known to be constant."""
        i = defined.get(value)
        if i is None:
            return None
        if i.opcode is Opcode.COORDINATE:
            return int(i.attribute == last)
        if i.opcode in POSITIONS or i.opcode in (Opcode.CONSTANT, Opcode.SCALAR):
            return 0
        parts = [steps(o) for o in i.operands]
        if i.opcode not in PURE or None in parts:
            return None
        if i.opcode in (Opcode.ADD, Opcode.SUB):
            first, second = (p or 0 for p in parts)
            return first + second if i.opcode is Opcode.ADD else first - second
        return None if any(parts) else 0

    accesses = (i for i in program.body.instructions if i.opcode in (Opcode.LOAD, Opcode.STORE))
    return frozenset(id(i) for i in accesses if steps(i.operands[0]) == 1)


def vector_buffers(program: Program, dialect: Dialect, schedule: Schedule) -> frozenset[str]:
    """The buffers that are declared as vectors of four elements."""
    if schedule.elements != 4:
        return frozenset()
    if schedule.sweep is Sweep.ELEMENT:
        names = Units(program).buffers
    else:
        units = row_units(program)
        names = frozenset(str(i.attribute) for i in program.body.instructions if id(i) in units)
        # Several rows may share a word of packed elements, so those are stored one by one.
        packed = {b.name for b in program.buffers if b.dtype in dialect.packed}
        walk = tuple(program.body.walk())
        names -= {str(i.attribute) for i in walk if i.opcode in ATOMICS}
        names -= {str(i.attribute) for i in walk if i.opcode is Opcode.STORE and i.attribute in packed}
    return frozenset(b.name for b in program.buffers if b.name in names and b.dtype in dialect.vectors)


def choose(program: Program, dialect: Dialect, limits: Limits, grid: Sequence[int] | None = None) -> Schedule:
    """The schedule of a program on a device with these limits; better if the grid is known."""
    if program.reduced:
        return _rows(program, dialect, limits, grid)
    if program.workgroup is not None:
        return Schedule(Sweep.ELEMENT, program.workgroup)
    # lavapipe: a thread is one lane of a SIMD register, and a group of 1024 costs what 128 cost of 8.
    workgroup = min(1024 if limits.software else 256, limits.max_workgroup_threads)
    vectors = Schedule(Sweep.ELEMENT, workgroup, 4)
    if sum(1 for _ in program.body.walk()) * dialect.weight > MOST_COPIED:
        return Schedule(Sweep.ELEMENT, workgroup)
    return vectors if vector_buffers(program, dialect, vectors) else Schedule(Sweep.ELEMENT, workgroup)


def _rows(program: Program, dialect: Dialect, limits: Limits, grid: Sequence[int] | None) -> Schedule:
    lanes = prod(grid[: program.rank - program.reduced]) if grid is not None else None
    if limits.software:
        # Barriers are dear and threads few: a thread a row. Small groups spread few rows over the cores.
        workgroup = 64 if lanes is None or lanes > 32 * max(limits.parallelism, 1) else 8
        return Schedule(Sweep.ROW, workgroup, 4)
    workgroup = min(256, limits.max_workgroup_threads)
    threads = program.workgroup or _threads(program, workgroup, grid)
    workgroup = max(workgroup, threads)
    # What subgroups have folded one of them folds.
    apart = not dialect.exchange or workgroup % limits.subgroup or limits.subgroup**2 < workgroup
    subgroup = 1 if apart else min(limits.subgroup, threads)
    vectors = threads > 1 or bool(row_units(program))
    return Schedule(Sweep.ROW, workgroup, 4 if vectors else 1, threads, subgroup)


def _threads(program: Program, workgroup: int, grid: Sequence[int] | None) -> int:
    """Threads of a row, by its length."""
    if grid is None:
        return workgroup
    lanes, length = prod(grid[: program.rank - program.reduced]), prod(grid[program.rank - program.reduced :])
    if not row_units(program) and lanes >= 4096:
        return 1  # neighbouring threads read neighbouring columns
    threads = 1
    while threads < workgroup and threads * 8 < length:
        threads *= 2
    return threads
