"""What instructions cost to compute: the one estimate by which kernels are fused, shared out and values kept."""

from __future__ import annotations

from hologram.atlas.opcodes import ACCESSES, POSITIONS, TRANSCENDENTALS, Opcode
from hologram.atlas.program import Instruction

FUNCTION = 16  # a function counts as the polynomial that it becomes
DIVISION = 4  # of floats
WHOLE_DIVISION = 8  # of integers, whose special cases are spelled out
_FREE = POSITIONS | ACCESSES | {Opcode.CONSTANT, Opcode.SCALAR, Opcode.CONVERT}


def instructions(i: Instruction) -> int:
    """As how many plain instructions of vector code one counts; memory is counted by whoever knows where it lies."""
    if i.opcode in _FREE or any(t.kind == "index" for t in i.types):
        return 0
    if i.opcode in TRANSCENDENTALS or i.opcode is Opcode.POW:
        return FUNCTION
    if i.opcode in (Opcode.DIV, Opcode.REM):
        return WHOLE_DIVISION if i.type.is_integer else DIVISION
    return 1
