"""sin, cos and tan of f32 by way of f64, for targets where f64 arithmetic is at full speed.

x / 2 pi is taken in four parts, the first three so short (29 bits) that their products with 24 bits are exact; whole
turns leave each product by rounding, which is exact, too. So every float is reduced, the largest as well, without a
table, a branch or an integer: the reduction of Payne and Hanek (1983) in floating point. From 2^80 on the parts begin
at a later bit of 1 / 2 pi, as those before only make whole turns.
"""

from __future__ import annotations

from hologram.atlas.builder import Value
from hologram.atlas.functions import absolute, round_, select
from hologram.compiler.functions.floats import polynomial
from hologram.foundation.dtypes import f32, f64, i32

LATE = 2.0**80
# Bits 3 to 142 of 1 / 2 pi after the binary point, and bits 58 to 197.
TURN = (0.15915494272485375, 3.6704158115630214e-10, 5.690025167992954e-19, 1.470303687279978e-27)
LATE_TURN = (4.038449463906148e-18, 6.31706507132483e-27, 1.7633044837708364e-35, 2.897178338357036e-44)

# sin(2 pi t) / t in z = t^2, |t| <= 1/4 and |t| <= 1/8; cos(2 pi t), |t| <= 1/8. Errors relative to the function.
SIN_HALF = (6.283185273783463, -41.341677474440786, 81.60223091935573, -76.574983920473, 39.71085301719836)
SIN_QUARTER = (6.283185286833224, -41.341661453634615, 81.59235327122474, -75.39354931705874)
COS_QUARTER = (
    0.9999999999439283,
    -19.739208633016286,
    64.93931073825418,
    -85.44229734552141,
    59.20277698557467,
)


def _parts(x: Value) -> list[Value]:
    """x / 2 pi less whole turns, as a sum whose every prefix is exact until it is small."""
    late = absolute(x) >= LATE
    wide = x.to(f64)
    products = [
        wide * select(late, b, wide.builder.constant(a, f64)) for a, b in zip(TURN, LATE_TURN, strict=True)
    ]
    return [p - round_(p) for p in products[:-1]] + [products[-1]]


def _total(parts: list[Value]) -> Value:
    result = parts[0]
    for p in parts[1:]:
        result = result + p
    return result


def _rest(x: Value, steps: float, offset: float) -> tuple[Value, Value]:
    """n and t with x / 2 pi + offset = n / steps + t, modulo 1, |t| <= 1 / (2 steps)."""
    parts = _parts(x)
    # What is near n / steps is subtracted before the small parts are added: so t keeps its digits where it is small.
    n = round_(_total(parts[:-1]) * steps + offset * steps)
    nearest = n * (1.0 / steps) - offset if offset else n * (1.0 / steps)
    return n.to(f32).to(i32), _total([parts[0] - nearest, *parts[1:]])


def _turned(x: Value, offset: float) -> Value:
    """sin(x + 2 pi offset)."""
    n, t = _rest(x, 2.0, offset)
    y = (t * polynomial(t * t, SIN_HALF)).to(f32)
    return (y.bitcast(i32) ^ (n << 31)).bitcast(f32)


def sin(x: Value) -> Value:
    return select(x == 0.0, x, _turned(x, 0.0))


def cos(x: Value) -> Value:
    return _turned(x, 0.25)


def tan(x: Value) -> Value:
    n, t = _rest(x, 4.0, 0.0)
    z = t * t
    sine = (t * polynomial(z, SIN_QUARTER)).to(f32)
    cosine = polynomial(z, COS_QUARTER).to(f32)
    even = (n & 1) == 0
    return select(x == 0.0, x, select(even, sine, -cosine) / select(even, cosine, sine))
