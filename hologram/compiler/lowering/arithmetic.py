"""Arithmetic as Atlas defines it, spelled out where a target language defines it otherwise or not at all.

Each rule is one function of operands; `lower` applies those a dialect asks for. A rule may emit its own opcode
again, on operands for which every language agrees.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from hologram.atlas.builder import Builder, Value, absolute, maximum, minimum, select
from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Instruction, Program
from hologram.compiler.functions.floats import LAYOUTS, layout, power_of_two, with_sign_of
from hologram.compiler.lowering.rewrite import rewrite
from hologram.dtypes import DType, dtype, f32, i32, index, u32

Wanted = Callable[[Opcode, DType], bool]


def unsigned(d: DType) -> DType:
    return dtype(f"u{d.bits}")


def limits(d: DType) -> tuple[int, int]:
    """The lowest and the highest number of an integer dtype."""
    if d.kind == "uint":
        return 0, (1 << d.bits) - 1
    return -1 << (d.bits - 1), (1 << (d.bits - 1)) - 1


def divide(x: Value, y: Value) -> Value:
    """x div 0 = 0; lowest div -1 = -lowest = lowest."""
    zero = y == 0
    if x.dtype.kind == "uint":
        return select(zero, 0, x // select(zero, 1, y))
    negates = y == -1
    return select(zero, 0, select(negates, 0 - x, x // select(zero | negates, 1, y)))


def remainder(x: Value, y: Value) -> Value:
    """x rem 0 = x rem -1 = 0."""
    trivial = y == 0 if x.dtype.kind == "uint" else (y == 0) | (y == -1)
    return select(trivial, 0, x % select(trivial, 1, y))


def shift_left(x: Value, count: Value) -> Value:
    """x << count = 0 for count >= width; a negative count is a large one."""
    inside = count.bitcast(unsigned(count.dtype)) < x.dtype.bits
    return select(inside, x << select(inside, count, 0), 0)


def shift_right(x: Value, count: Value) -> Value:
    """x >> count = x >> (width - 1) >> 1 for count >= width."""
    inside = count.bitcast(unsigned(count.dtype)) < x.dtype.bits
    if x.dtype.kind == "uint":
        return select(inside, x >> select(inside, count, 0), 0)
    return x >> select(inside, count, x.dtype.bits - 1)


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
    if x.dtype.kind == "uint":
        return result
    sign = select((y & 1) == 1, x, one)  # for x = 1 or -1
    return select(y < 0, select((x == 1) | (x == -1), sign, 0), result)


def float_remainder(x: Value, y: Value) -> Value:
    """C's fmod, exactly: the mantissas' remainder, as many bits at a time as the integer has to spare.

    With x = m 2^e and y = n 2^d, e >= d: x rem y = (m 2^(e-d) rem n) 2^d, and a 2^s rem n = ((a rem n) 2^s) rem n.
    """
    if x.dtype not in LAYOUTS:  # the remainder is a multiple of both units: exact in f16 and bf16, too
        return float_remainder(x.to(f32), y.to(f32)).to(x.dtype)
    b, form = x.builder, layout(x)
    whole = unsigned(form.bits)
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
    power = d.bitcast(form.bits) - (form.bias + form.mantissa)
    half = power >> 1
    y_scaled = rest.to(x.dtype) * power_of_two(half, x.dtype) * power_of_two(power - half, x.dtype)
    nan = b.constant(math.nan, x.dtype)
    return select(divides, with_sign_of(y_scaled, x), select(valid, x, nan))


def to_integer(x: Value, target: DType) -> Value:
    """Saturates; NaN, of which every comparison is false, gives 0."""
    if x.dtype not in LAYOUTS:
        x = x.to(f32)
    low, high = limits(target)
    below = float(low - 1) if target.bits < layout(x).mantissa else float(low)
    inside = (x > below) & (x < float(high + 1))
    b = x.builder
    edge = select(x >= float(high + 1), high, select(x <= below, b.constant(low, target), 0))
    return select(inside, select(inside, x, 0.0).to(target), edge)


def is_nan(x: Value) -> Value:
    """By its bits: some compilers take x != x for false."""
    x = x if x.dtype in LAYOUTS else x.to(f32)
    form = layout(x)
    return (x.bitcast(form.bits) & ~form.sign) > form.infinity


def least(x: Value, y: Value) -> Value:
    """NaN if either is."""
    return select(is_nan(x), x, select(is_nan(y), y, minimum(x, y)))


def greatest(x: Value, y: Value) -> Value:
    """NaN if either is."""
    return select(is_nan(x), x, select(is_nan(y), y, maximum(x, y)))


INTEGERS: dict[Opcode, Callable[[Value, Value], Value]] = {
    Opcode.DIV: divide,
    Opcode.REM: remainder,
    Opcode.SHL: shift_left,
    Opcode.SHR: shift_right,
    Opcode.MULHI: multiply_high,
    Opcode.POW: integer_power,
}
FLOATS: dict[Opcode, Callable[[Value, Value], Value]] = {
    Opcode.REM: float_remainder,
    Opcode.MIN: least,
    Opcode.MAX: greatest,
}


def _harmless(opcode: Opcode, d: DType, second: float | None) -> bool:
    """Whether a second operand known when the program is written needs no guard."""
    if second is None:
        return False
    if opcode in (Opcode.DIV, Opcode.REM):
        return second not in (0, -1)
    return opcode in (Opcode.SHL, Opcode.SHR) and 0 <= second < d.bits


def lower(program: Program, wanted: Wanted) -> Program:
    """The program with each instruction for which `wanted(opcode, dtype of the result)` spelled out.

    Offered: integer div rem shl shr mulhi pow, float rem min max, convert from float to integer. A guard against a
    constant that cannot need it is left out.
    """
    constants = {i.result: i.attribute for i in program.body.walk() if i.opcode is Opcode.CONSTANT}

    def rule(builder: Builder, instruction: Instruction, operands: list[Value]) -> Value | None:
        opcode = instruction.opcode
        if len(instruction.types) != 1 or not wanted(opcode, instruction.type):
            return None
        d = instruction.type
        if opcode is Opcode.CONVERT:
            return to_integer(operands[0], d) if d.is_integer and operands[0].dtype.is_float else None
        rules = INTEGERS if d.is_integer else FLOATS if d.is_float else {}
        if opcode not in rules:
            return None
        second = constants.get(instruction.operands[1])
        if d.is_integer and not isinstance(second, str) and _harmless(opcode, d, second):
            return None
        return rules[opcode](*operands)

    return rewrite(program, rule)
