"""A program for one launch: its scalars and sizes are numbers, and what every lane decides alike is decided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hologram.atlas.builder import Builder, Value
from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Instruction, Program
from hologram.atlas.rewrite import Parameters, rewrite
from hologram.compiler.analysis.ranges import I64, Lanes, ranges
from hologram.compiler.passes import Goal, Pass, Stage, Trial
from hologram.foundation.dtypes import bool_, index


def kept_axes(program: Program, grid: Sequence[int]) -> list[int]:
    """The axes of a launch, of which those with one lane are left out."""
    outer = program.rank - program.reduced
    return [k for k in range(program.rank) if k >= outer or grid[k] != 1] or [0]


def _known(program: Program, goal: Goal) -> Program:
    grid, outer = goal.grid, program.rank - program.reduced
    kept = kept_axes(program, grid)
    places = {k: n for n, k in enumerate(kept)}
    numbers = dict(zip((s.name for s in program.scalars), goal.scalars, strict=True))

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

    rewritten = rewrite(program, rule, parameters=Parameters(scalar=lambda _: ()))
    return replace(rewritten, rank=len(kept))


def _known_tried(program: Program, goal: Goal, trial: Trial) -> tuple[Goal, Trial, Trial]:
    scalars = tuple(trial.scalars[s.name] for s in program.scalars)
    grid = tuple(trial.grid[k] for k in kept_axes(program, trial.grid))
    return replace(goal, grid=trial.grid, scalars=scalars), trial, Trial(trial.buffers, {}, grid)


KNOWN = Pass(
    "a launch's numbers are constants",
    "scalars and extents are what the launch says; an axis of one lane has coordinate 0",
    Stage.LAUNCH,
    _known,
    tried=_known_tried,
)

_COMPARED = frozenset({Opcode.LT, Opcode.LE})


def _decided(program: Program, goal: Goal) -> Program:
    """Without comparisons that every lane decides alike: a coordinate is below its axis's size, and not below 0."""
    if not program.opcodes & _COMPARED:
        return program
    known = ranges(program.body.walk(), Lanes.of(program, (), goal.grid, I64))

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


DECIDED = Pass(
    "comparisons that all lanes decide alike",
    "a coordinate is below its axis's size and not below 0",
    Stage.LAUNCH,
    _decided,
    tried=lambda program, goal, trial: (replace(goal, grid=trial.grid), trial, trial),
)
