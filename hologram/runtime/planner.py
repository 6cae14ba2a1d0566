"""What plans become on a device: rows spread over it where it cannot do so itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hologram import lazy
from hologram.limits import Limits
from hologram.plan import Plan, Scratch, Step

if TYPE_CHECKING:
    from hologram.compiler.lowering import split
else:
    split = lazy.module("hologram.compiler.lowering.split")


def spread_rows(plan: Plan, operands: int, limits: Limits) -> Plan:
    """The plan with programs that have few long rows split into several, where the device does not do that itself.

    `operands` counts the plan's inputs and outputs: its scratch comes after them.
    """
    if limits.spreads_rows or not any(split.should_split(s.kernel, s.grid, limits) for s in plan.steps):
        return plan
    steps: list[Step] = []
    scratch = list(plan.scratch)
    for step in plan.steps:
        if not split.should_split(step.kernel, step.grid, limits):
            steps.append(step)
            continue
        parted = split.split_rows(step, limits)
        base = operands + len(scratch)
        own = len(step.operands)
        for part in parted.steps:
            positions = tuple(step.operands[k] if k < own else base + k - own for k in part.operands)
            steps.append(Step(part.kernel, positions, part.scalars, part.grid))
        scratch += [Scratch(s.dtype, s.size) for s in parted.scratch]
    return Plan(tuple(steps), tuple(scratch))
