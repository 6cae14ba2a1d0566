"""Integer powers, the exact floating remainder and upper halves of products, from simpler instructions."""

from __future__ import annotations

from hologram import dtypes
from hologram.atlas.builder import Value, select
from hologram.dtypes import i32, u32, u64


def power(x: Value, y: Value) -> Value:
    """x to the y-th of integers, wrapping, by repeated squaring; a negative exponent gives 0 unless x is 1 or -1."""

    def square(_: Value, result: Value, base: Value, rest: Value) -> tuple[Value, ...]:
        return select((rest & 1) != 0, result * base, result), base * base, rest >> 1

    one = x.builder.constant(1, x.dtype)
    result, _, _ = x.builder.loop(0, x.dtype.bits, square, first=(one, x, y))
    if x.dtype.kind == "uint":
        return result
    inverse = select(x == 1, one, select(x == -1, select((y & 1) != 0, x, one), one - 1))
    return select(y < 0, inverse, result)


def remainder(x: Value, y: Value) -> Value:
    """x - trunc(x / y) * y without rounding (C's fmod), with the sign of x.

    With x = m 2^e and y = n 2^f, the remainder is (m 2^(e - f) mod n) 2^f: a long division, eight bits a turn.
    """
    b, d = x.builder, x.dtype
    unsigned, fraction = (u32, 23) if d.bits == 32 else (u64, 52)
    top = 2 ** (d.bits - 1) - 1
    largest = 2 ** (d.bits - 1 - fraction) - 1  # the exponent of infinities and NaN
    xs, ys = (v.bitcast(unsigned) & top for v in (x, y))

    def exponent(bits: Value) -> Value:
        e = bits >> fraction
        return select(e == 0, b.constant(1, unsigned), e)

    def mantissa(bits: Value) -> Value:
        part = bits & (2**fraction - 1)
        return select((bits >> fraction) == 0, part, part | 2**fraction)

    e, f, n = exponent(xs), exponent(ys), mantissa(ys)
    valid = (e >= f) & (n != 0)
    divisor = select(n == 0, b.constant(1, unsigned), n)
    shift = select(valid, e - f, b.constant(0, unsigned))

    def divide(_: Value, rest: Value, left: Value) -> tuple[Value, ...]:
        step = select(left < 8, left, b.constant(8, unsigned))
        return (rest << step) % divisor, left - step

    turns = ((shift + 7) >> 3).to(dtypes.index)
    rest, _ = b.loop(0, turns, divide, first=(mantissa(xs) % divisor, shift))
    size = rest.to(d) * 2.0**-fraction * (f << fraction).bitcast(d)
    signed = (size.bitcast(unsigned) | (x.bitcast(unsigned) & (top + 1))).bitcast(d)
    infinity = largest << fraction
    defined = (xs < infinity) & (ys <= infinity) & (n != 0)
    return select(defined, select(e >= f, signed, x), b.constant(float("nan"), d))


def upper_half(x: Value, y: Value) -> Value:
    """The upper 32 bits of a product of two u32 or i32, from products of 16-bit halves."""
    if x.dtype == i32:
        high = upper_half(x.bitcast(u32), y.bitcast(u32)).bitcast(i32)
        zero = x.builder.constant(0, i32)
        return high - select(x < 0, y, zero) - select(y < 0, x, zero)
    x_low, x_high, y_low, y_high = x & 0xFFFF, x >> 16, y & 0xFFFF, y >> 16
    middle = x_high * y_low + ((x_low * y_low) >> 16)
    other = x_low * y_high + (middle & 0xFFFF)
    return x_high * y_high + (middle >> 16) + (other >> 16)
