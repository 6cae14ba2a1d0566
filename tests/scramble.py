"""The same program written otherwise: renamed, commuted, reordered, with more code that changes nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from hologram.atlas.opcodes import EFFECTS, LOADS, LOOPS, PURE, REDUCTIONS, STRUCTURED, Opcode
from hologram.atlas.program import Block, Instruction, Program
from hologram.atlas.ssa import mentions
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType

_SWAPPED = {Opcode.GT: Opcode.LT, Opcode.LT: Opcode.GT, Opcode.GE: Opcode.LE, Opcode.LE: Opcode.GE}
_ALWAYS = frozenset({Opcode.ADD, Opcode.MUL, Opcode.MULHI, Opcode.EQ, Opcode.NE})
_WHOLE = frozenset({Opcode.MIN, Opcode.MAX, Opcode.AND, Opcode.OR, Opcode.XOR})
_PLACED = STRUCTURED | EFFECTS | LOADS


def scramble(program: Program, seed: int) -> Program:
    """A variant that computes the same to the bit."""
    writer = _Scrambler(Random(seed), program)
    body = writer.block(program.body, top=True)
    return _renamed(replace(program, body=body), writer.random)


@dataclass
class _Scrambler:
    random: Random
    program: Program
    count: int = 0

    def __post_init__(self) -> None:
        self.types: dict[int, DType] = dict(self.program.types)
        self.count = 1 + max(self.types, default=0)

    def new(self, dtype: DType) -> int:
        self.count += 1
        self.types[self.count] = dtype
        return self.count

    def block(self, block: Block, *, top: bool = False) -> Block:
        out: list[Instruction] = []
        for instruction in block.instructions:
            out += self.instruction(instruction, out)
        instructions = self.shuffled(out)
        yields = block.yields
        return replace(block, instructions=tuple(instructions), yields=yields)

    def instruction(self, i: Instruction, before: list[Instruction]) -> list[Instruction]:
        added: list[Instruction] = []
        if i.blocks:
            i = replace(i, blocks=tuple(self.block(b) for b in i.blocks))
            hoisted, i = self.hoisted(i)
            added += hoisted
            if i.opcode in LOOPS and self.random.random() < 0.3:
                more, i = self.carrying_more(i)
                added += more
            return [*added, i]
        i = self.commuted(i)
        if i.opcode in (PURE | LOADS) - REDUCTIONS and self.random.random() < 0.3:
            return [*added, *self.twice(i)]
        if i.operands and i.opcode in PURE - REDUCTIONS and self.random.random() < 0.3:
            more, operand = self.detour(i.operands[0])
            return [*added, *more, replace(i, operands=(operand, *i.operands[1:]))]
        return [*added, i]

    def commuted(self, i: Instruction) -> Instruction:
        if len(i.operands) < 2 or self.random.random() < 0.5:
            return i
        x, y, *rest = i.operands
        kind = self.types[x].kind
        if i.opcode in _SWAPPED:
            return replace(i, opcode=_SWAPPED[i.opcode], operands=(y, x))
        if i.opcode in _ALWAYS or (i.opcode in _WHOLE and kind != "float") or i.opcode in (
            Opcode.MAD, Opcode.FMA
        ):  # fmt: skip
            return replace(i, operands=(y, x, *rest))
        return i

    def twice(self, i: Instruction) -> list[Instruction]:
        """Once for nothing, or once to be chosen from two that are the same."""
        copy = replace(i, results=(self.new(i.type),))
        if i.type.kind == "bool" or self.random.random() < 0.5:
            return [i, copy]
        first = replace(i, results=(self.new(i.type),))
        same = Instruction(Opcode.CONSTANT, (self.new(dtypes.bool_),), (dtypes.bool_,), (), True)
        chosen = (same.result, first.result, copy.result)
        return [first, copy, same, Instruction(Opcode.SELECT, i.results, i.types, chosen)]

    def detour(self, value: int) -> tuple[list[Instruction], int]:
        """A longer way to the same value."""
        d = self.types[value]
        if d.kind == "bool":
            once = Instruction(Opcode.NOT, (self.new(d),), (d,), (value,))
            again = Instruction(Opcode.NOT, (self.new(d),), (d,), once.results)
            return [once, again], again.result
        if not d.is_float and self.random.random() < 0.5:
            three = Instruction(Opcode.CONSTANT, (self.new(d),), (d,), (), 3)
            more = Instruction(Opcode.ADD, (self.new(d),), (d,), (value, three.result))
            less = Instruction(Opcode.SUB, (self.new(d),), (d,), (more.result, three.result))
            return [three, more, less], less.result
        neutral: list[tuple[Opcode, int | float]] = (
            [(Opcode.MUL, 1.0), (Opcode.DIV, 1.0), (Opcode.SUB, 0.0), (Opcode.ADD, -0.0)]
            if d.is_float
            else [(Opcode.MUL, 1), (Opcode.DIV, 1), (Opcode.SUB, 0), (Opcode.ADD, 0)]
        )
        opcode, number = self.random.choice(neutral)
        constant = Instruction(Opcode.CONSTANT, (self.new(d),), (d,), (), number)
        result = Instruction(opcode, (self.new(d),), (d,), (value, constant.result))
        return [constant, result], result.result

    def hoisted(self, i: Instruction) -> tuple[list[Instruction], Instruction]:
        """Pure instructions of its blocks that need nothing from inside, before it."""
        out: list[Instruction] = []
        blocks = []
        for block in i.blocks:
            inside = {*block.arguments}
            kept = []
            for inner in block.instructions:
                movable = inner.opcode in PURE and not inside & set(inner.operands)
                if movable and self.random.random() < 0.5:
                    out.append(inner)
                else:
                    kept.append(inner)
                    inside |= set(inner.results)
            blocks.append(replace(block, instructions=tuple(kept)))
        return out, replace(i, blocks=tuple(blocks))

    def carrying_more(self, i: Instruction) -> tuple[list[Instruction], Instruction]:
        """A loop that also counts for itself."""
        (block,) = i.blocks
        d = dtypes.i32
        first = Instruction(Opcode.CONSTANT, (self.new(d),), (d,), (), 0)
        argument = self.new(d)
        one = Instruction(Opcode.CONSTANT, (self.new(d),), (d,), (), 1)
        following = Instruction(Opcode.ADD, (self.new(d),), (d,), (argument, one.result))
        block = Block(
            (*block.instructions, one, following),
            (*block.arguments, argument),
            (*block.argument_types, d),
            (*block.yields, following.result),
        )
        loop = Instruction(
            i.opcode, (*i.results, self.new(d)), (*i.types, d), (*i.operands, first.result), None, (block,)
        )
        return [first], loop

    def shuffled(self, instructions: list[Instruction]) -> list[Instruction]:
        """In another order in which every value is defined before it is used, and memory is as it was."""
        left = list(instructions)
        defined_here = {r for i in left for r in i.results}
        out: list[Instruction] = []
        done: set[int] = set()
        while left:
            placed = next((i for i in left if i.opcode in _PLACED), None)
            ready = [
                i
                for i in left
                if (i.opcode not in _PLACED or i is placed) and not (defined_here & {*mentions(i)}) - done
            ]
            chosen = self.random.choice(ready)
            left = [i for i in left if i is not chosen]
            out.append(chosen)
            done |= set(chosen.results)
        return out


def _renamed(program: Program, random: Random) -> Program:
    """Other numbers for values, other names for everything."""
    old = list(program.types)
    numbers = dict(zip(old, random.sample(range(3 * len(old) + 1), len(old)), strict=True))
    parameters = (*program.buffers, *program.scalars, *program.shared, *program.local)
    names = {p.name: f"other{k}" for k, p in enumerate(parameters)}

    def block(b: Block) -> Block:
        return Block(
            tuple(instruction(i) for i in b.instructions),
            tuple(numbers[v] for v in b.arguments),
            b.argument_types,
            tuple(numbers[v] for v in b.yields),
        )

    def instruction(i: Instruction) -> Instruction:
        return Instruction(
            i.opcode,
            tuple(numbers[v] for v in i.results),
            i.types,
            tuple(numbers[v] for v in i.operands),
            names[i.attribute] if isinstance(i.attribute, str) else i.attribute,
            tuple(block(b) for b in i.blocks),
        )

    return replace(
        program,
        name="atlas_other",
        buffers=tuple(replace(b, name=names[b.name]) for b in program.buffers),
        scalars=tuple(replace(s, name=names[s.name]) for s in program.scalars),
        shared=tuple(replace(s, name=names[s.name]) for s in program.shared),
        local=tuple(replace(s, name=names[s.name]) for s in program.local),
        body=block(program.body),
    )
