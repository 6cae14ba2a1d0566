"""A program for one launch: its scalars and sizes are numbers, and what a launch of that size does not use is gone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from hologram.atlas.opcodes import READS, WRITES
from hologram.atlas.program import Access, BufferParameter, Program
from hologram.atlas.ssa import named
from hologram.compiler.canonical.form import identity_of
from hologram.compiler.canonical.launched import kept_axes
from hologram.compiler.passes import Goal, Stage
from hologram.compiler.pipeline import applied, chosen, formed
from hologram.foundation.frozen import frozen


@frozen
class Specialised:
    """A program without scalars in canonical form, and its grid; axes of one lane are left out."""

    program: Program
    grid: tuple[int, ...]

    @property
    def reads(self) -> tuple[BufferParameter, ...]:
        """Buffers that are only read."""
        return tuple(b for b in self.program.buffers if b.access is Access.READ)

    @property
    def writes(self) -> tuple[BufferParameter, ...]:
        """Buffers that are written."""
        return tuple(b for b in self.program.buffers if b.access is not Access.READ)

    def reordered(self, buffers: Sequence[BufferParameter]) -> Specialised:
        """The same with its buffers declared in another order."""
        return replace(self, program=formed(replace(self.program, buffers=tuple(buffers))))

    @cached_property
    def identity(self) -> str:
        """That of the program."""
        return identity_of(self.program)


def specialised(program: Program, grid: Sequence[int], scalars: Sequence[int | float | bool]) -> Specialised:
    """What a program does on a grid without empty axes, given its scalars in order."""
    sizes = tuple(grid[k] for k in kept_axes(program, grid))
    goal = Goal(grid=tuple(grid), scalars=tuple(scalars))
    for step in chosen(Stage.LAUNCH, goal):
        after = applied(step, program, goal)
        program = program if after is program else formed(after)
        goal = Goal(grid=sizes)  # the first pass leaves no scalars, and these axes
    return Specialised(_as_used(program), sizes)


def _as_used(program: Program) -> Program:
    """Buffers with the access that the program makes of them, and none that it does not touch."""
    read, written = named(program, READS), named(program, WRITES)
    buffers = []
    for b in program.buffers:
        if b.name in read or b.name in written:
            both = b.name in read and b.name in written
            access = Access.READ_WRITE if both else Access.WRITE if b.name in written else Access.READ
            buffers.append(replace(b, access=access))
    return replace(program, buffers=tuple(buffers))
