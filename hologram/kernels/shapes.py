"""Kernels over arrays that have the grid's own shape: lengths are the grid's, and an element lies at the lane's number.

Generators read and write such elements four at a time, and bytes without atomics.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hologram.atlas.builder import Builder, Value
from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Instruction, Program
from hologram.atlas.rewrite import Parameters, rewrite
from hologram.foundation.dtypes import index

O = Opcode


def like_the_grid(program: Program, lengths: Mapping[str, int]) -> Program:
    """The program without scalars that are lengths of the grid; `lengths` says along which axis.

    A position that is a coordinate along each axis in row-major order is the lane's number.
    """
    coordinates: dict[int, int] = {}  # values that are one, and of which axis
    extents: dict[int, int] = {}
    rows: dict[int, int] = {}  # the number of the lane among those of the axes up to one
    starts: dict[int, int] = {}  # those times the length of the axis behind

    def rule(b: Builder, i: Instruction, operands: list[Any]) -> Value | None:
        if i.opcode is O.SCALAR and i.attribute in lengths:
            axis = lengths[str(i.attribute)]
            found = b.extent(axis)
            extents[found.id] = axis
            return found
        if i.opcode is O.COORDINATE:
            axis = int(i.attribute or 0)
            found = b.coordinate(axis)
            coordinates[found.id] = axis
            if axis == 0:
                rows[found.id] = 0
            return found
        if i.opcode not in (O.MUL, O.ADD) or i.type != index:
            return None
        before, behind = (rows, extents) if i.opcode is O.MUL else (starts, coordinates)
        for x, y in (operands, operands[::-1]):
            axis = behind.get(y.id)
            if axis is None or before.get(x.id) != axis - 1:
                continue
            if i.opcode is O.ADD and axis == program.rank - 1:
                return b.position(O.LANE)
            found = b.emit(i.opcode, index, *operands)
            if i.opcode is O.MUL:
                starts[found.id] = axis - 1
            else:
                rows[found.id] = axis
            return found
        return None

    return rewrite(program, rule, parameters=Parameters(scalar=lambda s: () if s.name in lengths else (s,)))
