"""Row programs as maps: a lane takes a row and folds its elements in loops, in an order that depends on sizes alone.

How a device shares a row among threads decides the order of its sums. Where the same bits are wanted everywhere, no
device is left to decide it. A row of more than SLICE elements is cut first (split.py), so that lanes are many and sums
are of few terms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

from hologram.atlas.arithmetic import identity
from hologram.atlas.builder import Builder, Value
from hologram.atlas.opcodes import FOLDS, Opcode
from hologram.atlas.program import Instruction
from hologram.atlas.rewrite import Rewriting
from hologram.compiler.analysis.phases import Phase, rows
from hologram.compiler.scheduling.split import split_rows
from hologram.foundation.dtypes import DType, bool_, index
from hologram.machine.limits import Limits
from hologram.machine.plan import Plan, Step

SLICE = 2048  # elements that one lane folds
PARTS = 4  # partial results of a lane, of every fourth element each
_OF_BOOLS = {Opcode.MIN: Opcode.AND, Opcode.MUL: Opcode.AND, Opcode.MAX: Opcode.OR, Opcode.ADD: Opcode.OR}


def looped(step: Step, limits: Limits) -> Step | Plan:
    """A step whose program is a map: itself, one that loops, or several."""
    program = step.program
    if not program.reduced:
        return step
    length = prod(step.grid[program.rank - program.reduced :])
    if length <= SLICE:
        return _Looping(step).step()
    plan = split_rows(step, limits, -(-length // SLICE))
    return Plan(tuple(_Looping(s).step() if s.kernel.reduced else s for s in plan.steps), plan.scratch)


class _Looping:
    """One step: its program is written anew, phase by phase."""

    def __init__(self, step: Step) -> None:
        self.given, self.program = step, step.program
        program = self.program
        self.outer = program.rank - program.reduced
        self.builder = Builder(
            program.name, rank=max(self.outer, 1), workgroup=program.workgroup, disjoint=program.disjoint
        )
        self.at: dict[int, Value] = {}  # where a lane is along the row's axes
        self.walk = Rewriting(self.builder, self._rule)

    def step(self) -> Step:
        b, program, grid = self.builder, self.program, self.given.grid
        for buffer in program.buffers:
            self.walk.memory[buffer.name] = b.buffer(buffer.name, buffer.dtype, buffer.access)
        for scalar in program.scalars:
            self.walk.scalars[scalar.name] = (scalar,)
            b.declare(scalar)
        for array in program.local:
            self.walk.memory[array.name] = b.local(array.name, array.dtype, array.size)
        phased = rows(program)
        for phase in phased.phases:
            self._all(phase.uniform)
            self._phase(phase)
        self._all(phased.tail)
        numbers: dict[str, Any] = dict(
            zip((s.name for s in program.scalars), self.given.scalars, strict=True)
        )
        numbers |= {self._extent(k): grid[k] for k in range(self.outer, program.rank)}
        made = b.build()
        scalars = tuple(numbers[s.name] for s in made.scalars)
        return replace(self.given, kernel=made, scalars=scalars, grid=grid[: self.outer] or (1,))

    def _extent(self, axis: int) -> str:
        return f"row_extent_{axis}"

    def _length(self, axis: int) -> Value:
        return self.builder.scalar(self._extent(axis), index)

    def _rule(self, b: Builder, i: Instruction, operands: list[Any]) -> Value | None:
        if i.opcode is Opcode.COORDINATE and int(i.attribute or 0) >= self.outer:
            return self.at[int(i.attribute or 0)]
        if i.opcode is Opcode.EXTENT and int(i.attribute or 0) >= self.outer:
            return self._length(int(i.attribute or 0))
        return None

    def _all(self, instructions: Sequence[Instruction]) -> None:
        for instruction in instructions:
            self.walk.instruction(instruction)

    def _phase(self, phase: Phase) -> None:
        if not phase.sweep and not phase.reductions:
            return
        first = tuple(self._identity(r) for r in phase.reductions)
        totals = self._along(self.outer, phase, first)
        for reduction, total in zip(phase.reductions, totals, strict=True):
            self.walk.values[reduction.result] = total.to(reduction.type)

    def _along(self, axis: int, phase: Phase, totals: Sequence[Value]) -> Sequence[Value]:
        """The totals after all elements of the row from here on, which lie along this axis and those after it."""
        b = self.builder
        if axis + 1 < self.program.rank:

            def outer(here: Value, *carried: Value) -> Sequence[Value]:
                self.at[axis] = here
                return self._along(axis + 1, phase, carried)

            return b.loop(0, self._length(axis), outer, first=totals)

        def element(here: Value, *carried: Value) -> Sequence[Value]:
            self.at[axis] = here
            self._all(phase.sweep)
            values = [self.walk.values[r.operands[0]] for r in phase.reductions]
            return [self._folded(r, x, v) for r, x, v in zip(phase.reductions, carried, values, strict=True)]

        if not phase.reductions:
            return b.loop(0, self._length(axis), element)

        def several(here: Value, *carried: Value) -> Sequence[Value]:
            count = len(phase.reductions)
            sides = [element(here + k, *carried[k * count : (k + 1) * count]) for k in range(PARTS)]
            return [value for side in sides for value in side]

        whole = self._length(axis) // PARTS * PARTS
        none = tuple(self._identity(r) for r in phase.reductions)
        parts = b.loop(0, whole, several, first=none * PARTS, step=PARTS)
        count = len(none)
        sides = [parts[k * count : (k + 1) * count] for k in range(PARTS)]
        while len(sides) > 1:
            sides = [self._joined(phase, x, y) for x, y in zip(sides[::2], sides[1::2], strict=True)]
        return b.loop(whole, self._length(axis), element, first=self._joined(phase, totals, sides[0]))

    def _joined(self, phase: Phase, x: Sequence[Value], y: Sequence[Value]) -> list[Value]:
        return [self._folded(r, a, b) for r, a, b in zip(phase.reductions, x, y, strict=True)]

    def _identity(self, reduction: Instruction) -> Value:
        dtype = _carrier(reduction.type)
        return self.builder.constant(identity(reduction.opcode, dtype), dtype)

    def _folded(self, reduction: Instruction, x: Value, y: Any) -> Value:
        opcode = FOLDS[reduction.opcode]
        opcode = _OF_BOOLS[opcode] if x.dtype == bool_ else opcode
        return self.builder.emit(opcode, x.dtype, x, y.to(x.dtype))


def _carrier(dtype: DType) -> DType:
    return dtype.wide if dtype.is_float else dtype
