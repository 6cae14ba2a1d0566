"""Floats taken apart: their bits, scaling by powers of two, polynomials, and pairs with twice the digits."""

from __future__ import annotations

from hologram.atlas.builder import Value
from hologram.atlas.functions import absolute, fma, select
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.foundation.frozen import frozen


def polynomial(x: Value, coefficients: tuple[float, ...]) -> Value:
    """Horner's scheme, lowest degree first."""
    result = x.builder.constant(coefficients[-1], x.dtype)
    for c in reversed(coefficients[:-1]):
        result = fma(result, x, c)
    return result


def power_of_two(k: Value, dtype: DType) -> Value:
    """2^k for an integer k whose result is a normal number."""
    return ((k + dtype.bias) << dtype.mantissa).bitcast(dtype)


def powers_of_two(n: Value, dtype: DType) -> tuple[Value, Value]:
    """Two normal numbers whose product is 2^k, where the low bits of the integer n are k + 2 bias.

    A number near 1 multiplied by the first and then by the second is rounded once, also where the result is denormal
    or overflows.
    """
    first = (n << (dtype.mantissa - 1)) & (-1 << dtype.mantissa)
    return first.bitcast(dtype), ((n << dtype.mantissa) - first).bitcast(dtype)


def with_sign_of(x: Value, sign: Value) -> Value:
    """|x| with the sign of another; `x` is not negative."""
    form = x.dtype
    return (x.bitcast(form.signed) | (sign.bitcast(form.signed) & form.signed.lowest)).bitcast(x.dtype)


def clamped(x: Value, low: float, high: float) -> Value:
    """NaN stays NaN: the comparisons are false."""
    x = select(x > high, high, x)
    return select(x < low, low, x)


def finite(x: Value) -> Value:
    """Whether x is neither infinite nor NaN; asked of its bits, for compilers that assume there are none."""
    form = x.dtype
    return (x.bitcast(form.signed) & ~form.signed.lowest) < form.infinity


def not_a_number(x: Value) -> Value:
    """Whether x is NaN; likewise."""
    form = x.dtype
    return (x.bitcast(form.signed) & ~form.signed.lowest) > form.infinity


def rounded_to_odd(x: Value) -> Value:
    """An f64 as f32, its last bit set if anything was lost: rounding that once more to fewer bits is right.

    Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums", 2008.
    """
    near = x.to(dtypes.f32)
    back, bits = near.to(dtypes.f64), near.bitcast(dtypes.u32)
    towards_zero = bits - (absolute(back) > absolute(x)).to(dtypes.u32)
    return select(back == x, bits, towards_zero | 1).bitcast(dtypes.f32)


def mantissa_exponent(x: Value) -> tuple[Value, Value]:
    """x = m 2^e with sqrt(1/2) <= m < sqrt(2) and e an integer, for positive finite x, denormals included."""
    form = x.dtype
    smallest = 2.0 ** (1 - form.bias)
    up = form.mantissa + 1
    tiny = x < smallest
    bits = select(tiny, x * 2.0**up, x).bitcast(form.signed)
    sqrt_half = x.builder.constant(2.0**-0.5, x.dtype).bitcast(form.signed)
    exponent = (bits - sqrt_half) >> form.mantissa
    mantissa = (bits - (exponent << form.mantissa)).bitcast(x.dtype)
    return mantissa, exponent + select(tiny, x.builder.constant(-up, form.signed), 0)


# Pairs: an unevaluated sum hi + lo with |lo| at most half a unit in the last place of hi (Dekker 1971,
# Muller et al., Handbook of Floating-Point Arithmetic, chapter 4). Products split their factors instead of
# using fma, which a GPU may round twice.


@frozen
class Pair:
    hi: Value
    lo: Value


def quick_sum(a: Value, b: Value) -> Pair:
    """a + b exactly, where |a| >= |b| or a is 0."""
    s = a + b
    return Pair(s, b - (s - a))


def exact_sum(a: Value, b: Value) -> Pair:
    s = a + b
    t = s - a
    return Pair(s, (a - (s - t)) + (b - t))


def halves(x: Value) -> Pair:
    form = x.dtype
    hi = (x.bitcast(form.signed) & -1 << (form.digits + 1) // 2).bitcast(x.dtype)
    return Pair(hi, x - hi)


def exact_product(a: Value, b: Value) -> Pair:
    p, x, y = a * b, halves(a), halves(b)
    return Pair(p, ((x.hi * y.hi - p) + x.hi * y.lo + x.lo * y.hi) + x.lo * y.lo)


def product(a: Pair, b: Pair) -> Pair:
    p = exact_product(a.hi, b.hi)
    return quick_sum(p.hi, p.lo + (a.hi * b.lo + a.lo * b.hi))


def total(a: Pair, b: Pair) -> Pair:
    s = exact_sum(a.hi, b.hi)
    return quick_sum(s.hi, s.lo + (a.lo + b.lo))
