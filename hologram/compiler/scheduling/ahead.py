"""Loops that carry values, and what of their turns can be computed ahead of that: as vectors of turns.

    for k: total = total + exp(x[k])    becomes, so many turns at a time,
    for k: ahead[k] = exp(x[k])         of independent turns, which LLVM makes vectors of, and
    for k: total = total + ahead[k]     in the order that the loop has.

(Loop distribution, as in Allen and Kennedy, Optimizing Compilers for Modern Architectures, 2001.)
"""

from __future__ import annotations

from hologram.atlas.opcodes import EFFECTS, STRUCTURED, Opcode
from hologram.atlas.program import Instruction
from hologram.foundation.dtypes import bool_, index
from hologram.foundation.frozen import frozen

_MUCH = 8  # operations beside a load, which are worth to be kept in between
_KEPT = 8  # values of a turn that are kept at most


@frozen
class Ahead:
    """The instructions of a turn in two parts."""

    first: tuple[Instruction, ...]  # what needs nothing of the turn before
    rest: tuple[Instruction, ...]  # with the constants that it reads, which the first part may have as well
    kept: tuple[Instruction, ...]  # those of the first part whose results the rest reads


def ahead(loop: Instruction) -> Ahead | None:
    """A loop's turns in two parts; None where there is nothing much to compute ahead."""
    block = loop.blocks[0]
    carried = block.arguments[1:]
    if (
        loop.opcode is not Opcode.LOOP
        or not carried
        or block.argument_types[0] != index
        or any(i.opcode in STRUCTURED or i.opcode in EFFECTS for i in block.instructions)
    ):
        return None
    late, first, rest = set(carried), list[Instruction](), list[Instruction]()
    for i in block.instructions:
        if late.isdisjoint(i.operands):
            first.append(i)
        else:
            rest.append(i)
            late.update(i.results)
    read = {v for i in rest for v in i.operands} | {*block.yields}
    plain = [i for i in first if not i.operands]  # constants are spelled where they are read
    kept = tuple(i for i in first if i.operands and not read.isdisjoint(i.results))
    loads = sum(i.opcode is Opcode.LOAD for i in first)
    computed = sum(i.type.is_float for i in first if i.operands) - loads
    if computed <= _MUCH * max(loads, 1) or len(kept) > _KEPT or any(i.type == bool_ for i in kept):
        return None
    return Ahead(tuple(first), (*plain, *rest), kept)
