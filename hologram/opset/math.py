"""Element-wise arithmetic, rounding and functions of one number. Names are those of the array API."""

from __future__ import annotations

import math

import numpy as np

from hologram.atlas import complex_parts
from hologram.atlas import functions as atlas
from hologram.atlas.builder import Value
from hologram.atlas.functions import select
from hologram.foundation import dtypes
from hologram.foundation.dtypes import COMPLEX, COMPUTED, INEXACT, NUMBERS
from hologram.opset import functions
from hologram.opset.forms import types
from hologram.opset.forms.accuracy import POLYNOMIAL, QUOTIENT
from hologram.opset.forms.holomorphic import holomorphic
from hologram.opset.forms.map import elementwise
from hologram.opset.forms.numpy_elementwise import numpy_elementwise
from hologram.opset.forms.samples import binary, ternary, unary


@numpy_elementwise(
    types=types.same,
    dtypes=COMPUTED + COMPLEX,
    ulp=0.5,
    aten=("add.Tensor",),
    out_names=("vector_add", "scalar_add"),
)
def add(x, y):
    """x + y; of bools, whether either is true."""
    return x | y if x.dtype.kind == "bool" else x + y


@numpy_elementwise(
    types=types.number,
    dtypes=NUMBERS + COMPLEX,
    ulp=0.5,
    aten=("sub.Tensor",),
    out_names=("vector_sub", "scalar_sub"),
)
def subtract(x, y):
    """x - y."""
    return x - y


@numpy_elementwise(
    types=types.same,
    dtypes=COMPUTED + COMPLEX,
    ulp=0.5,
    aten=("mul.Tensor",),
    out_names=("vector_mul", "scalar_mul"),
)
def multiply(x, y):
    """x * y; of bools, whether both are true."""
    return x & y if x.dtype.kind == "bool" else x * y


@numpy_elementwise(
    types=types.floating,
    dtypes=NUMBERS + COMPLEX,
    ulp=0.5,
    looser=(QUOTIENT,),
    aten=("div.Tensor",),
    out_names=("vector_div", "scalar_div"),
)
def divide(x, y):
    """x / y; integers are divided as f32."""
    return x / y


def _floor_divide_reference(x, y):
    with np.errstate(all="ignore"):
        return np.floor_divide(x, y)


@elementwise(types=types.number, dtypes=NUMBERS, reference=_floor_divide_reference, samples=binary(), ulp=0.5,
             looser=(QUOTIENT,), gradient={"x": None, "y": None}, aten=("floor_divide",))  # fmt: skip
def floor_divide(x, y):
    """The largest integer not above x / y, as in NumPy: of integers 0 where y is 0, of an infinite x NaN."""
    if not x.dtype.is_float:
        quotient, left = x // y, x % y
        if not x.dtype.is_signed:
            return quotient
        return quotient - ((left != 0) & ((left ^ y) < 0)).to(x.dtype)
    left = x % y
    exact = (x - left) / y
    exact = select(_beyond(left, y), exact - 1.0, exact)
    low = atlas.floor(exact)
    low = select(exact - low > 0.5, low + 1.0, low)
    return select((x == 0.0) | (y == 0.0), x / y, select(low == 0.0, 0.0, low))


def _beyond(left: Value, y: Value) -> Value:
    """Whether the truncated quotient, whose remainder is `left`, lies above x / y."""
    return (left != 0.0) & ((left < 0.0) != (y < 0.0)).to(dtypes.bool_)


@numpy_elementwise(
    types=types.number, dtypes=NUMBERS, ulp=0.5, aten=("remainder.Tensor",), out_names=("vector_remainder",),
    gradient={"x": lambda cotangent, x, y: cotangent,  # at multiples of y too, whose zeros are chosen
              # Rounded once more, as quotients of 0 are none of a floor.
              "y": lambda cotangent, x, y: -cotangent * atlas.floor(floor_divide(x, y))})  # fmt: skip
def remainder(x, y):
    """x - y * floor(x / y): the sign of y; for integers 0 where y is 0."""
    left = x % y
    if not x.dtype.is_signed:
        return left
    if not x.dtype.is_float:
        return select((left != 0) & ((left ^ y) < 0), left + y, left)
    zero = select(y < 0.0, -0.0, atlas.absolute(left))
    return select(_beyond(left, y), left + y, select(left == 0.0, zero, left))


@numpy_elementwise(types=types.number, dtypes=NUMBERS, ulp=0.5, aten=("fmod.Tensor",))
def fmod(x, y):
    """The remainder of the division that truncates: the sign of x; for integers 0 where y is 0."""
    return x % y


@numpy_elementwise(types=types.same, dtypes=COMPUTED, aten=("minimum",), out_names=("vector_min",))
def minimum(x, y):
    """The smaller; NaN if either is."""
    return x & y if x.dtype.kind == "bool" else atlas.minimum(x, y)


@numpy_elementwise(types=types.same, dtypes=COMPUTED, aten=("maximum",), out_names=("vector_max",))
def maximum(x, y):
    """The larger; NaN if either is."""
    return x | y if x.dtype.kind == "bool" else atlas.maximum(x, y)


def signed(cotangent, x):
    """The cotangent of a magnitude as that of the number; 0 at 0, where there is no derivative."""
    if x.dtype.is_complex:
        across, up = functions.direction(x)
        return complex_parts.pair(cotangent * across, cotangent * up)
    return select(x > 0.0, cotangent, select(x < 0.0, -cotangent, select(x == 0.0, 0.0, x)))


@numpy_elementwise(
    types=types.magnitude, dtypes=NUMBERS + COMPLEX, aten=("abs",), out_names=("vector_abs",), parts_ulp=4,
    gradient={"x": signed})  # fmt: skip
def abs_(x):
    """The magnitude; the lowest integer stays itself."""
    if x.dtype.is_complex:
        return functions.hypot(complex_parts.real(x), complex_parts.imag(x))
    return atlas.absolute(x) if x.dtype.is_signed else x


@numpy_elementwise(types=types.number, dtypes=NUMBERS + COMPLEX, aten=("neg",), out_names=("vector_neg",))
def negative(x):
    """-x; unsigned integers wrap."""
    return -x


@numpy_elementwise(types=types.number, dtypes=NUMBERS + COMPLEX, aten=("positive",))
def positive(x):
    """x, copied."""
    return x


def _across(cotangent, x, result):
    """Of real numbers 0; of a complex one what turns it, over its magnitude."""
    if not x.dtype.is_complex:
        return None
    along = complex_parts.real(cotangent) * complex_parts.real(result) + complex_parts.imag(
        cotangent
    ) * complex_parts.imag(result)
    magnitude = functions.hypot(complex_parts.real(x), complex_parts.imag(x))
    return select(x == 0.0, 0.0, (cotangent - result * along.to(x.dtype)) / magnitude.to(x.dtype))


def _sign_reference(x):
    """NumPy's is wrong where the magnitude overflows, and has no direction of infinities."""
    if not np.iscomplexobj(x):
        return np.sign(x)
    parts = np.stack([x.real, x.imag])
    parts = np.where(
        np.isinf(parts), np.sign(parts), np.where(np.isinf(parts).any(axis=0) & (parts == parts), 0, parts)
    )
    largest = np.max(np.abs(parts), axis=0)
    across, up = parts / np.where(largest == 0, 1, largest)
    return (across + 1j * up) / np.where(largest == 0, 1, np.hypot(across, up))


@elementwise(types=types.number, dtypes=NUMBERS + COMPLEX, parts_ulp=4, gradient={"x": _across}, samples=unary(),
             reference=_sign_reference)  # fmt: skip
def sign(x):
    """-1, 0 or 1; NaN stays NaN, -0.0 gives 0.0. Of a complex number it over its magnitude, of 0 0."""
    if x.dtype.is_complex:
        return complex_parts.pair(*(select(x == 0.0, 0.0, part) for part in functions.direction(x)))
    if not x.dtype.is_signed:
        return select(x > 0, 1, x)
    return select(x > 0, 1, select(x < 0, -1, select(x == 0, 0, x)))


@numpy_elementwise(types=types.number, dtypes=NUMBERS + COMPLEX, ulp=0.5, aten=("square",))
def square(x):
    """x * x."""
    return x * x


def _reciprocal_reference(x):
    """NumPy's overflows on the way for the largest complex numbers."""
    finite = np.isfinite(x) & np.iscomplexobj(x)
    return np.where(finite, np.reciprocal(np.where(finite, x, 1) * 0.25) * 0.25, np.reciprocal(x))


@elementwise(
    types=types.floating, dtypes=INEXACT, ulp=0.5, looser=(QUOTIENT,), aten=("reciprocal",), samples=unary(),
    reference=_reciprocal_reference,
    gradient={"x": holomorphic(lambda cotangent, result: -cotangent * result * result)})  # fmt: skip
def reciprocal(x):
    """1 / x."""
    return 1.0 / x


@elementwise(types=types.number, dtypes=NUMBERS, reference=lambda x, y, z: x * y + z, samples=ternary(special=False),
             ulp=0.5, absolute=64.0, out_names=("vector_mad",))  # fmt: skip
def mad(x, y, z):
    """x * y + z, rounded once or twice."""
    return atlas.mad(x, y, z)


def _clip_reference(x, low, high):
    x = x if low is None else np.maximum(x, np.asarray(low, np.asarray(x).dtype))
    return x if high is None else np.minimum(x, np.asarray(high, np.asarray(x).dtype))


def _clip_samples(rng, dtype):
    from_binary = binary()(rng, dtype)
    for sample in from_binary:
        x = sample.operands[0]
        yield type(sample)((x, 1, 3))
        yield type(sample)((x, x[::-1] if x.ndim else x, np.full(x.shape, 2, x.dtype)))
        yield type(sample)((x, None, 2))
        yield type(sample)((x, 2, None))


def _clip_inside(cotangent, x, min, max):
    """Elements at a bound count as inside, as in PyTorch."""
    inside = x == x if min is None else x >= min
    return select(inside if max is None else inside & (x <= max), cotangent, 0.0)


def _clip_below(cotangent, x, min, max):
    below = x < min
    return select(below if max is None else below & (min < max), cotangent, 0.0)


def _clip_above(cotangent, x, min, max):
    above = x > max
    return select(above if min is None else above | (max < min), cotangent, 0.0)


@elementwise(types=types.number, dtypes=NUMBERS, reference=_clip_reference, samples=_clip_samples,
             gradient={"x": _clip_inside, "min": _clip_below, "max": _clip_above},
             aten=("clamp", "clamp.Tensor"), out_names=("vector_clip",))  # fmt: skip
def clip(x, min=None, max=None):
    """x held between `min` and `max`, either of which may be missing."""
    x = x if min is None else atlas.maximum(x, min)
    return x if max is None else atlas.minimum(x, max)


# Functions.


@numpy_elementwise(
    types=types.floating, dtypes=NUMBERS + COMPLEX, ulp=0.5, looser=(QUOTIENT,), aten=("sqrt",)
)
def sqrt(x):
    """The square root; NaN below 0."""
    return atlas.sqrt(x)


@elementwise(types=types.floating, dtypes=INEXACT, reference=lambda x: 1 / np.sqrt(x), ulp=2, aten=("rsqrt",),
             samples=lambda rng, d: unary(special=not d.is_complex)(rng, d), looser=(POLYNOMIAL,))  # fmt: skip
def rsqrt(x):
    """1 / sqrt(x)."""
    if x.dtype.is_complex:
        return 1.0 / atlas.sqrt(x)
    return atlas.rsqrt(x)


@numpy_elementwise(
    types=types.floating, dtypes=NUMBERS + COMPLEX, samples=unary(-80, 80), ulp=2, aten=("exp",),
    looser=(POLYNOMIAL,))  # fmt: skip
def exp(x):
    """e to the power x."""
    return atlas.exp(x)


@numpy_elementwise(
    types=types.floating, dtypes=INEXACT, ulp=2, aten=("exp2",), looser=(POLYNOMIAL,), parts_ulp=100,
    samples=lambda rng, d: unary(-80, 80, special=not d.is_complex)(rng, d))  # fmt: skip
def exp2(x):
    """2 to the power x."""
    return atlas.exp2(x)


@numpy_elementwise(types=types.floating, dtypes=INEXACT, samples=unary(-30, 30), ulp=3, aten=("expm1",))
def expm1(x):
    """exp(x) - 1, exact near 0."""
    return atlas.expm1(x)


@numpy_elementwise(
    types=types.floating, dtypes=INEXACT, samples=unary(0, 99), ulp=2, aten=("log",), looser=(POLYNOMIAL,)
)
def log(x):
    """The natural logarithm; NaN below 0, minus infinity at 0."""
    return atlas.log(x)


@numpy_elementwise(
    types=types.floating, dtypes=INEXACT, samples=unary(0, 99), ulp=2, aten=("log2",), looser=(POLYNOMIAL,)
)
def log2(x):
    """The logarithm to base 2."""
    return atlas.log2(x)


@numpy_elementwise(
    types=types.floating, dtypes=INEXACT, samples=unary(0, 99), ulp=3, aten=("log10",), looser=(POLYNOMIAL,)
)
def log10(x):
    """The logarithm to base 10."""
    return atlas.log(x) * (1.0 / math.log(10.0))


def _log1p_reference(x):
    """NumPy's overflows for large complex numbers."""
    return np.where(np.abs(x) < 0.5, np.log1p(x), np.log(1 + x)) if np.iscomplexobj(x) else np.log1p(x)


@elementwise(types=types.floating, dtypes=INEXACT, samples=unary(-0.99, 30), ulp=3, aten=("log1p",),
             reference=_log1p_reference)  # fmt: skip
def log1p(x):
    """log(1 + x), exact near 0."""
    return atlas.log1p(x)


@numpy_elementwise(
    types=types.floating, dtypes=INEXACT, samples=unary(-50, 50), ulp=2, aten=("sin",), looser=(POLYNOMIAL,)
)
def sin(x):
    """The sine of x radians."""
    return atlas.sin(x)


@numpy_elementwise(
    types=types.floating, dtypes=INEXACT, samples=unary(-50, 50), ulp=2, aten=("cos",), looser=(POLYNOMIAL,)
)
def cos(x):
    """The cosine of x radians."""
    return atlas.cos(x)


@numpy_elementwise(
    types=types.floating, dtypes=INEXACT, samples=unary(-50, 50), ulp=3, aten=("tan",), looser=(QUOTIENT,)
)
def tan(x):
    """The tangent of x radians."""
    return atlas.tan(x)


@numpy_elementwise(types=types.floating, dtypes=INEXACT, ulp=3, aten=("atan",), looser=(POLYNOMIAL,))
def atan(x):
    """The angle in radians whose tangent is x."""
    return atlas.atan(x)


def _erf_reference(x):
    return np.vectorize(math.erf, otypes=[np.float64])(x) if np.size(x) else np.asarray(x, np.float64)


@elementwise(types=types.floating, reference=_erf_reference, samples=unary(-5, 5), ulp=3, aten=("erf",))
def erf(x):
    """The error function, 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x."""
    return atlas.erf(x)
