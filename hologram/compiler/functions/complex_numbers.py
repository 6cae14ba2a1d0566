"""Functions of complex numbers as arithmetic on their parts: what each opcode makes of pairs of floats.

An operand is a pair (x, y), the number x + iy; z real is one whose y is a constant 0, so that it multiplies and divides
part by part, as in C's Annex G. Functions of infinities and NaN have that annex's results, which are the array API's.
Branch cuts are those of Kahan, Branch Cuts for Complex Elementary Functions (1987), by the signs of zeros.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from hologram.atlas import functions as atlas
from hologram.atlas.builder import Value
from hologram.atlas.functions import select
from hologram.atlas.opcodes import Opcode
from hologram.opset import functions
from hologram.opset.hyperbolic import cosh, sinh

Complex = tuple[Value, Value]
MOST_TURNS = 64  # of whole exponents that become products


def multiplied(a: Complex, b: Complex) -> Complex:
    """(x + iy)(u + iv)."""
    (x, y), (u, v) = a, b
    if is_zero(v):
        return x * u, y * u
    if is_zero(y):
        return x * u, x * v
    return x * u - y * v, x * v + y * u


def divided(a: Complex, b: Complex) -> Complex:
    """By the larger part of the divisor, so that nothing overflows on the way (Smith, Algorithm 116, 1962)."""
    (x, y), (u, v) = a, b
    if is_zero(v):
        return x / u, y / u
    wide = atlas.absolute(u) >= atlas.absolute(v)
    large, small = select(wide, u, v), select(wide, v, u)
    huge = atlas.absolute(large) > u.dtype.largest / 4.0  # the sum of its squares over it may be twice that
    scale = select(huge, 0.25, u.builder.constant(1.0, u.dtype))
    large, small = large * scale, small * scale
    ratio = select(large == 0.0, 0.0, small / large)
    total = large + small * ratio
    first, second = select(wide, x, y), select(wide, y, x)
    across = second - first * ratio
    return (first + second * ratio) / total * scale, select(wide, across, -across) / total * scale


def equal(a: Complex, b: Complex) -> Value:
    return (a[0] == b[0]) & (a[1] == b[1])


def different(a: Complex, b: Complex) -> Value:
    return (a[0] != b[0]) | (a[1] != b[1])


def is_zero(part: Value) -> bool:
    """Whether it is the constant 0, as the imaginary part of a real number is."""
    return constant_of(part) == 0.0


def constant_of(part: Value) -> float | None:
    """The number that a part is known to be."""
    found = next((i for i in part.builder.written if i.results == (part.id,)), None)
    known = found is not None and found.opcode is Opcode.CONSTANT
    return float(found.attribute) if known and found is not None else None  # type: ignore[arg-type]


def _lost(angle: Value) -> Value:
    """Whether an angle is none: infinite or NaN."""
    return angle - angle != 0.0


# Roots, exponentials and logarithms.


def _square_root(z: Complex) -> Complex:
    """Scaled, so that the sum of magnitude and real part neither overflows nor loses bits."""
    x, y = z
    largest = atlas.maximum(atlas.absolute(x), atlas.absolute(y))
    dtype = x.dtype
    huge, tiny = largest > dtype.largest / 8.0, largest < 2.0 ** (dtype.least_exponent + dtype.mantissa)
    up, down = 2.0 ** (2 * dtype.mantissa), 2.0**-4
    one = x.builder.constant(1.0, dtype)
    scale = select(huge, down, select(tiny, up, one))
    back = select(huge, down**-0.5, select(tiny, up**-0.5, one))
    a, b = x * scale, y * scale
    root = atlas.sqrt((atlas.absolute(a) + functions.hypot(a, b)) * 0.5)
    other = select(root == 0.0, atlas.absolute(b), atlas.absolute(b) / (root * 2.0))
    right = a >= 0.0
    upper, lower = select(right, root, other) * back, select(right, other, root) * back
    endless = atlas.absolute(y) == math.inf
    return select(endless, math.inf, upper), functions.copysign(select(endless, math.inf, lower), y)


def _exponential(z: Complex) -> Complex:
    """exp(x) (cos y + i sin y); of large x in two steps, as only exp(x) may overflow."""
    x, y = z
    if is_zero(y):
        return atlas.exp(x), y
    large = x > math.log(x.dtype.largest)
    factor = atlas.exp(select(large, x * 0.5, x))
    twice = select(large, factor, 1.0)
    across, up = (factor * f(y) * twice for f in (atlas.cos, atlas.sin))
    across = select(_lost(y) & (atlas.absolute(x) == math.inf), factor, across)  # 0 or infinity at no angle
    up = select(_lost(y) & (x == -math.inf), 0.0, up)
    return across, select(y == 0.0, y, up)


def _logarithm(z: Complex) -> Complex:
    """The logarithm of the magnitude, exact near 1, and the angle."""
    x, y = z
    a, b = atlas.absolute(x), atlas.absolute(y)
    low, high = atlas.minimum(a, b), atlas.maximum(a, b)
    ratio = select(high == 0.0, high, select(low == high, 1.0, low / high))
    near = atlas.log1p((high - 1.0) * (high + 1.0) + low * low) * 0.5
    far = atlas.log(high) + atlas.log1p(ratio * ratio) * 0.5
    magnitude = select((high > 0.5) & (high < 2.0), near, far)
    magnitude = select((a == math.inf) | (b == math.inf), math.inf, magnitude)
    return magnitude, functions.atan2(y, x)


def _log1p(z: Complex) -> Complex:
    x, y = z
    b = atlas.absolute(y)
    # |1 + z|^2 - 1 = x (x + 2) + y^2, where that is small.
    near = atlas.log1p(x * (x + 2.0) + y * y) * 0.5
    far, angle = _logarithm((x + 1.0, y))
    return select((atlas.absolute(x) < 0.5) & (b < 0.5), near, far), angle


def _expm1(z: Complex) -> Complex:
    """exp(x) cos y - 1 = expm1(x) cos y - 2 sin^2(y / 2)."""
    x, y = z
    half = atlas.sin(y * 0.5)
    less = atlas.expm1(x)
    grown, up = _exponential(z)
    across = select(less == math.inf, grown, less * atlas.cos(y) - half * half * 2.0)
    return select(x == -math.inf, -1.0, across), up


def _scaled(function: Callable[[Complex], Complex], ahead: float = 1.0, behind: float = 1.0) -> Any:
    """A function of `ahead` times the number, times `behind`."""

    def scaled(z: Complex) -> Complex:
        x, y = function((z[0] * ahead, z[1] * ahead))
        return x * behind, y * behind

    return scaled


def _power(a: Complex, b: Complex) -> Complex:
    """exp(b log a); products for whole exponents that are known; 0^b is 0 for a positive real part of b, 0^0 is 1."""
    whole = constant_of(b[0]) if is_zero(b[1]) else None
    if whole is not None and whole == int(whole) and abs(whole) <= MOST_TURNS:
        return _whole_power(a, int(whole))
    if whole in (0.5, -0.5):
        root = _square_root(a)
        return root if whole == 0.5 else _reciprocal(root)
    x, y = _exponential(multiplied(_logarithm(a), b))
    (u, v), (p, q) = a, b
    origin, none = (u == 0.0) & (v == 0.0), (p == 0.0) & (q == 0.0)
    at_origin = select(p > 0.0, 0.0, select(p == p, math.nan, p))
    x = select(none, 1.0, select(origin, at_origin, x))
    return x, select(none, 0.0, select(origin, at_origin, y))


def _reciprocal(z: Complex) -> Complex:
    one, zero = (z[0].builder.constant(number, z[0].dtype) for number in (1.0, 0.0))
    return divided((one, zero), z)


def _whole_power(z: Complex, exponent: int) -> Complex:
    one, zero = (z[0].builder.constant(number, z[0].dtype) for number in (1.0, 0.0))
    result: Complex | None = None
    square, left = z, abs(exponent)
    while left:
        if left & 1:
            result = square if result is None else multiplied(result, square)
        left >>= 1
        square = multiplied(square, square) if left else square
    if result is None:
        return one, zero
    return _reciprocal(result) if exponent < 0 else result


# Trigonometric and hyperbolic functions.


def _grown(factor: Value, hyperbolic: Any, y: Value) -> Value:
    """A factor times cosh(y) or sinh(y), which may overflow where that does not."""
    half = atlas.exp(atlas.absolute(y) * 0.5)
    large = factor * 0.5 * half * half
    large = large if hyperbolic is cosh else select(y < 0.0, -large, large)
    return select(atlas.absolute(y) > 40.0, large, factor * hyperbolic(y))


def _sine(z: Complex) -> Complex:
    x, y = z
    across, up = _grown(atlas.sin(x), cosh, y), _grown(atlas.cos(x), sinh, y)
    up = select((atlas.absolute(y) == math.inf) & _lost(x), y, up)
    return select(x == 0.0, x, across), select((y == 0.0) & _lost(x), y, up)


def _cosine(z: Complex) -> Complex:
    x, y = z
    across, up = _grown(atlas.cos(x), cosh, y), _grown(-atlas.sin(x), sinh, y)
    across = select((atlas.absolute(y) == math.inf) & _lost(x), math.inf, across)
    zero, one = (x.builder.constant(number, x.dtype) for number in (0.0, 1.0))
    flat = functions.copysign(zero, -x) * functions.copysign(one, y)
    return across, select((x == 0.0) | (y == 0.0), flat, up)


def _hyperbolic_tangent(z: Complex) -> Complex:
    """Kahan's: by the tangent of the imaginary part; beyond the dtype's digits by exp(-2 |x|)."""
    x, y = z
    far = atlas.absolute(x) > (x.dtype.mantissa + 2) * math.log(2.0)
    inside = select(far, 0.0, x)
    t, s = atlas.tan(y), sinh(inside)
    beta = t * t + 1.0
    rho = atlas.sqrt(s * s + 1.0)
    total = beta * s * s + 1.0
    near = beta * rho * s / total, t / total
    least = atlas.exp(-atlas.absolute(x))
    away = atlas.sin(y) * 4.0 * atlas.cos(y) * least * least
    endless = atlas.absolute(x) == math.inf
    away = select(endless & _lost(y), 0.0, away)
    one = x.builder.constant(1.0, x.dtype)
    across = select(far, functions.copysign(one, x), near[0])
    across = select(endless, across, select(_lost(y), math.nan, across))
    return select(x == 0.0, x, across), select(y == 0.0, y, select(far, away, near[1]))


def _tangent(z: Complex) -> Complex:
    """-i tanh(iz)."""
    x, y = _hyperbolic_tangent((-z[1], z[0]))
    return y, -x


def inverse_hyperbolic_tangent(z: Complex) -> Complex:
    """Kahan's: a quarter of log1p(4 x / ((1 - x)^2 + y^2)), and half of the angle between 1 + z and 1 - z."""
    x, y = z
    a, b = atlas.absolute(x), atlas.absolute(y)
    bound = 2.0 ** (x.dtype.mantissa + 2)
    large = (a > bound) | (b > bound)
    p, q = select(large, 0.5, a), select(large, 0.5, y)
    apart = (1.0 - p) * (1.0 - p) + q * q
    near = atlas.log1p(p / apart * 4.0) * 0.25
    # Right above and below 1, where the square of the distance may be 0.
    beside = (p == 1.0) & (b < 2.0 ** -(x.dtype.mantissa // 2 + 3))
    near = select(beside, (math.log(2.0) - atlas.log(b)) * 0.5, near)
    length = functions.hypot(a, b)
    far = select(length == math.inf, 0.0, a / length / length)
    angle = functions.atan2(q * 2.0, (1.0 - p) * (1.0 + p) - q * q) * 0.5
    quarter = functions.copysign(x.builder.constant(math.pi / 2, x.dtype), y)
    quarter = select((x == x) | (b == math.inf), quarter, x)
    angle = select(y == y, select(large, quarter, angle), y)
    return select(x == 0.0, x, functions.copysign(select(large, far, near), x)), angle


def _arc_tangent(z: Complex) -> Complex:
    """-i artanh(iz)."""
    x, y = inverse_hyperbolic_tangent((-z[1], z[0]))
    return y, -x


FUNCTIONS: Mapping[Opcode, Callable[..., Any]] = {
    Opcode.ADD: lambda a, b: (a[0] + b[0], a[1] + b[1]),
    Opcode.SUB: lambda a, b: (a[0] - b[0], a[1] - b[1]),
    Opcode.MUL: multiplied,
    Opcode.DIV: divided,
    Opcode.MAD: lambda a, b, c: tuple(x + y for x, y in zip(multiplied(a, b), c, strict=True)),
    Opcode.NEG: lambda z: (-z[0], -z[1]),
    Opcode.POW: _power,
    Opcode.EQ: equal,
    Opcode.NE: different,
    Opcode.REDUCE_ADD: lambda z: (atlas.reduce_add(z[0]), atlas.reduce_add(z[1])),
    Opcode.SQRT: _square_root,
    Opcode.EXP: _exponential,
    Opcode.EXP2: _scaled(_exponential, ahead=math.log(2.0)),
    Opcode.EXPM1: _expm1,
    Opcode.LOG: _logarithm,
    Opcode.LOG2: _scaled(_logarithm, behind=1.0 / math.log(2.0)),
    Opcode.LOG1P: _log1p,
    Opcode.SIN: _sine,
    Opcode.COS: _cosine,
    Opcode.TAN: _tangent,
    Opcode.TANH: _hyperbolic_tangent,
    Opcode.ATAN: _arc_tangent,
}
