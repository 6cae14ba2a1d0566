"""What a driver takes for a number that it knows, written so that NaN and infinities count: x - x, x / x, x times 0.

A language that lets its compiler assume there are no NaN makes 0, 1 and 0 of them. The exponent's bits say the same
and leave it nothing to assume. A choice between the two sides of a comparison becomes the hardware's minimum or
maximum, which lose NaN (NVIDIA's driver does so): where the comparison fails for NaN, its bits choose. Two values are
one to a driver also where an element is read twice, as it is by parameters that are one buffer (aliasing.merge), or
read after it was written.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Set
from typing import Any

from hologram.atlas.builder import Builder, Value
from hologram.atlas.functions import select
from hologram.atlas.opcodes import PURE, WRITES, Opcode
from hologram.atlas.program import Block, Instruction, Program
from hologram.atlas.rewrite import rewrite
from hologram.atlas.ssa import deep
from hologram.compiler.functions.floats import finite, not_a_number
from hologram.compiler.passes import Goal, Pass, Stage
from hologram.foundation.dtypes import FLOATS, DType

_ALIKE = frozenset({Opcode.SUB, Opcode.DIV})
_PRODUCTS = frozenset({Opcode.MUL, Opcode.FMA, Opcode.MAD})
_ORDERS = frozenset({Opcode.LT, Opcode.LE, Opcode.GT, Opcode.GE})


def expand_unsupported(program: Program, types: Collection[DType], shortfalls: Set[str]) -> Program:
    """The program with these results chosen by the bits of x, where `types`, the language's, has integers for them.

    `shortfalls`: what its drivers do not keep, "nan" or "choices".
    """
    formats = {d for d in FLOATS if d.computed is d and d.signed in types}
    numbers = [i for i in program.body.walk() if len(i.types) == 1 and i.type in formats and not i.blocks]
    constants = {i.result: i.attribute for i in numbers if i.opcode is Opcode.CONSTANT}

    def known(value: int) -> tuple[float, None] | int:
        return (constants[value], None) if value in constants else value

    orders = {i.result: set(map(known, i.operands)) for i in program.body.walk() if i.opcode in _ORDERS}

    def zero(value: int) -> bool:
        return constants.get(value) == 0

    same = _first_alike(program.body) if any(i.opcode in _ALIKE for i in numbers) else {}

    def assumed(i: Instruction) -> bool:
        if ("choices" if i.opcode is Opcode.SELECT else "nan") not in shortfalls:
            return False
        if i.opcode in _ALIKE:
            return len({same.get(v, v) for v in i.operands}) == 1 and i.operands[0] not in constants
        if i.opcode is Opcode.SELECT:
            condition, *sides = i.operands
            return orders.get(condition) == set(map(known, sides)) and sides[1] not in constants
        return i.opcode in _PRODUCTS and any(map(zero, i.operands[:2]))

    chosen = {i.result for i in numbers if assumed(i)}

    def rule(builder: Builder, i: Instruction, operands: list[Any]) -> Value | None:
        if not chosen & set(i.results):
            return None
        x, y, *rest = operands
        if i.opcode is Opcode.SUB:
            return select(finite(x), 0.0, builder.constant(math.nan, x.dtype))
        if i.opcode is Opcode.DIV:
            return select(finite(x) & (x != 0.0), 1.0, builder.constant(math.nan, x.dtype))
        if i.opcode is Opcode.SELECT:
            return select(not_a_number(rest[0]), rest[0], select(x, y, rest[0]))
        product = _nothing(x, y) if zero(i.operands[1]) else _nothing(y, x)
        return product + rest[0] if rest else product

    return rewrite(program, rule) if chosen else program


def _first_alike(body: Block) -> dict[int, int]:
    """For each value the first one that is the same: of equal operands, or of an element not written in between."""
    same: dict[int, int] = {}
    made: dict[tuple[Any, ...], int] = {}

    def visit(block: Block, elements: dict[tuple[Any, int], int]) -> None:
        for i in block.instructions:
            operands = tuple(same.get(v, v) for v in i.operands)
            if i.opcode is Opcode.LOAD:
                same[i.result] = elements.setdefault((i.attribute, operands[0]), i.result)
            elif i.opcode in (Opcode.MAX, Opcode.MIN) and len(set(operands)) == 1:
                same[i.result] = operands[0]
            elif i.opcode in PURE:
                same[i.result] = made.setdefault((i.opcode, i.types, operands, i.exact), i.result)
            inside = tuple(deep((i,)))
            written = {e.attribute for e in inside if e.opcode in WRITES}
            others = any(e.opcode is Opcode.BARRIER for e in inside)  # threads may have written anything
            elements = {} if others else {k: v for k, v in elements.items() if k[0] not in written}
            if i.opcode is Opcode.STORE:
                elements[i.attribute, operands[0]] = operands[1]
            for inner in i.blocks:
                visit(inner, dict(elements))

    visit(body, {})
    return same


def _nothing(x: Value, zero: Value) -> Value:
    """x times a zero: a zero of the signs' product, NaN unless x is finite."""
    form = x.dtype
    sign = (x.bitcast(form.signed) ^ zero.bitcast(form.signed)) & form.signed.lowest
    return select(finite(x), sign.bitcast(x.dtype), x.builder.constant(math.nan, x.dtype))


def _apply(program: Program, goal: Goal) -> Program:
    assert goal.dialect is not None
    return expand_unsupported(program, goal.dialect.types, goal.dialect.shortfalls)


NAN_GUARDS = Pass(
    "spell out what a driver assumes",
    "x - x, x / x, x * 0, x < y ? x : y by the bits of x or y: NaN and infinities count",
    Stage.LANGUAGE,
    _apply,
    wanted=lambda goal: (
        goal.dialect is not None
        and bool(goal.dialect.hidden and goal.dialect.shortfalls & {"nan", "choices"})
    ),
)
