"""The engine of rewrites: a program is built anew, and a rule may replace each instruction on the way.

    def halve(builder, instruction, operands):
        if instruction.opcode is Opcode.DIV and instruction.type.is_float:
            return operands[0] * (1.0 / operands[1])
        return None  # keep it

    faster = rewrite(program, halve)

Rebuilding renumbers the values and merges pure duplicates. What a rule emits is not offered to the rule again;
instructions that nothing uses any more stay, until `canonical` or the target's compiler removes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from hologram.atlas.builder import Builder, Value
from hologram.atlas.functions import select
from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import (
    Block,
    BufferParameter,
    Instruction,
    LocalArray,
    Program,
    ScalarParameter,
    SharedArray,
)
from hologram.foundation.errors import ProgramError
from hologram.foundation.frozen import frozen

# One value may become several (an i64, two u32): then it is a tuple of Values wherever a rule meets it.
Replacement = Value | tuple[Any, ...]
Rule = Callable[[Builder, Instruction, list[Any]], Replacement | None]


@frozen
class Parameters:
    """What becomes of a program's parameters, each in its place: a scalar several or none, buffers one and the same."""

    buffer: Callable[[BufferParameter], BufferParameter] = lambda parameter: parameter
    scalar: Callable[[ScalarParameter], Iterable[ScalarParameter]] = lambda parameter: (parameter,)
    shared: Callable[[SharedArray], SharedArray] = lambda array: array
    local: Callable[[LocalArray], LocalArray] = lambda array: array


UNCHANGED = Parameters()


@frozen
class Unrolling:
    """How many rounds of a loop one turn of its new loop does; `whole`: those are all, and there is no new loop."""

    copies: int = 1
    whole: bool = False


AS_IT_IS = Unrolling()
NONE: Mapping[int, Unrolling] = {}


def rewrite(
    program: Program,
    rule: Rule = lambda builder, instruction, operands: None,
    *,
    parameters: Parameters = UNCHANGED,
    unrolled: Mapping[int, Unrolling] = NONE,
) -> Program:
    """The program with every instruction replaced by what `rule` makes of it.

    Args:
        program: what to rewrite; it stays as it is.
        rule: called in order for every instruction, those of inner blocks included, with the builder, the original
            instruction and its operands as they are after rewriting. Returns a Value for the instruction's result;
            a tuple of Values where the result is to be known in parts; an empty tuple where the instruction, a
            store say, has none; or None to keep the instruction. A result may have another dtype than the original;
            then the rule answers for the instructions that use it. `if`, `loop` and `while` follow the dtypes of what
            they carry by themselves and are not offered to the rule.
        parameters: changes buffers, scalars, shared and local arrays; loads that are kept have the new buffer's dtype.
        unrolled: what becomes of loops, by the values that are their counters.

    Raises:
        ProgramError: an instruction that is kept has an operand known in parts or of a dtype that does not fit.
    """
    builder = Builder(
        program.name,
        rank=program.rank,
        reduced=program.reduced,
        workgroup=program.workgroup,
        disjoint=program.disjoint,
    )
    walk = Rewriting(builder, rule, unrolled)
    declared: dict[BufferParameter, BufferParameter] = {}
    for buffer in program.buffers:
        new = parameters.buffer(buffer)
        if new not in declared:
            declared[new] = builder.buffer(new.name, new.dtype, new.access)
        walk.memory[buffer.name] = declared[new]
    for scalar in program.scalars:
        kept = tuple(parameters.scalar(scalar))
        walk.scalars[scalar.name] = kept
        for parameter in kept:
            builder.declare(parameter)
    for array in program.shared:
        new = parameters.shared(array)
        walk.memory[array.name] = builder.shared(new.name, new.dtype, new.size)
    for array in program.local:
        new = parameters.local(array)
        walk.memory[array.name] = builder.local(new.name, new.dtype, new.size)
    walk.block(program.body)
    return builder.build()


def write_into(
    builder: Builder,
    program: Program,
    rule: Rule,
    memory: Mapping[str, Any],
    scalars: Mapping[str, tuple[ScalarParameter, ...]],
) -> None:
    """Writes a program's body into one under construction, replaced as `rewrite` would.

    `memory` and `scalars` say what its buffers, shared arrays and scalars are there.
    """
    walk = Rewriting(builder, rule)
    walk.memory.update(memory)
    walk.scalars.update(scalars)
    walk.block(program.body)


def _flat(values: Iterable[Replacement]) -> tuple[Value, ...]:
    """Values known in parts, side by side."""
    return tuple(part for value in values for part in (value if isinstance(value, tuple) else (value,)))


def _regroup(flat: Sequence[Value], like: Sequence[Replacement]) -> list[Replacement]:
    """The inverse of `_flat`: as many parts to each value as `like` has."""
    rest = iter(flat)
    return [tuple(next(rest) for _ in old) if isinstance(old, tuple) else next(rest) for old in like]


class Rewriting:
    """One pass over a program: what each old value, buffer and scalar has become."""

    def __init__(self, builder: Builder, rule: Rule, unrolled: Mapping[int, Unrolling] = NONE) -> None:
        self.builder = builder
        self.rule = rule
        self.unrolled = unrolled
        self.values: dict[int, Replacement] = {}
        self.memory: dict[str, Any] = {}
        self.scalars: dict[str, tuple[ScalarParameter, ...]] = {}

    def block(self, block: Block) -> list[Replacement]:
        """Rewrites the block's instructions into the builder's open scope; what its yields became."""
        for instruction in block.instructions:
            self.instruction(instruction)
        return [self.values[v] for v in block.yields]

    def instruction(self, instruction: Instruction) -> None:
        operands = [self.values[v] for v in instruction.operands]
        if instruction.opcode is Opcode.IF:
            results = self.branch(instruction, operands)
        elif instruction.opcode is Opcode.LOOP:
            results = self.loop(instruction, operands)
        elif instruction.opcode is Opcode.WHILE:
            results = self.while_(instruction, operands)
        else:
            replaced = self.rule(self.builder, instruction, operands)
            results = [self.keep(instruction, operands) if replaced is None else replaced]
        if instruction.results:
            self.values.update(zip(instruction.results, results, strict=True))

    def keep(self, instruction: Instruction, operands: list[Replacement]) -> Replacement:
        """The same instruction over rewritten operands."""
        b, opcode, name = self.builder, instruction.opcode, instruction.attribute
        whole = [v for v in operands if isinstance(v, Value)]
        if len(whole) != len(operands):
            raise ProgramError(
                f"{b.name}: {opcode.value} is kept, but an operand of it is known in parts: a rule must replace it"
            )
        if opcode is Opcode.BARRIER:
            b.barrier()
            return ()
        if opcode is Opcode.STORE:
            b.store(self.memory[str(name)], *whole)
            return ()
        if opcode is Opcode.SHARED_STORE or opcode is Opcode.LOCAL_STORE:
            store = b.shared_store if opcode is Opcode.SHARED_STORE else b.local_store
            store(self.memory[str(name)], *whole)
            return ()
        if opcode is Opcode.SCALAR:
            read = tuple(b.scalar(p.name, p.dtype) for p in self.scalars[str(name)])
            return read[0] if len(read) == 1 else read
        if isinstance(name, str):  # loads and atomics
            memory = self.memory[name]
            return b.emit(opcode, memory.dtype, *whole, attribute=memory.name)
        return b.emit(opcode, instruction.type, *whole, attribute=name)

    def branch(self, instruction: Instruction, operands: list[Replacement]) -> list[Replacement]:
        (condition,) = _flat(operands)
        shapes: list[list[Replacement]] = []

        def side(block: Block) -> tuple[Value, ...]:
            shapes.append(self.block(block))
            return _flat(shapes[-1])

        then, orelse = instruction.blocks
        flat = self.builder.if_(condition, lambda: side(then), lambda: side(orelse))
        return _regroup(flat, shapes[0])

    def while_(self, instruction: Instruction, operands: list[Replacement]) -> list[Replacement]:
        (block,) = instruction.blocks
        (condition,), first = _flat(operands[:1]), operands[1:]

        def body(*carried: Value) -> tuple[Value, ...]:
            self.values.update(zip(block.arguments, _regroup(carried, first), strict=True))
            return _flat(self.block(block))

        return _regroup(self.builder.while_(condition, body, first=_flat(first)), first)

    def loop(self, instruction: Instruction, operands: list[Replacement]) -> list[Replacement]:
        (block,) = instruction.blocks
        start, stop, step = _flat(operands[:3])
        first = operands[3:]

        def body(counter: Value, *carried: Value) -> tuple[Value, ...]:
            self.values.update(zip(block.arguments, [counter, *_regroup(carried, first)], strict=True))
            return _flat(self.block(block))

        how, flat = self.unrolled.get(block.arguments[0], AS_IT_IS), _flat(first)
        if how.whole:
            for k in range(how.copies):
                flat = body(start + step * k, *flat)
        elif how.copies > 1:
            flat = _several_at_a_time(self.builder, (start, stop, step), how.copies, body, flat)
        else:
            flat = self.builder.loop(start, stop, body, first=flat, step=step, dtype=start.dtype)
        return _regroup(flat, first)


def _several_at_a_time(
    b: Builder,
    bounds: tuple[Value, Value, Value],
    copies: int,
    body: Callable[..., tuple[Value, ...]],
    first: tuple[Value, ...],
) -> tuple[Value, ...]:
    """A loop as one whose turns do so many rounds each, and one for the rounds that are left."""
    start, stop, step = bounds
    counting = start.dtype.unsigned if start.dtype.is_integer else start.dtype
    distance = stop.to(counting) - start.to(counting)  # modulo the dtype's range, where it fits
    rounds = select(start < stop, (distance - 1) // step.to(counting) + 1, 0)

    def one(turn: Value, *carried: Value) -> tuple[Value, ...]:
        return body(start + turn.to(start.dtype) * step, *carried)

    def several(turn: Value, *carried: Value) -> tuple[Value, ...]:
        for k in range(copies):
            carried = one(turn * copies + k, *carried)
        return carried

    whole = rounds // copies
    carried = b.loop(0, whole, several, first=first, dtype=counting)
    return b.loop(whole * copies, rounds, one, first=carried, dtype=counting)
