"""sin, cos, tan and atan as arithmetic.

x = k pi/2 + r with |r| <= pi/4. Moderate arguments subtract k times pi/2 in parts, each product but the last exact
(Cody and Waite 1980). f32 beyond that multiplies the 24-bit mantissa by the 96 bits of 2/pi that matter for its
exponent, in integers (Payne and Hanek 1983), which is right up to the largest float. f64 has the first form only:
right to |x| <= 2^19 pi, and NaN beyond: never a number without a correct digit.
"""

from __future__ import annotations

import math
from itertools import pairwise

from hologram.atlas.builder import Value, absolute, fma, mulhi, round_, select
from hologram.compiler import polynomials
from hologram.compiler.floats import Pair, finite, layout, polynomial, product, quick_sum, with_sign_of
from hologram.dtypes import f32, i32, u32

MODERATE = 8192.0  # f32 below this: k has at most 13 bits, the parts of pi/2 11 each
LARGEST_F64 = 2.0**20 * math.pi / 2


def _moderate(x: Value) -> tuple[Value, Value, Value]:
    """k modulo 4 as an integer, and r as a sum."""
    k = round_(x * (2.0 / math.pi))
    first, second, third, last = polynomials.HALF_PI[x.dtype]
    t = fma(k, -second, fma(k, -first, x))  # exact
    w = k * third
    r = t - w
    return k.to(layout(x).bits) & 3, r, ((t - r) - w) - k * last


def _huge(x: Value) -> tuple[Value, Value, Value]:
    """The same for |x| >= 64 in f32."""
    b = x.builder
    bits = x.bitcast(u32)
    mantissa = (bits & 0x7FFFFF) | 0x800000
    # |x| = mantissa 2^(exponent - 23); skip the bits of 2/pi that give multiples of 4.
    start = select(x.bitcast(i32) < 0, bits & 0x7FFFFFFF, bits) >> 23
    start = start - 120  # the exponent + 7; the words begin with 32 zeros
    word, shift = start >> 5, start & 31

    def chosen(offset: int) -> Value:
        table = polynomials.TWO_OVER_PI_WORDS
        result = b.constant(table[offset], u32)
        for i in range(1, 5):
            result = select(word == i, b.constant(table[offset + i], u32), result)
        return result

    words = [chosen(i) for i in range(4)]
    first, second, third = ((v << shift) | ((w >> 1) >> (31 - shift)) for v, w in pairwise(words))
    middle = mantissa * second
    low = middle + mulhi(mantissa, third)
    carry = select(low < middle, b.constant(1, u32), 0)
    high = mantissa * first + mulhi(mantissa, second) + carry
    # high.low is |x| 2/pi in quarters of a turn, 2 bits before the point.
    quadrant = (high + (1 << 29)) >> 30
    rest = (high - (quadrant << 30)).bitcast(i32)
    coarse = rest & -256  # at most 24 bits: converts exactly
    fine = (rest & 255).to(f32) + low.to(f32) * 2.0**-32
    half_pi = Pair(*(b.constant(part * 2.0**-30, f32) for part in polynomials.HALF_PI_PAIR[f32]))
    r = product(quick_sum(coarse.to(f32), fine), half_pi)
    k = quadrant.bitcast(i32) & 3
    negative = x.bitcast(i32) < 0
    return select(negative, (0 - k) & 3, k), select(negative, -r.hi, r.hi), select(negative, -r.lo, r.lo)


def _reduced(x: Value) -> tuple[Value, Value, Value]:
    if x.dtype != f32:
        return _moderate(x)
    large = absolute(x) >= MODERATE
    k, r, low = _moderate(select(large, 1.0, x))
    k_large, r_large, low_large = _huge(select(large, x, MODERATE))
    return select(large, k_large, k), select(large, r_large, r), select(large, low_large, low)


def _sine_cosine(r: Value, low: Value) -> tuple[Pair, Pair]:
    """sin and cos of r + low on |r| <= pi/4; the sums of their pairs are rounded once."""
    z = r * r
    sine = quick_sum(r, fma(r * z, polynomial(z, polynomials.SIN[r.dtype]), low))
    # 1 - z/2 exactly, as h and what its rounding lost.
    half = z * 0.5
    h = 1.0 - half
    lost = (1.0 - h) - half
    cosine = quick_sum(h, lost + fma(z * z, polynomial(z, polynomials.COS[r.dtype]), -(r * low)))
    return sine, cosine


def _in_domain(x: Value, y: Value) -> Value:
    """y, or NaN where x is not finite or past what the reduction can do."""
    nan = x.builder.constant(math.nan, x.dtype)
    return select(finite(x) if x.dtype == f32 else absolute(x) <= LARGEST_F64, y, nan)


def _turned(x: Value, quarters: int) -> Value:
    """sin(x + quarters pi/2)."""
    k, r, low = _reduced(x)
    k = k + quarters
    sine, cosine = _sine_cosine(r, low)
    y = select((k & 1) == 0, sine.hi, cosine.hi)
    return _in_domain(x, select((k & 2) == 0, y, -y))


def sin(x: Value) -> Value:
    return select(x == 0.0, x, _turned(x, 0))


def cos(x: Value) -> Value:
    return _turned(x, 1)


def tan(x: Value) -> Value:
    k, r, low = _reduced(x)
    sine, cosine = _sine_cosine(r, low)
    even = (k & 1) == 0
    above, above_low = select(even, sine.hi, -cosine.hi), select(even, sine.lo, -cosine.lo)
    below, below_low = select(even, cosine.hi, sine.hi), select(even, cosine.lo, sine.lo)
    y = above / below
    y = y + (above_low - y * below_low) / below  # the quotient of the pairs
    return select(x == 0.0, x, _in_domain(x, y))


def atan(x: Value) -> Value:
    """Folded to |t| <= tan(pi/8): atan(a) = pi/2 - atan(1/a) = pi/4 + atan((a - 1) / (a + 1))."""
    b = x.builder
    a = absolute(x)
    steep, middle = a > 1.0 + math.sqrt(2.0), a > math.sqrt(2.0) - 1.0
    above = select(steep, b.constant(-1.0, x.dtype), select(middle, a - 1.0, a))
    below = select(steep, a, select(middle, a + 1.0, 1.0))
    t = above / below
    z = t * t
    high, low = polynomials.HALF_PI_PAIR[x.dtype]
    zero = b.constant(0.0, x.dtype)
    rest = fma(
        t * z, polynomial(z, polynomials.ATAN[x.dtype]), select(steep, low, select(middle, low / 2, zero))
    )
    y = select(steep, high, select(middle, high / 2, zero)) + (t + rest)
    return with_sign_of(y, x)
