"""Functions of signs, of angles and of two numbers. Names are those of the array API."""

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


def with_sign(x: Value, y: Value) -> Value:
    """The magnitude of x with the sign of y."""
    magnitude = atlas.absolute(x)
    return select(_negative(y), -magnitude, magnitude)


def _turned_sign(cotangent, x, y):
    """The cotangent of x with another sign; 0 at 0, as in PyTorch."""
    return select(x == 0.0, 0.0, select(_negative(x) == _negative(y), cotangent, -cotangent))


@numpy_elementwise(types=types.floating, aten=("copysign.Tensor",), gradient={"x": _turned_sign})
def copysign(x, y):
    """The magnitude of x with the sign of y."""
    return with_sign(x, y)


@numpy_elementwise(types=types.predicate, aten=("signbit",))
def signbit(x):
    """Whether x is negative or -0.0."""
    return _negative(x)


def angle_of(y: Value, x: Value) -> Value:
    """atan2: the quotient of the smaller by the larger magnitude, then the octant."""
    across, up = atlas.absolute(x), atlas.absolute(y)
    low, high = atlas.minimum(across, up), atlas.maximum(across, up)
    quotient = select(low == high, 1.0, low / high)  # infinities are equal too
    angle = atlas.atan(select(high == 0.0, high, quotient))
    angle = select(up > across, math.pi / 2 - angle, angle)
    angle = select(_negative(x), math.pi - angle, angle)
    return with_sign(select((x != x) | (y != y), x + y, angle), y)


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
    return angle_of(y, x)


def direction(z: Value) -> tuple[Value, Value]:
    """The parts of a complex number over its magnitude; 0 at 0."""
    x, y = complex_parts.real(z), complex_parts.imag(z)
    largest = atlas.maximum(atlas.absolute(x), atlas.absolute(y))
    largest = select(largest == 0.0, 1.0, largest)  # so that no square overflows
    across, up = (
        select(
            atlas.absolute(v) == math.inf, with_sign(largest.builder.constant(1.0, v.dtype), v), v / largest
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
    return with_sign(select(plain, root, size), x)


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
