"""Complex numbers: parts, angles, conjugates. Names are those of the array API, and of PyTorch where that has none."""

from __future__ import annotations

import numpy as np

from hologram.atlas import complex_parts
from hologram.atlas import functions as atlas
from hologram.atlas.builder import Value
from hologram.atlas.functions import select
from hologram.foundation.dtypes import COMPLEX, FLOATS, NUMBERS
from hologram.opset import functions, movement
from hologram.opset.forms import types
from hologram.opset.forms.accuracy import POLYNOMIAL, QUOTIENT
from hologram.opset.forms.composite import composite
from hologram.opset.forms.map import elementwise
from hologram.opset.forms.numpy_elementwise import numpy_elementwise
from hologram.opset.forms.operation import Sample
from hologram.opset.forms.samples import binary, cases, unary

# What a Tensor's `real` and `imag` see without a copy; in functions that are traced these operations give it.


@numpy_elementwise(types=types.magnitude, dtypes=NUMBERS + COMPLEX, methods=False)
def real(x):
    """The real part, copied; of a real number itself."""
    return complex_parts.real(x)


@numpy_elementwise(types=types.magnitude, dtypes=NUMBERS + COMPLEX, methods=False)
def imag(x):
    """The imaginary part, copied; of a real number 0."""
    return complex_parts.imag(x)


@numpy_elementwise(types=types.number, dtypes=NUMBERS + COMPLEX, aten=("_conj_physical", "conj_physical"))
def conj(x):
    """The complex conjugate; of a real number itself."""
    return complex_parts.conjugate(x)


def _joined(real, imag):
    """Part by part: infinity times 1j has NaN for a real part."""
    real, imag = np.broadcast_arrays(real, imag)
    z = np.empty(real.shape, np.result_type(real, imag, np.complex64))
    z.real, z.imag = real, imag
    return z


@elementwise(types=types.parts, dtypes=FLOATS, reference=_joined, samples=binary(special=False), methods=False,
             complex_results=True, aten=("complex",))  # fmt: skip
def complex_(real, imag):
    """The complex number of a real and an imaginary part; of floats narrower than f32 as f32."""
    return complex_parts.pair(real, imag)


@elementwise(types=types.parts, dtypes=FLOATS, samples=binary(-9, 9, special=False), methods=False, ulp=4,
             reference=lambda abs, angle: _joined(abs * np.cos(angle), abs * np.sin(angle)), looser=(POLYNOMIAL,),
             complex_results=True, aten=("polar",))  # fmt: skip
def polar(abs, angle):
    """The complex number of a magnitude and an angle in radians."""
    return complex_parts.pair(abs * atlas.cos(angle), abs * atlas.sin(angle))


def _turned(cotangent, x, deg):
    """Across the direction of the number, over its magnitude; 0 at 0, and of real numbers."""
    if not x.dtype.is_complex:
        return None
    cotangent = cotangent * (180 / np.pi) if deg else cotangent
    across, up = complex_parts.real(x), complex_parts.imag(x)
    length = functions.hypot(across, up)
    away = select(length == 0.0, 0.0, cotangent / length)
    length = select(length == 0.0, 1.0, length)
    return complex_parts.pair(-away * (up / length), away * (across / length))


def _angle_samples(rng, dtype):
    yield from unary()(rng, dtype)
    for sample in unary(special=False)(rng, dtype):  # degrees of angles that a dtype holds
        yield Sample(sample.operands, {"deg": True})


@elementwise(types=types.angular, dtypes=FLOATS + COMPLEX, ulp=4, looser=(QUOTIENT,), aten=("angle",),
             reference=lambda x, deg=False: np.angle(x, deg), samples=_angle_samples,
             gradient={"x": _turned})  # fmt: skip
def angle(x, *, deg=False):
    """The angle in radians, in [-pi, pi], or in degrees; of a real number 0 or pi, by its sign."""
    return angle_of(x) * (180 / np.pi) if deg else angle_of(x)


def angle_of(x: Value) -> Value:
    """See angle."""
    if x.dtype.is_complex:
        return functions.atan2(complex_parts.imag(x), complex_parts.real(x))
    return select(x == x, select(functions.signbit(x), np.pi, x.builder.constant(0.0, x.dtype)), x)


_PAIRS = cases(((5, 2), {}), ((2,), {}), ((3, 0, 2), {}), ((2, 3, 2), {}))


@composite(dtypes=COMPLEX, methods=False, samples=unary(),
           reference=lambda x: np.stack([x.real, x.imag], axis=-1))  # fmt: skip
def view_as_real(x):
    """The parts of complex numbers along a new last axis of size 2, without a copy (with one in a traced function)."""
    return x._pairs()


@composite(dtypes=tuple(d.part for d in COMPLEX), methods=False, samples=_PAIRS,
           reference=lambda x: x[..., 0] + 1j * x[..., 1])  # fmt: skip
def view_as_complex(x):
    """The complex numbers whose parts lie side by side along the last axis, of size 2; without a copy, where they do.

    Parts that lie otherwise, and those of a traced function, are copied.
    """
    return x._joined()


def conjugated(x):
    """The conjugate of a tensor, for rules of derivatives: a real one itself, and nothing runs."""
    return conj(x) if x.dtype.is_complex else x


def pairs(x):
    """view_as_real by operations."""
    return movement.stack([real(x), imag(x)], axis=-1)


def joined(x):
    """view_as_complex by an operation."""
    return complex_(x.select(-1, 0), x.select(-1, 1))
