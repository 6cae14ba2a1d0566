"""Row programs as maps: a lane takes a row and folds its elements in loops, in an order that depends on sizes alone.

How a device shares a row among threads decides the order of its sums. Where the same bits are wanted everywhere, no
device is left to decide it. A row of more than TERMS_OF_A_LANE elements is cut first (split.py), so that lanes are many
and sums are of few terms.

Where neighbouring rows read elements in common, as those of a product do, a lane takes several of them and reads each
element once. The order within a row stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

from hologram.atlas.arithmetic import identity
from hologram.atlas.builder import Builder, Value
from hologram.atlas.opcodes import ATOMICS, FOLDS, STRUCTURED, Opcode
from hologram.atlas.program import Access, Instruction
from hologram.atlas.rewrite import Rewriting
from hologram.atlas.ssa import deep, definitions
from hologram.compiler.analysis.phases import Phase, rows
from hologram.compiler.scheduling.split import split_rows
from hologram.foundation.dtypes import DType, bool_, index
from hologram.machine.limits import ROWS_OF_A_LANE, TERMS_OF_A_LANE, Limits
from hologram.machine.plan import Plan, Step

PARTS = 4  # partial results of a row, of every fourth element each
_OWN = STRUCTURED | ATOMICS | {Opcode.LANE, Opcode.LOCAL_LOAD, Opcode.LOCAL_STORE}  # each lane's own
_OF_BOOLS = {Opcode.MIN: Opcode.AND, Opcode.MUL: Opcode.AND, Opcode.MAX: Opcode.OR, Opcode.ADD: Opcode.OR}


def looped(step: Step, limits: Limits) -> Step | Plan:
    """A step whose program is a map: itself, one that loops, or several."""
    program = step.program
    if not program.reduced:
        return step
    # One where arithmetic is spelled out, of which compilers get too much.
    together = ROWS_OF_A_LANE if limits.keeps("denormals") else 1
    length = prod(step.grid[program.rank - program.reduced :])
    if length <= TERMS_OF_A_LANE:
        return _Looping(step, together).step()
    plan = split_rows(step, limits, -(-length // TERMS_OF_A_LANE))
    return Plan(
        tuple(_Looping(s, together).step() if s.kernel.reduced else s for s in plan.steps), plan.scratch
    )


class _Looping:
    """One step: its program is written anew, phase by phase, for one row or several rows side by side."""

    def __init__(self, step: Step, together: int) -> None:
        self.given, self.program = step, step.program
        program = self.program
        self.outer = program.rank - program.reduced
        self.phased = rows(program)
        self.tiled = self.outer - 2  # the axis of the rows that a lane takes, if they are several
        self.count = self._rows_of_a_lane(together)
        self.builder = Builder(
            program.name, rank=max(self.outer, 1), workgroup=program.workgroup, disjoint=program.disjoint
        )
        self.at: dict[int, Value] = {}  # where a lane is along the row's axes
        self.read: dict[
            tuple[str, int], Value
        ] = {}  # elements that were read for another row, by buffer and place
        self.walks = [Rewriting(self.builder, partial(self._rule, row)) for row in range(self.count)]

    def _rows_of_a_lane(self, most: int) -> int:
        """Several where they read elements in common and there is nothing else to them than a sum of each."""
        first, *others = self.phased.phases
        written = {b.name for b in self.program.buffers if b.access is not Access.READ}
        if (
            self.tiled < 0
            or any(p.sweep or p.reductions for p in others)
            or self.program.opcodes & _OWN
            or any(i.opcode is Opcode.LOAD and i.attribute in written for i in self.program.body.walk())
        ):
            return 1
        made = definitions(self.program.body.walk())
        loads = [i for i in deep(first.sweep) if i.opcode is Opcode.LOAD]
        if all(self._depends(i.operands[0], made) for i in loads):
            return 1
        size = self.given.grid[self.tiled]
        return next(n for n in range(most, 0, -1) if size % n == 0)

    def _depends(self, value: int, made: Mapping[int, Instruction]) -> bool:
        """Whether a value is another one in the next of the rows that a lane takes."""
        i = made.get(value)
        if i is None:  # a loop's
            return True
        if i.opcode is Opcode.COORDINATE:
            return i.attribute == self.tiled
        return any(self._depends(v, made) for v in i.operands)

    def step(self) -> Step:
        b, program, grid = self.builder, self.program, self.given.grid
        for walk in self.walks:
            walk.memory |= {p.name: p for p in program.buffers}
            walk.scalars |= {p.name: (p,) for p in program.scalars}
        for buffer in program.buffers:
            b.buffer(buffer.name, buffer.dtype, buffer.access)
        for scalar in program.scalars:
            b.declare(scalar)
        for array in program.local:
            self.walks[0].memory[array.name] = b.local(array.name, array.dtype, array.size)
        for phase in self.phased.phases:
            self._all(phase.uniform)
            self._phase(phase)
        self._all(self.phased.tail)
        numbers: dict[str, Any] = dict(
            zip((s.name for s in program.scalars), self.given.scalars, strict=True)
        )
        numbers |= {self._extent(k): grid[k] for k in range(self.outer, program.rank)}
        made = b.build()
        scalars = tuple(numbers[s.name] for s in made.scalars)
        lanes = list(grid[: self.outer])
        if self.count > 1:
            lanes[self.tiled] //= self.count
        return replace(self.given, kernel=made, scalars=scalars, grid=tuple(lanes) or (1,))

    def _extent(self, axis: int) -> str:
        return f"row_extent_{axis}"

    def _length(self, axis: int) -> Value:
        return self.builder.scalar(self._extent(axis), index)

    def _rule(self, row: int, b: Builder, i: Instruction, operands: list[Any]) -> Value | None:
        axis = i.attribute
        if i.opcode is Opcode.COORDINATE and axis in self.at:
            return self.at[axis]
        if i.opcode is Opcode.EXTENT and int(axis or 0) >= self.outer:
            return self._length(int(axis or 0))
        if self.count == 1:
            return None
        if i.opcode is Opcode.COORDINATE and axis == self.tiled:
            return b.coordinate(self.tiled) * self.count + row
        if i.opcode is Opcode.EXTENT and axis == self.tiled:
            return b.extent(self.tiled) * self.count
        if i.opcode is Opcode.LOAD:
            key = str(i.attribute), operands[0].id
            if key not in self.read:
                self.read[key] = b.emit(Opcode.LOAD, i.type, operands[0], attribute=i.attribute)
            return self.read[key]
        return None

    def _all(self, instructions: Sequence[Instruction]) -> None:
        self.read.clear()
        for walk in self.walks:
            for instruction in instructions:
                walk.instruction(instruction)

    def _phase(self, phase: Phase) -> None:
        if not phase.sweep and not phase.reductions:
            return
        self.folds = [r for _ in self.walks for r in phase.reductions]
        totals = iter(self._along(self.outer, phase, tuple(map(self._identity, self.folds))))
        for walk in self.walks:
            walk.values |= {r.result: next(totals).to(r.type) for r in phase.reductions}

    def _along(self, axis: int, phase: Phase, totals: Sequence[Value]) -> Sequence[Value]:
        """The totals after all elements of the rows from here on, which lie along this axis and those after it."""
        b = self.builder
        if axis + 1 < self.program.rank:

            def outer(here: Value, *carried: Value) -> Sequence[Value]:
                self.at[axis] = here
                return self._along(axis + 1, phase, carried)

            return b.loop(0, self._length(axis), outer, first=totals)

        def element(here: Value, *carried: Value) -> Sequence[Value]:
            self.at[axis] = here
            self._all(phase.sweep)
            values = [walk.values[r.operands[0]] for walk in self.walks for r in phase.reductions]
            return list(map(self._folded, self.folds, carried, values))

        if not phase.reductions:
            return b.loop(0, self._length(axis), element)

        count = len(self.folds)

        def several(here: Value, *carried: Value) -> Sequence[Value]:
            sides = [element(here + k, *carried[k * count : (k + 1) * count]) for k in range(PARTS)]
            return [value for side in sides for value in side]

        whole = self._length(axis) // PARTS * PARTS
        none = tuple(map(self._identity, self.folds))
        parts = b.loop(0, whole, several, first=none * PARTS, step=PARTS)
        sides = [parts[k * count : (k + 1) * count] for k in range(PARTS)]
        while len(sides) > 1:
            sides = [self._joined(x, y) for x, y in zip(sides[::2], sides[1::2], strict=True)]
        return b.loop(whole, self._length(axis), element, first=self._joined(totals, sides[0]))

    def _joined(self, x: Sequence[Value], y: Sequence[Value]) -> list[Value]:
        return list(map(self._folded, self.folds, x, y))

    def _identity(self, reduction: Instruction) -> Value:
        dtype = _carrier(reduction.type)
        return self.builder.constant(identity(reduction.opcode, dtype), dtype)

    def _folded(self, reduction: Instruction, x: Value, y: Any) -> Value:
        opcode = FOLDS[reduction.opcode]
        opcode = _OF_BOOLS[opcode] if x.dtype == bool_ else opcode
        return self.builder.emit(opcode, x.dtype, x, y.to(x.dtype))


def _carrier(dtype: DType) -> DType:
    return dtype.wide if dtype.is_float else dtype
