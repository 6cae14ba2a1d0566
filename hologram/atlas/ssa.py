"""What follows from SSA: which values an instruction mentions, what they come from, and what depends on them.

Every question is about a run of instructions in order, a block's or all of a program's, and is answered in one walk.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from hologram.atlas.opcodes import EFFECTS, Opcode
from hologram.atlas.program import Block, Instruction, Program


def deep(instructions: Iterable[Instruction]) -> Iterator[Instruction]:
    """Instructions, those of inner blocks after the one that holds them."""
    return Block(tuple(instructions)).walk()


def mentions(instruction: Instruction) -> Iterable[int]:
    """Every value that the instruction or its blocks mention, in order, each once."""
    if not instruction.blocks:
        return instruction.operands
    values: dict[int, None] = {}
    for inner in deep((instruction,)):
        values |= dict.fromkeys(inner.operands)
        for block in inner.blocks:
            values |= dict.fromkeys(block.yields)
    return values


def makes(instructions: Iterable[Instruction]) -> set[int]:
    """Values that instructions and their blocks make, what enters blocks included."""
    values: set[int] = set()
    for i in deep(instructions):
        values.update(i.results, *(block.arguments for block in i.blocks))
    return values


def enters(instructions: Sequence[Instruction]) -> dict[int, None]:
    """Values that instructions mention and do not make, in order of first use."""
    made = makes(instructions)
    return {v: None for i in instructions for v in mentions(i) if v not in made}


def definitions(instructions: Iterable[Instruction]) -> dict[int, Instruction]:
    """The instruction that makes each value."""
    return {v: i for i in instructions for v in i.results}


def sources(
    instructions: Sequence[Instruction],
    values: Iterable[int],
    *,
    keep: Callable[[Instruction], bool] = lambda i: False,
    ends: Callable[[Instruction], bool] = lambda i: False,
    known: Collection[int] = (),
    reads: Callable[[Instruction], Iterable[int]] = mentions,
) -> tuple[Instruction, ...]:
    """The instructions that values are computed from, in order.

    Args:
        instructions: in order; of a walk through inner blocks what a block is given counts as made by its holder.
        values: what is wanted.
        keep: instructions that are wanted beside those, with what they mention.
        ends: instructions whose operands are not asked for.
        known: values that are not asked for.
        reads: the values that an instruction needs.
    """
    given = frozenset(known)
    needed = {v for v in values if v not in given}
    chosen: list[Instruction] = []
    for i in reversed(instructions):
        if keep(i) or not needed.isdisjoint(i.results) or any(needed & {*b.arguments} for b in i.blocks):
            chosen.append(i)
            if not ends(i):
                needed.update(v for v in reads(i) if v not in given)
    return tuple(reversed(chosen))


def dependent(
    instructions: Iterable[Instruction],
    values: Iterable[int],
    *,
    begins: Callable[[Instruction], bool] = lambda i: False,
    carries: Callable[[Instruction], bool] = lambda i: True,
) -> set[int]:
    """Values that depend on some, these included: `begins` tells of others, `carries` what passes it on."""
    reached = set(values)
    for i in instructions:
        if carries(i) and (begins(i) or not reached.isdisjoint(mentions(i))):
            reached.update(i.results)
    return reached


def has_effect(instruction: Instruction) -> bool:
    """Whether it, or something in its blocks, is more than its value."""
    return any(i.opcode in EFFECTS for i in deep((instruction,)))


def named(program: Program, opcodes: Collection[Opcode]) -> frozenset[str]:
    """The buffers, arrays or scalars that instructions of these opcodes name."""
    return frozenset(str(i.attribute) for i in program.body.walk() if i.opcode in opcodes)
