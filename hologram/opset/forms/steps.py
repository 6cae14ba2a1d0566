"""Plans of many steps: what an operation writes down when one kernel is not enough."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hologram.atlas.program import Program
from hologram.foundation.dtypes import DType
from hologram.foundation.frozen import frozen
from hologram.machine.layout import Layout
from hologram.machine.plan import Plan, Scratch, Step
from hologram.opset.forms.expression import step_of
from hologram.opset.forms.map import copy_plan


@frozen
class Place:
    """Memory in a plan: an operand's position, and how what is meant lies in it."""

    position: int
    layout: Layout


class Steps:
    """Steps and scratch memory, in the making; `operands` counts the operation's inputs and outputs."""

    def __init__(self, operands: int) -> None:
        self.operands = operands
        self.steps: list[Step] = []
        self.scratch: list[Scratch] = []

    def place(self, dtype: DType, shape: Sequence[int]) -> Place:
        """New contiguous scratch memory."""
        layout = Layout.contiguous(dtype, shape)
        self.scratch.append(Scratch(dtype, layout.size))
        return Place(self.operands + len(self.scratch) - 1, layout)

    def add(self, step: Step, positions: Sequence[int]) -> None:
        """A step whose operands are numbered by `positions`."""
        self.steps.append(replace(step, operands=tuple(positions[k] for k in step.operands)))

    def run(
        self, program: Program, places: Sequence[Place], numbers: Mapping[str, int], grid: Sequence[int]
    ) -> None:
        """A program whose buffers are those places, each contiguous from its first element on."""
        self.add(step_of(program, range(len(places)), numbers, grid), [p.position for p in places])

    def extend(self, plan: Plan, positions: Sequence[int]) -> None:
        """A whole plan of another operation, on operands at those positions."""
        own = range(self.operands + len(self.scratch), self.operands + len(self.scratch) + len(plan.scratch))
        self.scratch += plan.scratch
        for step in plan.steps:
            self.add(step, [*positions, *own])

    def copy(self, source: Place, target: Place) -> None:
        """Copies elements, converting."""
        self.extend(copy_plan(source.layout, target.layout), (source.position, target.position))

    def converted(self, source: Place, dtype: DType) -> Place:
        """A copy of the place in a dtype."""
        target = self.place(dtype, source.layout.shape)
        self.copy(source, target)
        return target

    def gathered(self, source: Place) -> Place:
        """The place itself, or one where its elements lie in order, from the first on."""
        if source.layout.is_contiguous and not source.layout.offset:
            return source
        return self.converted(source, source.layout.dtype)

    def plan(self) -> Plan:
        return Plan(tuple(self.steps), tuple(self.scratch))
