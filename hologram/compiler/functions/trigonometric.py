"""sin, cos, tan and atan as arithmetic.

x = k pi/2 + r with |r| <= pi/4. Moderate arguments subtract k times pi/2 in parts, each product but the last exact
(Cody and Waite 1980). Beyond, the mantissa is multiplied by those bits of 2/pi that matter for its exponent, in
integers (Payne and Hanek 1983; Muller et al., Handbook of Floating-Point Arithmetic, chapter 11), which is right up to
the largest float. That is dear, and stands in a branch.
"""

from __future__ import annotations

import math
from itertools import pairwise

from hologram.atlas.builder import Builder, Value
from hologram.atlas.functions import absolute, fma, mulhi, round_, select
from hologram.compiler.functions import polynomials
from hologram.compiler.functions.floats import Pair, finite, polynomial, product, quick_sum, with_sign_of
from hologram.foundation.dtypes import DType, f32, f64, i32, i64, u32, u64

# Below these k times a part of pi/2 is exact: in f32 13 bits by 11, in f64 20 bits by 33.
MODERATE = {f32: 8192.0, f64: 2.0**20}


def _moderate(x: Value) -> tuple[Value, Value, Value]:
    """k modulo 4 as an integer, and r as a sum."""
    k = round_(x * (2.0 / math.pi))
    first, second, third, last = polynomials.HALF_PI[x.dtype]
    t = fma(k, -second, fma(k, -first, x))  # exact
    w = k * third
    r = t - w
    return k.to(x.dtype.signed) & 3, r, ((t - r) - w) - k * last


def _huge_f32(x: Value) -> tuple[Value, Value, Value]:
    """The same for |x| >= 64."""
    b = x.builder
    bits = x.bitcast(u32)
    mantissa = (bits & 0x7FFFFF) | 0x800000
    # |x| = mantissa 2^(exponent - 23); skip the bits of 2/pi that give multiples of 4.
    start = ((bits & 0x7FFFFFFF) >> 23) - 120  # the exponent + 7; the words begin with 32 zeros
    first, second, third = _window(start, 3, 5)
    middle = mantissa * second
    low = middle + mulhi(mantissa, third)
    carry = select(low < middle, b.constant(1, u32), 0)
    high = mantissa * first + mulhi(mantissa, second) + carry
    # high.low is |x| 2/pi in quarters of a turn, 2 bits before the point.
    quadrant = (high + (1 << 29)) >> 30
    rest = (high - (quadrant << 30)).bitcast(i32)
    coarse = rest & -256  # at most 24 bits: converts exactly
    fine = (rest & 255).to(f32) + low.to(f32) * 2.0**-32
    r = product(quick_sum(coarse.to(f32), fine), _half_pi(b, f32, 2.0**-30))
    return _signed(x, quadrant.bitcast(i32) & 3, r)


def _huge_f64(x: Value) -> tuple[Value, Value, Value]:
    """The same for |x| >= 1. 53 bits, by 192 of 2/pi: 61 may cancel, and 2^-137 is left in error."""
    b = x.builder
    bits = x.bitcast(u64)
    mantissa = (bits & ((1 << 52) - 1)) | (1 << 52)
    start = ((bits >> 52) & 0x7FF) - 1013  # the words begin with 64 zeros
    first, second, third = _window(start, 3, 17)
    middle = mantissa * second
    low = middle + _mulhi_u64(mantissa, third)
    carry = select(low < middle, b.constant(1, u64), 0)
    high = mantissa * first + _mulhi_u64(mantissa, second) + carry
    quadrant = (high + (1 << 61)) >> 62
    rest = (high - (quadrant << 62)).bitcast(i64)
    # In three parts, each converted exactly: the first may be 0.
    coarse = (rest & -2048).to(f64)
    fine = (((rest & 2047) << 42) | (low >> 22).bitcast(i64)).to(f64) * 2.0**-42
    finest = (low & ((1 << 22) - 1)).bitcast(i64).to(f64) * 2.0**-64
    turn = quick_sum(coarse, fine)
    r = product(quick_sum(turn.hi, turn.lo + finest), _half_pi(b, f64, 2.0**-62))
    return _signed(x, quadrant.bitcast(i64) & 3, r)


def _window(start: Value, count: int, choices: int) -> list[Value]:
    """`count` words of 2/pi, after one word of zeros, from the bit `start` on; it lies in the first `choices` words."""
    b, dtype = start.builder, start.dtype
    width = dtype.bits
    log = width.bit_length() - 1
    word, shift = start >> log, start & (width - 1)
    used = choices + count
    digits = polynomials.TWO_OVER_PI >> (polynomials.TWO_OVER_PI_BITS - width * (used - 1))
    words = [
        b.constant((digits >> (width * (used - 1 - i))) & ((1 << width) - 1), dtype) for i in range(used)
    ]
    # A barrel shifter over the words, the largest stride first.
    for stride in (1 << i for i in reversed(range((choices - 1).bit_length()))):
        kept = min(len(words), count + stride)
        taken = (word & stride) != 0
        words = [
            select(taken, words[i + stride], v) if i + stride < len(words) else v
            for i, v in enumerate(words[:kept])
        ]
    return [(v << shift) | ((w >> 1) >> ((width - 1) - shift)) for v, w in pairwise(words)]


def _mulhi_u64(x: Value, y: Value) -> Value:
    """The upper half of the product; x < 2^63."""
    x_high, x_low = x >> 32, x & 0xFFFFFFFF
    y_high, y_low = y >> 32, y & 0xFFFFFFFF
    upper = x_high * y_low + ((x_low * y_low) >> 32)
    lower = x_low * y_high + (upper & 0xFFFFFFFF)
    return x_high * y_high + (upper >> 32) + (lower >> 32)


def _half_pi(builder: Builder, dtype: DType, unit: float) -> Pair:
    return Pair(*(builder.constant(part * unit, dtype) for part in polynomials.HALF_PI_PAIR[dtype]))


def _signed(x: Value, k: Value, r: Pair) -> tuple[Value, Value, Value]:
    """The reduction of x from that of |x|."""
    negative = x < 0.0
    return select(negative, (0 - k) & 3, k), select(negative, -r.hi, r.hi), select(negative, -r.lo, r.lo)


def _reduced(x: Value) -> tuple[Value, Value, Value]:
    huge = _huge_f32 if x.dtype == f32 else _huge_f64
    large = absolute(x) >= MODERATE[x.dtype]
    k, r, low = x.builder.if_(large, lambda: huge(x), lambda: _moderate(x))
    return k, r, low


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
    """y, or NaN where x is not finite."""
    return select(finite(x), y, math.nan)


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
