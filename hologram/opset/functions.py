"""Inverse trigonometric and hyperbolic functions, and functions of two numbers. Names are those of the array API."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hologram.atlas import complex_parts
from hologram.atlas import functions as atlas
from hologram.atlas.builder import Value
from hologram.atlas.functions import select
from hologram.foundation import dtypes
from hologram.foundation.dtypes import INEXACT
from hologram.foundation.errors import UnsupportedDType
from hologram.opset.forms import types
from hologram.opset.forms.accuracy import POLYNOMIAL, QUOTIENT
from hologram.opset.forms.holomorphic import holomorphic
from hologram.opset.forms.map import elementwise
from hologram.opset.forms.numpy_elementwise import numpy_elementwise
from hologram.opset.forms.polynomials import polynomial
from hologram.opset.forms.samples import binary, unary


def _negative(x: Value) -> Value:
    """Whether the sign bit is set, of -0.0 and NaN too."""
    wide = x.dtype.unsigned
    return (x.bitcast(wide) >> (wide.bits - 1)) != 0


def _with_sign(x: Value, y: Value) -> Value:
    """The magnitude of x with the sign of y."""
    magnitude = atlas.absolute(x)
    return select(_negative(y), -magnitude, magnitude)


def _turned_sign(cotangent, x, y):
    """The cotangent of x with another sign; 0 at 0, as in PyTorch."""
    return select(x == 0.0, 0.0, select(_negative(x) == _negative(y), cotangent, -cotangent))


@numpy_elementwise(types=types.floating, aten=("copysign.Tensor",), gradient={"x": _turned_sign})
def copysign(x, y):
    """The magnitude of x with the sign of y."""
    return _with_sign(x, y)


@numpy_elementwise(types=types.predicate, aten=("signbit",))
def signbit(x):
    """Whether x is negative or -0.0."""
    return _negative(x)


def _angle(y: Value, x: Value) -> Value:
    """atan2: the quotient of the smaller by the larger magnitude, then the octant."""
    across, up = atlas.absolute(x), atlas.absolute(y)
    low, high = atlas.minimum(across, up), atlas.maximum(across, up)
    quotient = select(low == high, 1.0, low / high)  # infinities are equal too
    angle = atlas.atan(select(high == 0.0, high, quotient))
    angle = select(up > across, math.pi / 2 - angle, angle)
    angle = select(_negative(x), math.pi - angle, angle)
    return _with_sign(select((x != x) | (y != y), x + y, angle), y)


def _turned(across: Value, y: Value, x: Value) -> Value:
    """Divided by the squared length of (x, y), which itself may overflow; 0 at the origin, which has no angle."""
    length = hypot(x, y)
    return select(length == 0.0, 0.0, across / length / length)


@numpy_elementwise(
    types=types.floating, ulp=4, looser=(QUOTIENT,), aten=("atan2",),
    gradient={"y": lambda cotangent, y, x: _turned(cotangent * x, y, x),
              "x": lambda cotangent, y, x: _turned(-cotangent * y, y, x)})  # fmt: skip
def atan2(y, x):
    """The angle in radians from the x axis to the point (x, y), in [-pi, pi]."""
    return _angle(y, x)


# Inverses of complex numbers are Kahan's, Branch Cuts for Complex Elementary Functions (1987): by square roots and
# angles of parts, so that nothing cancels, and branch cuts are told apart by the signs of zeros.


def _roots(z: Value) -> tuple[Value, Value]:
    """The square roots of 1 - z and of 1 + z."""
    x, y = complex_parts.real(z), complex_parts.imag(z)
    return atlas.sqrt(complex_parts.pair(1.0 - x, -y)), atlas.sqrt(complex_parts.pair(1.0 + x, y))


def _across(z: Value, w: Value) -> Value:
    """The real part of a product with the first number's conjugate."""
    return complex_parts.real(z) * complex_parts.real(w) + complex_parts.imag(z) * complex_parts.imag(w)


def _inverse(z: Value, angle: Value, length: Value, direction: Value, upright: Value) -> tuple[Value, Value]:
    """The angle and the length of an inverse, as C's Annex G completes them.

    Numbers with an infinite part have the angle of their `direction` and no end, those on the imaginary axis the angle
    `upright`, even where the other part is NaN. Signs of lengths are the caller's.
    """
    x, y = complex_parts.real(z), complex_parts.imag(z)
    endless = (atlas.absolute(x) == math.inf) | (atlas.absolute(y) == math.inf)
    return select(x == 0.0, upright, select(endless, direction, angle)), select(endless, math.inf, length)


def _asinh(z: Value, w: Value) -> Value:
    """The number whose hyperbolic sine is `_across(z, w)`, which may overflow."""
    half = _across(z, w * 0.5)
    far = _with_sign(atlas.log(atlas.absolute(half)) + 2.0 * math.log(2.0), half)
    return select(atlas.absolute(half) > 1e8, far, asinh(half * 2.0))


def _turned_up(z: Value) -> Value:
    """iz, by its parts."""
    return complex_parts.pair(-complex_parts.imag(z), complex_parts.real(z))


def _turned_down(z: Value) -> Value:
    """-iz, by its parts."""
    return complex_parts.pair(complex_parts.imag(z), -complex_parts.real(z))


def _beside_one(x: Value) -> Value:
    """sqrt((1 - x)(1 + x)); of complex numbers root by root, whose branch cuts are those of the inverse."""
    if x.dtype.is_complex:
        low, high = _roots(x)
        return low * high
    # At the ends a factor is 0 and the other's slope infinite: derivatives are read from the square there.
    return atlas.sqrt(select(atlas.absolute(x) == 1.0, 1.0 - x * x, (1.0 - x) * (1.0 + x)))


def _acosh_slope(x: Value) -> Value:
    """1 / (sqrt(x - 1) sqrt(x + 1)); at 1 as a product, whose derivatives are infinite and of one sign."""
    slope = 1.0 / (atlas.sqrt(x - 1.0) * atlas.sqrt(x + 1.0))
    if x.dtype.is_complex:
        return slope
    return select(x == 1.0, atlas.rsqrt(x - 1.0) * atlas.rsqrt(x + 1.0), slope)


def _atanh_slope(x: Value) -> Value:
    """1 / (1 - x^2); of real numbers as a sum, whose derivatives are infinite at the ends, not infinity times 0."""
    if x.dtype.is_complex:
        return 1.0 / ((1.0 - x) * (1.0 + x))
    return 0.5 / (1.0 - x) + 0.5 / (1.0 + x)


@numpy_elementwise(
    types=types.floating, dtypes=INEXACT, samples=unary(-1, 1), ulp=5, looser=(QUOTIENT, POLYNOMIAL), aten=("asin",),
    gradient={"x": holomorphic(lambda cotangent, x: cotangent / _beside_one(x))})  # fmt: skip
def asin(x):
    """The angle in [-pi / 2, pi / 2] whose sine is x; NaN outside [-1, 1]. Of complex numbers the whole plane."""
    if x.dtype.is_complex:
        across, up = complex_parts.real(x), complex_parts.imag(x)
        low, high = _roots(x)
        inside = _angle(across, _across(complex_parts.conjugate(low), high))
        length = _asinh(_turned_up(low), high)
        angle, length = _inverse(x, inside, length, _angle(across, atlas.absolute(up)), across)
        return complex_parts.pair(angle, _with_sign(length, up))
    return _angle(x, atlas.sqrt((1.0 - x) * (1.0 + x)))


@numpy_elementwise(
    types=types.floating, dtypes=INEXACT, samples=unary(-1, 1), ulp=5, looser=(QUOTIENT, POLYNOMIAL), aten=("acos",),
    gradient={"x": holomorphic(lambda cotangent, x: -cotangent / _beside_one(x))})  # fmt: skip
def acos(x):
    """The angle in [0, pi] whose cosine is x; NaN outside [-1, 1]. Of complex numbers the whole plane."""
    if x.dtype.is_complex:
        across, up = complex_parts.real(x), complex_parts.imag(x)
        low, high = _roots(x)
        inside = _angle(complex_parts.real(low), complex_parts.real(high)) * 2.0
        right = across.builder.constant(math.pi / 2, across.dtype)
        length = _asinh(_turned_up(high), low)
        angle, length = _inverse(x, inside, length, _angle(atlas.absolute(up), across), right)
        return complex_parts.pair(angle, _with_sign(length, -up))
    return _angle(atlas.sqrt((1.0 - x) * (1.0 + x)), x)


def _beside_i(x: Value) -> Value:
    """sqrt(1 + x^2)."""
    return _beside_one(_turned_up(x)) if x.dtype.is_complex else atlas.sqrt(1.0 + x * x)


def _cosh_of(x: Value) -> Value:
    return atlas.cos(_turned_up(x)) if x.dtype.is_complex else _cosh(x)


def _cosh(x: Value) -> Value:
    half = atlas.exp(atlas.absolute(x) * 0.5)
    return half * 0.5 * half + 0.5 / half / half


@numpy_elementwise(
    types=types.floating, dtypes=INEXACT, samples=unary(-100, 100), ulp=6, looser=(QUOTIENT, POLYNOMIAL),
    aten=("sinh",), gradient={"x": holomorphic(lambda cotangent, x: cotangent * _cosh_of(x))})  # fmt: skip
def sinh(x):
    """The hyperbolic sine, (exp(x) - exp(-x)) / 2."""
    if x.dtype.is_complex:
        return _turned_down(atlas.sin(_turned_up(x)))
    return _with_sign(_sinh(atlas.absolute(x)), x)


def _sinh(magnitude: Value) -> Value:
    less = atlas.expm1(magnitude)
    half = atlas.exp(magnitude * 0.5)  # its square overflows only where the result does
    return select(magnitude < 20.0, (less + less / (less + 1.0)) * 0.5, half * 0.5 * half)


def _cosh_slope(x: Value) -> Value:
    """sinh without the sign of -0.0, at which magnitudes are differentiated from the right."""
    if x.dtype.is_complex:
        return sinh(x)
    magnitude = _sinh(atlas.absolute(x))
    return select(x < 0.0, -magnitude, magnitude)


@numpy_elementwise(
    types=types.floating, dtypes=INEXACT, samples=unary(-100, 100), ulp=6, looser=(QUOTIENT, POLYNOMIAL),
    aten=("cosh",), gradient={"x": holomorphic(lambda cotangent, x: cotangent * _cosh_slope(x))})  # fmt: skip
def cosh(x):
    """The hyperbolic cosine, (exp(x) + exp(-x)) / 2."""
    return _cosh_of(x)


@numpy_elementwise(
    types=types.floating, dtypes=INEXACT, samples=unary(-50, 50), ulp=5, looser=(QUOTIENT, POLYNOMIAL),
    aten=("asinh",), gradient={"x": holomorphic(lambda cotangent, x: cotangent / _beside_i(x))})  # fmt: skip
def asinh(x):
    """The number whose hyperbolic sine is x."""
    if x.dtype.is_complex:
        return _turned_down(asin(_turned_up(x)))
    y = atlas.absolute(x)
    near = atlas.log1p(y + y * y / (1.0 + atlas.sqrt(y * y + 1.0)))
    return _with_sign(select(y < 1e8, near, atlas.log(y) + math.log(2.0)), x)


@numpy_elementwise(
    types=types.floating, dtypes=INEXACT, samples=unary(1, 50), ulp=5, looser=(QUOTIENT, POLYNOMIAL), aten=("acosh",),
    gradient={"x": holomorphic(lambda cotangent, x: cotangent * _acosh_slope(x))})  # fmt: skip
def acosh(x):
    """The number at least 0 whose hyperbolic cosine is x; NaN below 1. Of complex numbers the whole plane."""
    if x.dtype.is_complex:
        low, high = (
            atlas.sqrt(complex_parts.pair(complex_parts.real(x) + one, complex_parts.imag(x)))
            for one in (-1.0, 1.0)
        )
        across, up = complex_parts.real(x), complex_parts.imag(x)
        inside = _angle(complex_parts.imag(low), complex_parts.real(high)) * 2.0
        right = _with_sign(across.builder.constant(math.pi / 2, across.dtype), up)
        angle, length = _inverse(x, inside, _asinh(low, high), _angle(up, across), right)
        return complex_parts.pair(length, angle)
    above = x - 1.0
    near = atlas.log1p(above + atlas.sqrt(above) * atlas.sqrt(above + 2.0))
    return select(x > 1e8, atlas.log(x) + math.log(2.0), near)


@numpy_elementwise(
    types=types.floating, dtypes=INEXACT, samples=unary(-1, 1), ulp=5, looser=(QUOTIENT, POLYNOMIAL), aten=("atanh",),
    gradient={"x": holomorphic(lambda cotangent, x: cotangent * _atanh_slope(x))})  # fmt: skip
def atanh(x):
    """The number whose hyperbolic tangent is x; infinite at 1 and -1, NaN beyond, but of complex numbers."""
    if x.dtype.is_complex:
        return _turned_down(atlas.atan(_turned_up(x)))
    y = atlas.absolute(x)
    return _with_sign(atlas.log1p(y / (1.0 - y) * 2.0) * 0.5, x)


def direction(z: Value) -> tuple[Value, Value]:
    """The parts of a complex number over its magnitude; 0 at 0."""
    x, y = complex_parts.real(z), complex_parts.imag(z)
    largest = atlas.maximum(atlas.absolute(x), atlas.absolute(y))
    largest = select(largest == 0.0, 1.0, largest)  # so that no square overflows
    across, up = (
        select(
            atlas.absolute(v) == math.inf, _with_sign(largest.builder.constant(1.0, v.dtype), v), v / largest
        )
        for v in (x, y)
    )
    length = atlas.sqrt(across * across + up * up)
    none = length == 0.0
    length = select(none, 1.0, length)
    return select(none, 0.0, across / length), select(none, 0.0, up / length)


def _share(cotangent: Value, side: Value, length: Value) -> Value:
    return select(length == 0.0, 0.0, cotangent * side / length)


@numpy_elementwise(
    types=types.floating, ulp=3, looser=(QUOTIENT, POLYNOMIAL), aten=("hypot",),
    gradient={"x": lambda cotangent, x, result: _share(cotangent, x, result),
              "y": lambda cotangent, y, result: _share(cotangent, y, result)})  # fmt: skip
def hypot(x, y):
    """sqrt(x * x + y * y), without overflow; infinite where either is, even beside NaN."""
    a, b = atlas.absolute(x), atlas.absolute(y)
    larger = a > b  # chosen: of equals an extreme halves each derivative, which is wrong from the second on
    low, high = select(larger, b, a), select(larger, a, b)
    ratio = select(high == 0.0, low, low / high)  # low is 0 there, or NaN
    length = high * atlas.sqrt(1.0 + ratio * ratio)
    return select((a == math.inf) | (b == math.inf), math.inf, length)


_SINE_OVER = tuple((-1) ** k / math.factorial(2 * k + 1) for k in reversed(range(7)))


def sine_over(x: Value, far: Value) -> Value:
    """sin(x) / x: near 0 its series, since derivatives of a quotient cancel there and a guard has none; else `far`."""
    size = atlas.absolute(complex_parts.real(x)) + atlas.absolute(complex_parts.imag(x))
    return select(size < 0.5, polynomial(x * x, _SINE_OVER), far)


@numpy_elementwise(types=types.floating, dtypes=INEXACT, samples=unary(-8, 8, special=False), ulp=4, absolute=1.0,
                   parts_ulp=64, looser=(QUOTIENT, POLYNOMIAL), aten=("sinc",))  # fmt: skip
def sinc(x):
    """sin(pi x) / (pi x), and 1 at 0."""
    turned = x - (atlas.round_(complex_parts.real(x) * 0.5) * 2.0).to(x.dtype)
    return sine_over(x * math.pi, atlas.sin(turned * math.pi) / x * (1.0 / math.pi))


@numpy_elementwise(
    types=types.floating, samples=unary(-99, 99), ulp=2, looser=(QUOTIENT,),
    gradient={"x": lambda cotangent, result: cotangent * (atlas.power(result, -2.0) / 3.0)})  # fmt: skip
def cbrt(x):
    """The cube root, of numbers below 0 as well."""
    size = atlas.absolute(x)
    plain = (size > 0.0) & (size < math.inf)
    inner = select(plain, size, 1.0)
    root = atlas.power(inner, 1.0 / 3.0)
    root = root - (root - inner / (root * root)) / 3.0  # one of Newton's steps
    return _with_sign(select(plain, root, size), x)


def _weight(cotangent, x, y):
    """That of x beside y: exp(x) / (exp(x) + exp(y)), a half where both are infinite alike."""
    alike = _alike(x, y)
    return cotangent / (1.0 + atlas.exp(select(alike, 0.0, y - x)))


def _alike(x, y):
    """Whether the real parts are the same infinity."""
    a, b = complex_parts.real(x), complex_parts.real(y)
    return (a == b) & (atlas.absolute(a) == math.inf)


def log_of_sum(x: Value, y: Value) -> Value:
    """See logaddexp."""
    if x.dtype.is_complex:  # by the real parts; where both are infinite alike there is no other angle
        first = complex_parts.real(x) >= complex_parts.real(y)
        high, low = select(first, x, y), select(first, y, x)
        apart = select(_alike(x, y), 0.0, low - high)
        return high + atlas.log1p(atlas.exp(apart))
    high = atlas.maximum(x, y)
    apart = select(x == y, 0.0, x - y)  # so that equal infinities are 0 apart
    return high + atlas.log1p(atlas.exp(-atlas.absolute(apart)))


def _principal(x: Value, y: Value) -> Value:
    """The logarithm of a sum of exponentials that lies in [-pi, pi]: its angle is that of the sum itself."""
    highest = atlas.maximum(complex_parts.real(x), complex_parts.real(y))
    top = select(atlas.absolute(highest) < math.inf, highest, 0.0).to(x.dtype)
    turned = atlas.log(atlas.exp(x - top) + atlas.exp(y - top))
    return complex_parts.pair(complex_parts.real(log_of_sum(x, y)), complex_parts.imag(turned))


def _logaddexp_reference(x, y, principal=True):
    if not np.iscomplexobj(x) and not np.iscomplexobj(y):
        return np.logaddexp(x, y)
    if principal:
        top = np.maximum(np.real(x), np.real(y))
        return _logaddexp_reference(x, y, principal=False).real + 1j * np.angle(
            np.exp(x - top) + np.exp(y - top)
        )
    first = np.real(x) >= np.real(y)
    high, low = np.where(first, x, y), np.where(first, y, x)
    ratio = np.exp(low - high)
    return (
        high + np.log(np.where(np.abs(ratio) < 1e-8, 1, 1 + ratio)) + np.where(np.abs(ratio) < 1e-8, ratio, 0)
    )


@elementwise(
    types=types.floating, dtypes=INEXACT, ulp=4, absolute=2.0, aten=("logaddexp",), parts_ulp=32,
    aten_defaults={"principal": False},
    samples=lambda rng, d: binary(-50, 50, special=not d.is_complex)(rng, d), reference=_logaddexp_reference,
    gradient={"x": holomorphic(_weight),
              "y": holomorphic(lambda cotangent, x, y: _weight(cotangent, y, x))})  # fmt: skip
def logaddexp(x, y, *, principal=True):
    """log(exp(x) + exp(y)), without overflow.

    Of complex numbers the angle lies in [-pi, pi], or unless `principal` as far from the real axis as the larger one
    is, which is PyTorch's.
    """
    return _principal(x, y) if principal and x.dtype.is_complex else log_of_sum(x, y)


def _full_width(who: str, operands: Sequence[types.OperandType]) -> types.Types:
    """f32 and f64 alone: narrower floats are computed in f32, which has other neighbours."""
    dtype = types.promoted(operands)
    if dtype not in (dtypes.f32, dtypes.f64):
        raise UnsupportedDType(f"{who}: dtype must be f32 or f64, got {dtype}")
    return types.same(who, operands)


@elementwise(types=_full_width, dtypes=(dtypes.f32, dtypes.f64), reference=np.nextafter, widened=False,
             samples=binary(number=None), gradient={"x": lambda cotangent: cotangent, "y": None},
             aten=("nextafter",))  # fmt: skip
def nextafter(x, y):
    """The next number of the dtype after x in the direction of y."""
    wide = x.dtype.signed
    bits = x.bitcast(wide)
    lowest = select(_negative(y), wide.lowest + 1, bits.builder.constant(1, wide))  # beside 0
    grows = ((y > x).to(dtypes.u32) == (x > 0.0).to(dtypes.u32)).to(wide)
    moved = select(x == 0.0, lowest, bits + (grows + grows - 1)).bitcast(x.dtype)
    return select((x != x) | (y != y), x + y, select(x == y, y, moved))
