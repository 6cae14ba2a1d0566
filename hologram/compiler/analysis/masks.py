"""Loads that count only where a condition holds, as those of what is padded: no lane needs them elsewhere."""

from __future__ import annotations

from collections.abc import Mapping

from hologram.atlas.opcodes import PURE, REDUCTIONS, Opcode
from hologram.atlas.program import Instruction, Program
from hologram.atlas.ssa import definitions, mentions

O = Opcode
_FLOWS = PURE - REDUCTIONS  # what a lane computes of its own


def masked(program: Program) -> dict[int, tuple[int, int]]:
    """Such loads, whose position is a choice with 0: the condition, and the position where it holds.

    What is computed from one ends in choices that take it only where the condition holds.
    """
    made = definitions(program.body.instructions)
    found: dict[int, tuple[int, int]] = {}
    for i in program.body.instructions:
        at = made.get(i.operands[0]) if i.opcode is O.LOAD else None
        if at is not None and at.opcode is O.SELECT and _is_zero(made.get(at.operands[2])):
            condition, position, _ = at.operands
            found[i.result] = condition, position
    if not found:
        return {}
    users: dict[int, list[Instruction]] = {}
    for i in program.body.instructions:
        for v in mentions(i):
            users.setdefault(v, []).append(i)
    return {v: (c, p) for v, (c, p) in found.items() if _ends(v, _parts(c, made), users, made)}


def _is_zero(i: Instruction | None) -> bool:
    return i is not None and i.opcode is O.CONSTANT and i.attribute == 0


def _parts(condition: int, made: Mapping[int, Instruction]) -> frozenset[int]:
    """The conditions that one consists of."""
    i = made.get(condition)
    if i is None or i.opcode is not O.AND:
        return frozenset((condition,))
    return frozenset().union(*(_parts(v, made) for v in i.operands))


def _ends(
    value: int,
    missing: frozenset[int],
    users: Mapping[int, list[Instruction]],
    made: Mapping[int, Instruction],
) -> bool:
    """Whether nothing is stored that a value has a say in where one of the missing conditions does not hold."""
    waiting, seen = [(value, missing)], {(value, missing)}
    while waiting:
        value, missing = waiting.pop()
        for i in users.get(value, ()):
            if i.opcode not in _FLOWS:
                return False
            left = missing
            if (
                i.opcode is O.SELECT
                and value == i.operands[1]
                and value not in (i.operands[0], i.operands[2])
            ):
                left = missing - _parts(i.operands[0], made)
            state = (i.result, left)
            if left and state not in seen:
                seen.add(state)
                waiting.append(state)
    return True
