"""Hyperbolic functions, and the inverses of these and of the trigonometric ones. Names are those of the array API."""

from __future__ import annotations

import math

from hologram.atlas import complex_parts
from hologram.atlas import functions as atlas
from hologram.atlas.builder import Value
from hologram.atlas.functions import select
from hologram.foundation.dtypes import INEXACT
from hologram.opset.forms import types
from hologram.opset.forms.accuracy import POLYNOMIAL, QUOTIENT
from hologram.opset.forms.holomorphic import holomorphic
from hologram.opset.forms.numpy_elementwise import numpy_elementwise
from hologram.opset.forms.samples import unary
from hologram.opset.functions import angle_of, with_sign

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
    far = with_sign(atlas.log(atlas.absolute(half)) + 2.0 * math.log(2.0), half)
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
        inside = angle_of(across, _across(complex_parts.conjugate(low), high))
        length = _asinh(_turned_up(low), high)
        angle, length = _inverse(x, inside, length, angle_of(across, atlas.absolute(up)), across)
        return complex_parts.pair(angle, with_sign(length, up))
    return angle_of(x, atlas.sqrt((1.0 - x) * (1.0 + x)))


@numpy_elementwise(
    types=types.floating, dtypes=INEXACT, samples=unary(-1, 1), ulp=5, looser=(QUOTIENT, POLYNOMIAL), aten=("acos",),
    gradient={"x": holomorphic(lambda cotangent, x: -cotangent / _beside_one(x))})  # fmt: skip
def acos(x):
    """The angle in [0, pi] whose cosine is x; NaN outside [-1, 1]. Of complex numbers the whole plane."""
    if x.dtype.is_complex:
        across, up = complex_parts.real(x), complex_parts.imag(x)
        low, high = _roots(x)
        inside = angle_of(complex_parts.real(low), complex_parts.real(high)) * 2.0
        right = across.builder.constant(math.pi / 2, across.dtype)
        length = _asinh(_turned_up(high), low)
        angle, length = _inverse(x, inside, length, angle_of(atlas.absolute(up), across), right)
        return complex_parts.pair(angle, with_sign(length, -up))
    return angle_of(atlas.sqrt((1.0 - x) * (1.0 + x)), x)


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
    return with_sign(_sinh(atlas.absolute(x)), x)


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
    return with_sign(select(y < 1e8, near, atlas.log(y) + math.log(2.0)), x)


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
        inside = angle_of(complex_parts.imag(low), complex_parts.real(high)) * 2.0
        right = with_sign(across.builder.constant(math.pi / 2, across.dtype), up)
        angle, length = _inverse(x, inside, _asinh(low, high), angle_of(up, across), right)
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
    return with_sign(atlas.log1p(y / (1.0 - y) * 2.0) * 0.5, x)
