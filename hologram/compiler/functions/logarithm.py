"""log, log2, log1p and pow as arithmetic.

x = m 2^e with sqrt(1/2) <= m < sqrt(2), so that f = m - 1 is exact and e = 0 around 1: no cancellation there.
"""

from __future__ import annotations

import math

from hologram.atlas.builder import Value
from hologram.atlas.functions import absolute, fma, round_, select, trunc
from hologram.compiler.functions import polynomials
from hologram.compiler.functions.exponential import exp2_sum
from hologram.compiler.functions.floats import (
    Pair,
    clamped,
    exact_product,
    exact_sum,
    finite,
    halves,
    mantissa_exponent,
    polynomial,
    power_of_two,
    product,
    quick_sum,
    total,
)
from hologram.foundation.dtypes import f32, f64


def _logarithm_near_one(f: Value, e: Value) -> Value:
    """ln((1 + f) 2^e), small terms first."""
    high, low = polynomials.LN2[f.dtype]
    square = f * f
    rest = fma(square, fma(f, polynomial(f, polynomials.LOG[f.dtype]), -0.5), e * low)
    return fma(e, high, f + rest)


def _with_edges(x: Value, y: Value, pole: float) -> Value:
    """The logarithm y with what is left outside its domain: -infinity at the pole, NaN below, x above."""
    b = x.builder
    outside = select(x == pole, b.constant(-math.inf, x.dtype), b.constant(math.nan, x.dtype))
    y = select(x > pole, y, outside)
    form = x.dtype
    return select(x.bitcast(form.signed) >= form.infinity, x, y)


def log(x: Value) -> Value:
    m, e = mantissa_exponent(x)
    return _with_edges(x, _logarithm_near_one(m - 1.0, e.to(x.dtype)), 0.0)


def log2(x: Value) -> Value:
    m, e = mantissa_exponent(x)
    f = m - 1.0
    y = fma(f, polynomial(f, polynomials.LOG2[x.dtype]), f)
    return _with_edges(x, e.to(x.dtype) + y, 0.0)


def log1p(x: Value) -> Value:
    """With 1 + x = m 2^e before rounding: f = 2^-e x + (2^-e - 1)."""
    form = x.dtype
    m, e = mantissa_exponent(1.0 + x)
    small = e < form.mantissa + 2  # above, 1 + x is x
    inverse = power_of_two(select(small, -e, 0), x.dtype)
    f = select(small, fma(x, inverse, inverse - 1.0), m - 1.0)
    y = _logarithm_near_one(f, e.to(x.dtype))
    y = select(absolute(x) < 2.0 ** -(form.mantissa + 2), x, y)
    return _with_edges(x, y, -1.0)


def _log2_pair(x: Value) -> Pair:
    """log2 of a positive finite x to half as many digits again: 2 / ln2 atanh(s) with s = f / (2 + f)."""
    m, e = mantissa_exponent(x)
    f = m - 1.0
    d = exact_sum(x.builder.constant(2.0, x.dtype), f)
    s = f / d.hi
    t = exact_product(s, d.hi)
    s = quick_sum(s, ((f - t.hi) - t.lo - s * d.lo) / d.hi)
    z = product(s, s)
    high, low = polynomials.THIRD[x.dtype]
    third = Pair(x.builder.constant(high, x.dtype), x.builder.constant(low, x.dtype))
    terms = product(z, third)
    terms = quick_sum(terms.hi, fma(z.hi * z.hi, polynomial(z.hi, polynomials.ATANH[x.dtype]), terms.lo))
    cubic = product(s, terms)
    atanh = quick_sum(s.hi, cubic.hi)
    atanh = quick_sum(atanh.hi, atanh.lo + (s.lo + cubic.lo))
    high, low = polynomials.TWO_OVER_LN2[x.dtype]
    scale = Pair(x.builder.constant(high, x.dtype), x.builder.constant(low, x.dtype))
    return total(Pair(e.to(x.dtype), x.builder.constant(0.0, x.dtype)), product(atanh, scale))


def _power_of_positive(x: Value, y: Value) -> Value:
    """x^y for positive finite x and any finite y."""
    power = _log2_pair(x)
    split = halves(y)
    p = exact_product(power.hi, y)
    low = p.lo + power.lo * split.hi + power.lo * split.lo
    near = absolute(p.hi) < 2.0 * x.dtype.bias
    return exp2_sum(p.hi, select(near, low, 0.0))


def _wide_power_of_positive(x: Value, y: Value) -> Value:
    """The same for f32 through f64: 2^(y log2(x)) has digits to spare there."""
    m, e = mantissa_exponent(x.to(f64))
    f = m - 1.0
    logarithm = e.to(f64) + fma(f, polynomial(f, polynomials.LOG2[f64]), f)
    return exp2_sum(y.to(f64) * logarithm).to(f32)


def power(x: Value, y: Value, *, wide: bool = False) -> Value:
    """IEEE 754 pow, all cases; `wide`: f32 through f64."""
    b = x.builder
    a = absolute(x)
    ordinary = (a > 0.0) & finite(x)
    base = select(ordinary, a, 1.0)
    limit = 2.0**40 if x.dtype == f32 else 2.0**80  # far past overflow for every x but 1
    bounded = clamped(y, -limit, limit)
    whole = (
        _wide_power_of_positive(base, bounded)
        if wide and x.dtype == f32
        else _power_of_positive(base, bounded)
    )
    nan, one = b.constant(math.nan, x.dtype), b.constant(1.0, x.dtype)
    # 0 and infinity: infinite where base and exponent agree, else 0.
    extreme = select((a > 1.0) ^ (y > 0.0), b.constant(0.0, x.dtype), b.constant(math.inf, x.dtype))
    whole = select(ordinary, whole, extreme)
    integral = round_(y) == y
    half = y * 0.5
    odd = integral & (trunc(half) != half)
    negative = x.bitcast(x.dtype.signed) < 0
    whole = select(negative & odd, -whole, whole)
    whole = select((x < 0.0) & ~integral & finite(x), nan, whole)
    whole = select((x != x) | (y != y), x + y, whole)
    return select((x == 1.0) | (y == 0.0), one, whole)
