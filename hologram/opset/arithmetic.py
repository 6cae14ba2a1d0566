"""Arithmetic beyond the array API's: other roundings of quotients, extremes that pass NaN over, common divisors."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from hologram.atlas import complex_parts
from hologram.atlas import functions as atlas
from hologram.atlas.builder import Value
from hologram.atlas.functions import select
from hologram.foundation import dtypes
from hologram.foundation.dtypes import COMPLEX, COMPUTED, FLOATS, INTEGERS, NUMBERS, DType
from hologram.opset.forms import types
from hologram.opset.forms.accuracy import QUOTIENT
from hologram.opset.forms.map import elementwise
from hologram.opset.forms.numpy_elementwise import numpy_elementwise
from hologram.opset.forms.operation import Sample
from hologram.opset.forms.samples import binary, unary


def _truncated(x, y):
    if np.asarray(x).dtype.kind in "iu":
        y = np.asarray(y, np.asarray(x).dtype)
        safe = np.where(y == 0, 1, y)
        quotient = np.abs(x.astype(np.float64)) // np.abs(safe.astype(np.float64))
        return np.where(
            y == 0, 0, np.sign(x.astype(np.float64)) * np.sign(safe.astype(np.float64)) * quotient
        ).astype(x.dtype)
    return np.trunc(np.divide(x, y))


@elementwise(types=types.number, dtypes=NUMBERS, reference=_truncated, samples=binary(-99, 99, special=False), ulp=0.5,
             looser=(QUOTIENT,), gradient={"x": None, "y": None})  # fmt: skip
def trunc_divide(x, y):
    """x / y rounded towards 0; of integers 0 where y is 0."""
    return atlas.trunc(x / y) if x.dtype.is_float else x // y


def _beside_nan(cotangent: Value, chosen: Value) -> Value:
    return select(chosen, cotangent, 0.0)


@numpy_elementwise(
    types=types.same, dtypes=COMPUTED,
    gradient={"x": lambda cotangent, x, y: _beside_nan(cotangent, (x >= y) | (y != y)),
              "y": lambda cotangent, x, y: _beside_nan(cotangent, (y > x) | ((x != x) & (y == y)))})  # fmt: skip
def fmax(x, y):
    """The larger, or the one that is no NaN."""
    if x.dtype.kind == "bool":
        return x | y
    return (
        select(x != x, y, select(y != y, x, atlas.maximum(x, y))) if x.dtype.is_float else atlas.maximum(x, y)
    )


@numpy_elementwise(
    types=types.same, dtypes=COMPUTED,
    gradient={"x": lambda cotangent, x, y: _beside_nan(cotangent, (x <= y) | (y != y)),
              "y": lambda cotangent, x, y: _beside_nan(cotangent, (y < x) | ((x != x) & (y == y)))})  # fmt: skip
def fmin(x, y):
    """The smaller, or the one that is no NaN."""
    if x.dtype.kind == "bool":
        return x & y
    return (
        select(x != x, y, select(y != y, x, atlas.minimum(x, y))) if x.dtype.is_float else atlas.minimum(x, y)
    )


def _divisor(x: Value, y: Value) -> Value:
    """The greatest common divisor, by Euclid's algorithm: two steps take off at least a bit."""
    a, b = (atlas.absolute(v) if v.dtype.is_signed else v for v in (x, y))

    def turn(_: Value, a: Value, b: Value) -> tuple[Value, Value]:
        return b, a % b

    def step(counter: Value, a: Value, b: Value) -> tuple[Value, Value]:
        pair = a.builder.if_(b != 0, lambda: turn(counter, a, b), lambda: (a, b))
        return pair[0], pair[1]

    divisor, _ = x.builder.loop(0, x.dtype.bits * 3 // 2, step, first=(a, b))
    return atlas.absolute(divisor) if x.dtype.is_signed else divisor


@numpy_elementwise(
    types=types.integer, dtypes=INTEGERS, samples=binary(-120, 120, special=False), aten=("gcd",)
)
def gcd(x, y):
    """The greatest common divisor, at least 0."""
    return _divisor(x, y)


@numpy_elementwise(
    types=types.integer, dtypes=INTEGERS, samples=binary(-11, 11, special=False), aten=("lcm",)
)
def lcm(x, y):
    """The least common multiple, at least 0; 0 where either is 0."""
    divisor = _divisor(x, y)
    if x.dtype.is_signed:
        x, y = atlas.absolute(x), atlas.absolute(y)
    return x // select(divisor == 0, 1, divisor) * y


def _exponent(x: Value) -> Value:
    wide, width = (dtypes.i64, 52) if x.dtype.bits == 64 else (dtypes.i32, 23)
    bias = (1 << wide.bits - 1 - width - 1) - 2
    tiny = atlas.absolute(x) < 2.0 ** -(bias - 2)
    scaled = select(tiny, x * 2.0**width * 4.0, x).bitcast(wide)
    power = (scaled >> width & ((1 << wide.bits - 1 - width) - 1)) - bias
    power = select(tiny, power - (width + 2), power)
    return select((x == 0.0) | (x != x) | (atlas.absolute(x) == math.inf), 0, power).to(dtypes.i32)


@elementwise(types=types.floating, dtypes=FLOATS, samples=unary(-30, 30),
             reference=lambda x: np.frexp(x)[0],
             gradient={"x": lambda cotangent, x: cotangent * atlas.exp2(-_exponent(x).to(x.dtype))})  # fmt: skip
def mantissa(x):
    """The number in [0.5, 1), with the sign of x, that a power of 2 makes x of; x itself if 0, infinite or NaN."""
    wide, width = (dtypes.i64, 52) if x.dtype.bits == 64 else (dtypes.i32, 23)
    bias = (1 << wide.bits - 1 - width - 1) - 2
    tiny = atlas.absolute(x) < 2.0 ** -(bias - 2)
    scaled = select(tiny, x * 2.0**width * 4.0, x).bitcast(wide)
    kept = scaled & ((-1 << wide.bits - 1) | ((1 << width) - 1)) | (bias << width)
    return select((x == 0.0) | (x != x) | (atlas.absolute(x) == math.inf), x, kept.bitcast(x.dtype))


@elementwise(types=lambda who, operands: (types.floating(who, operands)[0], dtypes.i32), dtypes=FLOATS,
             samples=unary(-30, 30), reference=lambda x: np.where(np.isfinite(x), np.frexp(x)[1], 0).astype(np.int32),
             gradient={"x": None})  # fmt: skip
def exponent(x):
    """The power of 2 (i32) that makes x of its mantissa; 0 for 0, infinities and NaN."""
    return _exponent(x)


# Rounding to places.


def _round_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    yield from unary()(rng, dtype)
    if dtype.is_integer:
        x = np.arange(128 if dtype.is_signed else 256).reshape(8, -1).astype(dtype.numpy)
        yield from (
            Sample((y,), {"decimals": n}) for y in (x, ~x) for n in (-1, -2, -3) if dtype.is_signed or n > -3
        )
    if dtype.is_inexact:  # numbers that all dtypes hold, none of them halfway
        x = (np.arange(-40, 40) * 0.25 + 0.0625).astype(dtype.numpy).reshape(8, 10)
        for decimals in (1, -1):
            yield Sample((x,), {"decimals": decimals})


def _round_reference(x, decimals=0):
    kind = np.asarray(x).dtype
    if kind.kind not in "iu":
        return np.round(x, decimals)
    step = 10 ** max(-decimals, 0)  # halves to even, by Python's integers; what no longer fits wraps
    parts = [divmod(int(n), step) for n in np.ravel(x)]
    rounded = [
        (turns + (2 * rest > step or (2 * rest == step and turns % 2))) * step for turns, rest in parts
    ]
    bits = 8 * kind.itemsize
    wrapped = [n % (1 << bits) - ((n >> bits - 1) % 2 << bits if kind.kind == "i" else 0) for n in rounded]
    return np.array(wrapped, kind).reshape(np.shape(x))


@elementwise(types=types.number, dtypes=NUMBERS + COMPLEX, reference=_round_reference, samples=_round_samples, ulp=2,
             aten=("round",), looser=(QUOTIENT,), gradient={"x": None})  # fmt: skip
def round_(x, *, decimals=0):
    """The nearest integer, halves to even; or, by multiplying with a power of ten, so many decimals, as in NumPy.

    The parts of complex numbers are rounded each. Integers are rounded to tens and so on, where decimals are below 0.
    """
    if not isinstance(decimals, int):
        raise TypeError(f"round: decimals must be an integer, got {decimals!r}")
    if x.dtype.is_complex:
        return complex_parts.pair(
            _rounded(complex_parts.real(x), decimals), _rounded(complex_parts.imag(x), decimals)
        )
    return _rounded(x, decimals) if x.dtype.is_float else _whole(x, decimals)


def _whole(x: Value, decimals: int) -> Value:
    """An integer rounded to a multiple of a power of ten, halves to even ones."""
    step = 10**-decimals if decimals < 0 else 1
    if step == 1:
        return x
    if step >> x.dtype.bits - x.dtype.is_signed:  # more than twice of every number, but for 10^19 of i64
        return x.builder.constant(0, x.dtype)
    turns, rest = x // step, x % step
    one, none = x.builder.constant(1, x.dtype), x.builder.constant(0, x.dtype)
    size, away = rest, one
    if x.dtype.is_signed:
        size, away = atlas.absolute(rest), select(rest < 0, -one, one)
    far = (size > step - size) | ((size == step - size) & (turns % 2 != 0))
    turns = turns + select(far, away, none)
    return turns * step


def _rounded(x: Value, decimals: int) -> Value:
    if not decimals:
        return atlas.round_(x)
    scale = 10.0 ** abs(decimals)
    scaled = x * scale if decimals > 0 else x / scale
    rounded = atlas.round_(scaled)
    made = rounded / scale if decimals > 0 else rounded * scale
    # What is too large to have decimals, or not finite, stays as it is.
    return select(atlas.absolute(scaled) < math.inf, made, x)
