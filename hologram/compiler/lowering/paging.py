"""The program of a page: a part of a launch that is larger than a binding may be.

It adds the page's start to its coordinate along the axis that is cut and takes each binding's first element off the
positions; both arrive as scalars, so one compiled kernel serves every page. Where a position is the lane's own
coordinate, the two cancel and nothing is added: contiguous element-wise programs page at full speed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hologram.atlas.builder import Builder, Value
from hologram.atlas.opcodes import BUFFER_ACCESSES, Opcode
from hologram.atlas.program import Instruction, Program, ScalarParameter
from hologram.atlas.rewrite import rewrite
from hologram.atlas.ssa import definitions
from hologram.compiler.passes import Goal, Pass, Stage, Trial
from hologram.foundation.dtypes import index
from hologram.foundation.frozen import frozen

START, EXTENT = "page_start", "page_extent"


@frozen
class Cut:
    """How a program is paged: along an axis, ahead of which all extents are 1.

    `kept` names contiguous buffers whose binding starts at the page's own start; every other has a base.
    """

    axis: int
    kept: frozenset[str]


def contiguous(program: Program, axis: int) -> frozenset[str]:
    """The buffers that are only accessed at the coordinate along the axis, or at the lane where that is the same."""
    own: set[int] = set()
    alone = program.rank - program.reduced == axis + 1
    by_name: dict[str, bool] = {}
    for i in program.body.walk():
        if (i.opcode is Opcode.COORDINATE and i.attribute == axis) or (i.opcode is Opcode.LANE and alone):
            own.add(i.result)
        if i.opcode in BUFFER_ACCESSES:
            name = str(i.attribute)
            by_name[name] = by_name.get(name, True) and i.operands[0] in own
    return frozenset(name for name, yes in by_name.items() if yes)


def paged(program: Program, cut: Cut) -> Program:
    """The program of a page; it takes the start, the whole extent of the axis, and bases as well."""
    defined = definitions(program.body.walk())

    def local(b: Builder, opcode: Opcode) -> Value:
        return b.position(opcode) if opcode is Opcode.LANE else b.coordinate(cut.axis)

    def rule(b: Builder, i: Instruction, operands: list[Any]) -> Value | tuple[()] | None:
        if i.opcode is Opcode.EXTENT and i.attribute == cut.axis:
            return b.scalar(EXTENT, index)
        if i.opcode is Opcode.COORDINATE and i.attribute == cut.axis:
            return local(b, i.opcode) + b.scalar(START, index)
        if i.opcode is Opcode.LANE:
            skipped = b.scalar(START, index)
            for axis in range(cut.axis + 1, program.rank - program.reduced):
                skipped = skipped * b.extent(axis)
            return local(b, i.opcode) + skipped
        if i.opcode not in BUFFER_ACCESSES:
            return None
        buffer = program.buffer(str(i.attribute))
        if buffer.name in cut.kept:
            position = local(b, defined[i.operands[0]].opcode)
        else:
            position = operands[0] - b.scalar(f"{buffer.name}_base", index)
        if i.opcode is Opcode.LOAD:
            return b.load(buffer, position)
        if i.opcode is Opcode.STORE:
            b.store(buffer, position, operands[1])
            return ()
        return b.atomic(i.opcode, buffer, position, operands[1])

    names = [START, EXTENT, *(f"{b.name}_base" for b in program.buffers if b.name not in cut.kept)]
    scalars = program.scalars + tuple(ScalarParameter(name, index) for name in names)
    return replace(rewrite(program, rule), scalars=scalars)


def _tried(program: Program, goal: Goal, trial: Trial) -> tuple[Goal, Trial, Trial]:
    """One page that is all of the launch."""
    bases = {f"{b.name}_base": 0 for b in program.buffers}
    grid = tuple(1 if k < goal.cut.axis else n for k, n in enumerate(trial.grid))
    numbers = {**trial.scalars, **bases, START: 0, EXTENT: grid[goal.cut.axis]}
    return goal, replace(trial, grid=grid), replace(trial, grid=grid, scalars=numbers)


PAGE = Pass(
    "page a launch",
    "a page's lanes and positions are counted from its start",
    Stage.BINDING,
    lambda program, goal: paged(program, goal.cut),
    wanted=lambda goal: goal.cut is not None,
    tried=_tried,
)
