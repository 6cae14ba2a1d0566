"""A program for many examples at once: one more axis of the grid, ahead of its own, counts them.

Each buffer that is another for every example holds these one after the other. A program with workgroups has no axes to
spare: its workgroups are repeated, and the last one of an example may lack lanes, which then do nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import Any

from hologram.atlas.builder import Builder, Value
from hologram.atlas.functions import select
from hologram.atlas.opcodes import ATOMICS, BUFFER_ACCESSES, EFFECTS, LOADS, MEETINGS, NOWHERE, Opcode
from hologram.atlas.program import Access, Instruction, Program
from hologram.atlas.rewrite import rewrite
from hologram.atlas.verify import verify
from hologram.foundation import dtypes
from hologram.foundation.frozen import frozen

O = Opcode
_OWN = (O.COORDINATE, O.EXTENT, O.LANE, O.WORKGROUP)


@frozen
class Batched:
    """A program for all examples.

    Its scalars are the program's but for `numbers`, which buffers hold instead, one number for each example; these come
    behind the program's own. Then come how many lanes an example has, if the program `counts` them, and how many
    elements one example has of the buffers in `lengths`.
    """

    program: Program
    counts: bool
    lengths: tuple[str, ...]
    numbers: tuple[str, ...]


@lru_cache(256)
def batched(program: Program, buffers: frozenset[str], numbers: frozenset[str]) -> Batched:
    """The program for examples that differ in these buffers and scalars; those it stores into must be among them."""
    return _Batching(program, buffers, numbers).made()


def grid_of(program: Program, grid: Sequence[int], examples: int) -> tuple[int, ...]:
    """The grid for so many examples."""
    if not _flat(program):
        return (examples, *grid)
    threads = program.workgroup or 1
    return (examples * -(-prod(grid) // threads) * threads,)


def _flat(program: Program) -> bool:
    return program.workgroup is not None and not program.reduced


class _Batching:
    """The rewrite; a rule for each kind of instruction."""

    def __init__(self, program: Program, buffers: frozenset[str], numbers: frozenset[str]) -> None:
        self.program = program
        self.buffers = buffers
        self.taken = {p.name for p in (*program.buffers, *program.scalars, *program.shared, *program.local)}
        self.lanes = self.free("lanes") if _flat(program) else ""
        self.lengths = {b.name: self.free(f"{b.name}_length") for b in program.buffers if b.name in buffers}
        self.numbers = {s.name: self.free(f"{s.name}_each") for s in program.scalars if s.name in numbers}

    def free(self, name: str) -> str:
        while name in self.taken:
            name += "x"
        self.taken.add(name)
        return name

    def made(self) -> Batched:
        made = rewrite(self.program, self.rule)
        scalars = {s.name: s for s in made.scalars}
        order = [s.name for s in self.program.scalars if s.name not in self.numbers]
        order += [self.lanes] if self.lanes in scalars else []
        lengths = [of for of, name in self.lengths.items() if name in scalars]
        order += [self.lengths[of] for of in lengths]
        held = {p.name: p for p in made.buffers}
        numbers = {of: name for of, name in self.numbers.items() if name in held}
        made = replace(
            made,
            buffers=tuple(
                held[name] for name in (*(p.name for p in self.program.buffers), *numbers.values())
            ),
            rank=self.program.rank if self.lanes else self.program.rank + 1,
            scalars=tuple(scalars[name] for name in order),
        )
        verify(made)
        return Batched(made, self.lanes in scalars, tuple(lengths), tuple(numbers))

    # Where a lane is.

    def groups(self, b: Builder) -> Value:
        """Workgroups of one example."""
        threads = self.program.workgroup or 1
        return (b.scalar(self.lanes, dtypes.index) + (threads - 1)) // threads

    def example(self, b: Builder) -> Value:
        return b.position(O.WORKGROUP) // self.groups(b) if self.lanes else b.coordinate(0)

    def lane(self, b: Builder) -> Value:
        """The number of the lane in its example."""
        if not self.lanes:
            own = [b.extent(k + 1) for k in range(self.program.rank - self.program.reduced)]
            return b.position(O.LANE) % prod(own, start=b.constant(1, dtypes.index))  # type: ignore[type-var]
        return b.position(O.WORKGROUP) % self.groups(b) * (self.program.workgroup or 1) + b.position(O.THREAD)

    def positioned(self, b: Builder, i: Instruction) -> Value:
        axis = int(i.attribute or 0)
        if i.opcode is O.LANE:
            return self.lane(b)
        if not self.lanes:
            return b.coordinate(axis + 1) if i.opcode is O.COORDINATE else b.extent(axis + 1)
        if i.opcode is O.COORDINATE:
            return self.lane(b)
        if i.opcode is O.EXTENT:
            return b.scalar(self.lanes, dtypes.index)
        return b.position(O.WORKGROUP) % self.groups(b)

    # Instructions.

    def rule(self, b: Builder, i: Instruction, operands: list[Any]) -> Value | tuple[()] | None:
        if i.opcode in _OWN:
            return self.positioned(b, i)
        if i.opcode is O.SCALAR and i.attribute in self.numbers:
            return self.number(b, self.numbers[str(i.attribute)], i)
        name = str(i.attribute)
        if i.opcode in BUFFER_ACCESSES and name in self.buffers:
            length = b.scalar(self.lengths[name], dtypes.index)
            place = self.example(b) * length + operands[0]
            if i.opcode is not O.LOAD:  # what misses an example must not hit another one
                inside = (operands[0] >= 0) & (operands[0] < length)
                place = select(inside, place, b.constant(NOWHERE, dtypes.index))
            operands = [place, *operands[1:]]
        elif i.opcode not in EFFECTS or i.opcode in MEETINGS:
            return None
        return self.effect(b, i, operands)

    def number(self, b: Builder, name: str, i: Instruction) -> Value:
        known = next((p for p in b.parameters if p.name == name), None)
        return b.load(known or b.buffer(name, i.type, Access.READ), self.example(b))

    def effect(self, b: Builder, i: Instruction, operands: Sequence[Value]) -> Value | tuple[()]:
        """An access; one that changes memory only where the lane is one of its example's."""
        name = str(i.attribute)
        if i.opcode in LOADS:
            return b.emit(i.opcode, i.type, *operands, attribute=name)
        if not self.lanes:
            return self.changed(b, i, operands)[0] if i.results else self.stored(b, i, operands)
        there = self.lane(b) < b.scalar(self.lanes, dtypes.index)
        if i.opcode in ATOMICS:
            nothing: Callable[[], Sequence[Value]] = lambda: (b.constant(i.type.python(0), i.type),)  # noqa: E731
            return b.if_(there, lambda: self.changed(b, i, operands), nothing)[0]
        b.if_(there, lambda: self.stored(b, i, operands), lambda: None)
        return ()

    def changed(self, b: Builder, i: Instruction, operands: Sequence[Value]) -> tuple[Value, ...]:
        return (b.emit(i.opcode, i.type, *operands, attribute=str(i.attribute)),)

    def stored(self, b: Builder, i: Instruction, operands: Sequence[Value]) -> tuple[()]:
        b.write(i.opcode, str(i.attribute), *operands)
        return ()
