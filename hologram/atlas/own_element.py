"""Programs whose lanes each compute one element from those at the same place: what fuses with its neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hologram.atlas.builder import Builder, Value
from hologram.atlas.derivatives.disjoint import Held, Reading
from hologram.atlas.opcodes import EFFECTS, LOCAL_ACCESSES, LOOPS, POSITIONS, Opcode
from hologram.atlas.program import Block, Instruction, Program
from hologram.atlas.rewrite import write_into
from hologram.foundation.frozen import frozen

O = Opcode


@frozen(eq=False)
class Element:
    """What a lane computes: a program without positions, which stores into one buffer."""

    program: Program
    buffer: str

    def written(self, builder: Builder, elements: Mapping[str, Value], numbers: Mapping[str, Any]) -> Value:
        """The value written into another program, from the elements of the buffers and the scalars' numbers."""
        found: list[Value] = []

        def rule(b: Builder, i: Instruction, operands: list[Any]) -> Value | tuple[()] | None:
            if i.opcode is O.LOAD:
                return elements[str(i.attribute)]
            if i.opcode is O.STORE:
                found.append(operands[0])
                return ()
            if i.opcode is O.SCALAR:
                return b.constant(numbers[str(i.attribute)], i.type)
            return None

        write_into(builder, self.program, rule, {}, {})
        return found[0]


def own_element(program: Program, grid: Sequence[Any], numbers: Mapping[str, Any]) -> Element | None:
    """What a lane computes of a program with one result; None where it reads or stores at other places than its own.

    It has no loops, so that it is short, and uses its coordinates for nothing else.
    """
    walk = [*program.body.walk()]
    stores = [i for i in program.body.instructions if i.opcode is O.STORE]
    whole = program.workgroup is None and not program.reduced and all(type(n) is int for n in grid)
    if not whole or len(stores) != 1 or program.opcodes & (LOOPS | LOCAL_ACCESSES):
        return None
    (store,) = stores
    if any(i.opcode in EFFECTS and i is not store for i in walk) or any(
        i.opcode is O.LOAD and i.attribute == store.attribute for i in walk
    ):
        return None
    reading = Reading(program, grid, numbers)
    reading.block(program.body, Held())
    strides: dict[Any, int] = {}
    step = 1
    for axis in reversed(range(program.rank)):
        if grid[axis] > 1:
            strides["coordinate", axis] = step
        step *= grid[axis]

    def own(i: Instruction) -> bool:
        at = reading.sums.get(i.operands[0])
        if at is None or at.known or at.alike:
            return False
        return {name: n for name, n in at.terms.items() if reading.ranges[name] > 1} == strides

    if not all(own(i) for i in walk if i.opcode in (O.LOAD, O.STORE)):
        return None
    needed = _needed(walk, store.operands[1])
    if any(i.opcode in POSITIONS and i.result in needed for i in walk):
        return None
    kept = (*_kept(program.body, needed).instructions, replace(store, operands=store.operands[1:]))
    return Element(replace(program, body=Block(kept)), str(store.attribute))


def _needed(walk: Sequence[Instruction], value: int) -> set[int]:
    """The values that one is computed from, without the positions of what is loaded."""
    made = {r: i for i in walk for r in i.results}
    found: set[int] = set()
    open_ = [value]
    while open_:
        v = open_.pop()
        if v in found:
            continue
        found.add(v)
        i = made[v]
        if i.opcode is not O.LOAD:
            open_ += [*i.operands, *(y for block in i.blocks for y in block.yields)]
    return found


def _kept(block: Block, needed: set[int]) -> Block:
    """The instructions whose results are needed; loads without their positions."""
    kept = [
        replace(
            i,
            operands=() if i.opcode is O.LOAD else i.operands,
            blocks=tuple(_kept(b, needed) for b in i.blocks),
        )
        for i in block.instructions
        if not needed.isdisjoint(i.results)
    ]
    return replace(block, instructions=tuple(kept))
