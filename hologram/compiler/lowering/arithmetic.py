"""Arithmetic that a target language lacks, spelled out as Atlas defines it: each rule is one function of operands."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from hologram.atlas.builder import Builder, Value
from hologram.atlas.functions import absolute, maximum, minimum, select
from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Instruction, Program
from hologram.atlas.rewrite import rewrite
from hologram.compiler.functions.floats import power_of_two, with_sign_of
from hologram.compiler.passes import Pass, Stage
from hologram.foundation.dtypes import DType, f32, i32, index, u32


def multiply_high(x: Value, y: Value) -> Value:
    """With halves of 16 bits: x y = (xh yh) 2^32 + (xh yl + xl yh) 2^16 + xl yl."""
    if x.dtype == i32:  # as unsigned numbers, each negative factor adds 2^32 times the other
        high = multiply_high(x.bitcast(u32), y.bitcast(u32)).bitcast(i32)
        return high - select(x < 0, y, 0) - select(y < 0, x, 0)
    xh, xl, yh, yl = x >> 16, x & 0xFFFF, y >> 16, y & 0xFFFF
    middle = xh * yl + ((xl * yl) >> 16)  # below 2^32
    cross = xl * yh + (middle & 0xFFFF)  # likewise
    return xh * yh + (middle >> 16) + (cross >> 16)


def integer_power(x: Value, y: Value) -> Value:
    """x^y = x^(y & 1) (x^2)^(y >> 1); 0 for y < 0 unless x is 1 or -1."""
    b = x.builder
    one = b.constant(1, x.dtype)

    def square(_: Value, result: Value, base: Value, rest: Value) -> tuple[Value, ...]:
        return select((rest & 1) == 1, result * base, result), base * base, rest >> 1

    result, _, _ = b.loop(0, x.dtype.bits, square, first=(one, x, y))
    if not x.dtype.is_signed:
        return result
    sign = select((y & 1) == 1, x, one)  # for x = 1 or -1
    return select(y < 0, select((x == 1) | (x == -1), sign, 0), result)


def float_remainder(x: Value, y: Value) -> Value:
    """C's fmod, exactly: the mantissas' remainder, as many bits at a time as the integer has to spare.

    With x = m 2^e and y = n 2^d, e >= d: x rem y = (m 2^(e-d) rem n) 2^d, and a 2^s rem n = ((a rem n) 2^s) rem n.
    """
    if x.dtype.computed is not x.dtype:  # a multiple of both units: exact in f16 and bf16, too
        return float_remainder(x.to(f32), y.to(f32)).to(x.dtype)
    b, form = x.builder, x.dtype
    whole = form.unsigned
    spare = whole.bits - form.mantissa - 1

    def parts(v: Value) -> tuple[Value, Value]:
        bits = absolute(v).bitcast(whole)
        exponent = bits >> form.mantissa
        hidden = select(exponent == 0, b.constant(0, whole), 1 << form.mantissa)
        return (bits & ((1 << form.mantissa) - 1)) | hidden, maximum(exponent, 1)

    m, e = parts(x)
    n, d = parts(y)
    valid = (n != 0) & (e <= 2 * form.bias) & (absolute(y).bitcast(whole) <= form.infinity)
    divides = valid & (e >= d) & (d <= 2 * form.bias)
    n, distance = select(divides, n, 1), select(divides, e - d, 0)

    def step(_: Value, rest: Value, left: Value) -> tuple[Value, Value]:
        bits = minimum(left, spare)
        return (rest << bits) % n, left - bits

    passes = ((distance + (spare - 1)) // spare).to(index)
    rest, _ = b.loop(0, passes, step, first=(m % n, distance))
    # d - bias - mantissa in two steps: the power itself may be denormal.
    power = d.bitcast(form.signed) - (form.bias + form.mantissa)
    half = power >> 1
    y_scaled = rest.to(x.dtype) * power_of_two(half, x.dtype) * power_of_two(power - half, x.dtype)
    nan = b.constant(math.nan, x.dtype)
    return select(divides, with_sign_of(y_scaled, x), select(valid, x, nan))


# By opcode, and whether it is that of floats. Powers of floats are expanded before; remainders of integers are in every
# language.
RULES: dict[tuple[Opcode, bool], Callable[[Value, Value], Value]] = {
    (Opcode.POW, False): integer_power,
    (Opcode.REM, True): float_remainder,
    (Opcode.MULHI, False): multiply_high,
}


def expand_unsupported(program: Program, spells: Callable[[Opcode, DType], bool]) -> Program:
    """Integer pow, float remainder and the upper half of a product, where the language has none."""
    opcodes = program.opcodes & {opcode for opcode, _ in RULES}

    def expanded(builder: Builder, i: Instruction, operands: list[Any]) -> Value | None:
        if i.opcode not in opcodes:
            return None
        dtype = operands[-1].dtype
        rule = RULES.get((i.opcode, dtype.is_float))
        return None if rule is None or spells(i.opcode, dtype) else rule(*operands)

    return rewrite(program, expanded) if opcodes else program


SPELL_OUT = Pass(
    "expand arithmetic",
    "integer powers by squares, remainders of floats by their mantissas, upper halves by halves of 16 bits",
    Stage.LANGUAGE,
    lambda program, goal: expand_unsupported(program, lambda opcode, dtype: not goal.lacks(opcode, dtype)),
    wanted=lambda goal: goal.dialect is not None,
)
