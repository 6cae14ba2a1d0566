"""How many threads share a row: what a tuner may choose between, and the programs that were measured with a choice.

A program with reduced axes leaves its workgroup open; one that names it has had its threads a row measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from hologram.atlas.program import Program
from hologram.compiler.analysis.phases import rows
from hologram.compiler.scheduling.schedule import row_units
from hologram.machine.choices import Candidate, Choices, Problem, chosen
from hologram.machine.limits import Limits
from hologram.machine.plan import Plan, Step

KERNEL = "rows"  # of a Problem: its sizes are rows, their length, and how often they are swept
BY_LENGTH = Candidate("rows", (), (0, 0))  # the rule of schedule.py
THREADS = (1, 8, 32, 64, 128, 256, 512, 1024)


def problem(program: Program, grid: Sequence[int]) -> Problem:
    """What row programs share that are tuned together; `lines` says whether neighbours of a row lie side by side."""
    outer = program.rank - program.reduced
    sweeps = sum(bool(phase.sweep or phase.reductions) for phase in rows(program).phases)
    sizes = (prod(grid[:outer]), prod(grid[outer:]), sweeps)
    return Problem(KERNEL, program.buffers[0].dtype, sizes, (bool(row_units(program)),))


def ways(asked: Problem, limits: Limits) -> tuple[Candidate, ...]:
    """Every number of threads a row that keeps each of them busy, the rule by length first; that alone on a CPU."""
    if not limits.workgroup_memory:
        return (BY_LENGTH,)
    most = min(limits.max_workgroup_threads, asked.sizes[1])
    return (BY_LENGTH, *(Candidate("rows", (("THREADS", t),), (0, 0)) for t in THREADS if t <= most))


def measured(plan: Plan, limits: Limits, choices: Choices) -> Plan:
    """The plan with the rows of its programs shared out as it was measured to be the fastest."""
    if not limits.workgroup_memory or not any(_open(step) for step in plan.steps):
        return plan
    return Plan(tuple(_measured(step, limits, choices) for step in plan.steps), plan.scratch)


def _open(step: Step) -> bool:
    return bool(step.kernel.reduced) and step.program.workgroup is None and 0 not in step.grid


def _measured(step: Step, limits: Limits, choices: Choices) -> Step:
    if not _open(step):
        return step
    asked = problem(step.program, step.grid)
    way = chosen(asked, ways(asked, limits), choices)
    if way == BY_LENGTH:
        return step
    return replace(step, kernel=replace(step.program, workgroup=way.constant("THREADS")))
