"""What plans become on a device: rows spread over it where it cannot do so itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hologram import lazy
from hologram.limits import Limits
from hologram.plan import Plan

if TYPE_CHECKING:
    from hologram.compiler.lowering import split
    from hologram.opset.forms import steps as assembly
else:
    split = lazy.module("hologram.compiler.lowering.split")
    assembly = lazy.module("hologram.opset.forms.steps")


def spread_rows(plan: Plan, operands: int, limits: Limits) -> Plan:
    """The plan with programs that have few long rows split into several, where the device does not do that itself.

    `operands` counts the plan's inputs and outputs: its scratch comes after them.
    """
    if limits.splits_rows or not any(split.should_split(s.kernel, s.grid, limits) for s in plan.steps):
        return plan
    steps = assembly.Steps(operands)
    steps.scratch += plan.scratch
    for step in plan.steps:
        if split.should_split(step.kernel, step.grid, limits):
            steps.extend(split.split_rows(step, limits), step.operands)
        else:
            steps.steps.append(step)
    return steps.plan()
