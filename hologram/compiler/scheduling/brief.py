"""Loops that are known to have few turns, whatever the memory holds that lanes read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Instruction
from hologram.compiler.analysis.ranges import Range

_FEW = 1 << 17


def brief(body: Sequence[Instruction], known: Mapping[int, Range]) -> bool:
    """Whether a lane takes few turns of all its loops together."""
    return _turns(body, known) <= _FEW


def _turns(body: Sequence[Instruction], known: Mapping[int, Range]) -> float:
    """Of a turn with this body: itself, and those of the loops inside."""
    total = 1.0
    for i in body:
        inside = max((_turns(b.instructions, known) for b in i.blocks), default=0.0)
        if i.opcode is Opcode.WHILE:
            return math.inf
        if i.opcode is Opcode.LOOP:
            start, stop = (known.get(v) for v in i.operands[:2])
            if start is None or stop is None:
                return math.inf
            inside *= max(stop.high - start.low, 1)
        total += inside
    return total
