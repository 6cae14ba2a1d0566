"""Element-wise arithmetic, rounding and functions of one number. Names are those of the array API."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hologram.atlas import builder as atlas
from hologram.atlas.builder import Value, select
from hologram.foundation import dtypes
from hologram.foundation.dtypes import COMPUTED, NUMBERS, DType, Number
from hologram.foundation.frozen import frozen
from hologram.machine.layout import Layout
from hologram.opset.forms import types
from hologram.opset.forms.accuracy import POLYNOMIAL, QUOTIENT
from hologram.opset.forms.map import Elementwise, elementwise
from hologram.opset.forms.numpy_elementwise import numpy_elementwise
from hologram.opset.forms.operation import Attributes, Inputs
from hologram.opset.forms.samples import binary, ternary, unary


@numpy_elementwise(
    types=types.same, dtypes=COMPUTED, ulp=0.5, aten=("add.Tensor",), out_names=("vector_add", "scalar_add")
)
def add(x, y):
    """x + y; of bools, whether either is true."""
    return x | y if x.dtype.kind == "bool" else x + y


@numpy_elementwise(
    types=types.number, dtypes=NUMBERS, ulp=0.5, aten=("sub.Tensor",), out_names=("vector_sub", "scalar_sub")
)
def subtract(x, y):
    """x - y."""
    return x - y


@numpy_elementwise(
    types=types.same, dtypes=COMPUTED, ulp=0.5, aten=("mul.Tensor",), out_names=("vector_mul", "scalar_mul")
)
def multiply(x, y):
    """x * y; of bools, whether both are true."""
    return x & y if x.dtype.kind == "bool" else x * y


@numpy_elementwise(
    types=types.floating,
    dtypes=NUMBERS,
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
             gradient={"x": None, "y": None},
             aten=("floor_divide",))  # fmt: skip
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
              "y": lambda cotangent, x, y: -cotangent * floor_divide(x, y)})  # fmt: skip
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


def _pow_reference(x, y):
    if np.asarray(x).dtype.kind in "iu":
        base, exponent = np.broadcast_arrays(x, y)
        kept = np.power(base, np.where(exponent < 0, 0, exponent).astype(base.dtype))
        inverse = np.where(base == 1, 1, np.where(base == -1, np.where(exponent % 2, -1, 1), 0)).astype(
            base.dtype
        )
        return np.where(exponent < 0, inverse, kept)
    return np.power(x, y)


def _refuse_negative(x: Any, exponent: Any) -> None:
    """Raises ValueError for integers to the power of a negative integer that is a number, as NumPy does."""
    dtype = getattr(x, "dtype", None)
    if type(exponent) is int and exponent < 0 and isinstance(dtype, DType) and dtype.is_integer:
        raise ValueError(
            f"pow: Integers to negative integer powers are not allowed, got {dtype} to the {exponent}"
        )


@frozen(eq=False, repr=False)
class Power(Elementwise):
    """Kernels know exponents that products, roots and quotients make: a thirtieth of the cost of a general power."""

    @property
    def hands_numbers_on(self) -> bool:
        return False

    def writes(self, name: str, number: Number) -> bool:
        return name == "y" and abs(number) <= 64 and (number == int(number) or number in (-0.5, 0.5, 1.5))

    def infer(self, inputs: Inputs, attributes: Attributes) -> tuple[Layout, ...]:
        if self is pow_:  # its derivatives are of this form too
            _refuse_negative(*inputs)
        return super().infer(inputs, attributes)


@numpy_elementwise(
    Power, types=types.number, dtypes=NUMBERS, reference=_pow_reference, samples=binary(-4, 9, second=(-3, 7)),
    ulp=2, looser=(QUOTIENT,), aten=("pow.Tensor_Tensor", "pow.Tensor_Scalar"), out_names=("vector_pow",))  # fmt: skip
def pow_(x, y):
    """x to the power y. Integers wrap.

    A negative integer number as the exponent of integers raises ValueError; in a tensor it gives 0 unless x is 1 or -1.
    """
    return atlas.power(x, y)


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
    return select(x > 0.0, cotangent, select(x < 0.0, -cotangent, select(x == 0.0, 0.0, x)))


@numpy_elementwise(
    types=types.number, dtypes=NUMBERS, aten=("abs",), out_names=("vector_abs",), gradient={"x": signed}
)
def abs_(x):
    """The magnitude; the lowest integer stays itself."""
    return atlas.absolute(x) if x.dtype.is_signed else x


@numpy_elementwise(types=types.number, dtypes=NUMBERS, aten=("neg",), out_names=("vector_neg",))
def negative(x):
    """-x; unsigned integers wrap."""
    return -x


@numpy_elementwise(types=types.number, dtypes=NUMBERS, aten=("positive",))
def positive(x):
    """x, copied."""
    return x


@numpy_elementwise(
    types=types.number, dtypes=NUMBERS,
    gradient={"x": None})  # fmt: skip
def sign(x):
    """-1, 0 or 1; NaN stays NaN, -0.0 gives 0.0."""
    if not x.dtype.is_signed:
        return select(x > 0, 1, x)
    return select(x > 0, 1, select(x < 0, -1, select(x == 0, 0, x)))


@numpy_elementwise(types=types.number, dtypes=NUMBERS, ulp=0.5, aten=("square",))
def square(x):
    """x * x."""
    return x * x


@numpy_elementwise(
    types=types.floating, ulp=0.5, looser=(QUOTIENT,), aten=("reciprocal",),
    gradient={"x": lambda cotangent, result: -cotangent * result * result})  # fmt: skip
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


# Rounding.


def _rounding(function):
    return lambda x: x if np.asarray(x).dtype.kind in "iu" else function(x)


@elementwise(
    types=types.number, dtypes=NUMBERS, reference=_rounding(np.floor), samples=unary(), aten=("floor",)
)
def floor(x):
    """The largest integer not above x."""
    return atlas.floor(x) if x.dtype.is_float else x


@elementwise(
    types=types.number, dtypes=NUMBERS, reference=_rounding(np.ceil), samples=unary(), aten=("ceil",)
)
def ceil(x):
    """The smallest integer not below x."""
    return atlas.ceil(x) if x.dtype.is_float else x


@elementwise(
    types=types.number, dtypes=NUMBERS, reference=_rounding(np.trunc), samples=unary(), aten=("trunc",)
)
def trunc(x):
    """The integer part."""
    return atlas.trunc(x) if x.dtype.is_float else x


# Functions.


@numpy_elementwise(types=types.floating, dtypes=NUMBERS, ulp=0.5, looser=(QUOTIENT,), aten=("sqrt",))
def sqrt(x):
    """The square root; NaN below 0."""
    return atlas.sqrt(x)


@elementwise(types=types.floating, reference=lambda x: 1 / np.sqrt(x), samples=unary(), ulp=2, aten=("rsqrt",),
             looser=(POLYNOMIAL,))  # fmt: skip
def rsqrt(x):
    """1 / sqrt(x)."""
    return atlas.rsqrt(x)


@numpy_elementwise(
    types=types.floating, dtypes=NUMBERS, samples=unary(-80, 80), ulp=2, aten=("exp",),
    looser=(POLYNOMIAL,))  # fmt: skip
def exp(x):
    """e to the power x."""
    return atlas.exp(x)


@numpy_elementwise(types=types.floating, samples=unary(-80, 80), ulp=2, aten=("exp2",), looser=(POLYNOMIAL,))
def exp2(x):
    """2 to the power x."""
    return atlas.exp2(x)


@numpy_elementwise(types=types.floating, samples=unary(-30, 30), ulp=3, aten=("expm1",))
def expm1(x):
    """exp(x) - 1, exact near 0."""
    return atlas.expm1(x)


@numpy_elementwise(types=types.floating, samples=unary(0, 99), ulp=2, aten=("log",), looser=(POLYNOMIAL,))
def log(x):
    """The natural logarithm; NaN below 0, minus infinity at 0."""
    return atlas.log(x)


@numpy_elementwise(types=types.floating, samples=unary(0, 99), ulp=2, aten=("log2",), looser=(POLYNOMIAL,))
def log2(x):
    """The logarithm to base 2."""
    return atlas.log2(x)


@numpy_elementwise(types=types.floating, samples=unary(0, 99), ulp=3, aten=("log10",), looser=(POLYNOMIAL,))
def log10(x):
    """The logarithm to base 10."""
    return atlas.log(x) * (1.0 / math.log(10.0))


@numpy_elementwise(types=types.floating, samples=unary(-0.99, 30), ulp=3, aten=("log1p",))
def log1p(x):
    """log(1 + x), exact near 0."""
    return atlas.log1p(x)


@numpy_elementwise(types=types.floating, samples=unary(-50, 50), ulp=2, aten=("sin",), looser=(POLYNOMIAL,))
def sin(x):
    """The sine of x radians."""
    return atlas.sin(x)


@numpy_elementwise(types=types.floating, samples=unary(-50, 50), ulp=2, aten=("cos",), looser=(POLYNOMIAL,))
def cos(x):
    """The cosine of x radians."""
    return atlas.cos(x)


@numpy_elementwise(types=types.floating, samples=unary(-50, 50), ulp=3, aten=("tan",), looser=(QUOTIENT,))
def tan(x):
    """The tangent of x radians."""
    return atlas.tan(x)


@numpy_elementwise(types=types.floating, ulp=3, aten=("atan",), looser=(POLYNOMIAL,))
def atan(x):
    """The angle in radians whose tangent is x."""
    return atlas.atan(x)


def _erf_reference(x):
    return np.vectorize(math.erf, otypes=[np.float64])(x) if np.size(x) else np.asarray(x, np.float64)


@elementwise(types=types.floating, reference=_erf_reference, samples=unary(-5, 5), ulp=3, aten=("erf",))
def erf(x):
    """The error function, 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x."""
    return atlas.erf(x)
