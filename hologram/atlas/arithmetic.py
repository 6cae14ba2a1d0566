"""What every Atlas instruction that computes one value from others means, on NumPy arrays: COMPUTE[opcode].

Each function takes the dtype of the result and the operands, arrays of the dtypes' NumPy forms, and returns an array of
the result's. f16 and bf16 are computed in f32 and rounded after each operation; functions of floats are computed in
float64 and rounded, so that they are the value a backend's own function approximates. Callers silence NumPy's warnings.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from hologram.atlas.opcodes import Opcode
from hologram.foundation import dtypes, lazy
from hologram.foundation.dtypes import DType

if TYPE_CHECKING:
    import fractions
else:
    fractions = lazy.module("fractions")

Array = np.ndarray
Compute = Callable[..., Array]


def number(value: Any, d: DType) -> Array:
    """A 0-d array of `d` that holds a Python number; integers wrap, floats round to nearest even."""
    if d.is_integer or d is dtypes.index:
        return np.array(int(value) & (2**d.bits - 1), d.unsigned.numpy).view(d.numpy)
    if d.kind == "bool":
        return np.array(bool(value))
    with np.errstate(over="ignore"):
        return narrow(np.array(value, np.complex128 if d.is_complex else np.float64), d)


def identity(opcode: Opcode, d: DType) -> Any:
    """What a reduction of no elements gives."""
    if opcode in (Opcode.REDUCE_ADD, Opcode.REDUCE_MUL):
        return d.python(opcode is Opcode.REDUCE_MUL)
    return d.highest if opcode is Opcode.REDUCE_MIN else d.lowest


def narrow(x: Array, d: DType) -> Array:
    """Floats in the float dtype `d`, rounded to nearest even once; of complex numbers each part."""
    if x.dtype == d.numpy:
        return x
    if d.is_foreign and x.dtype == np.float64:
        x = _to_odd_f32(x)
    return x.astype(d.numpy) if d.computes else _coded(x, d)


def _coded(x: Array, d: DType) -> Array:
    """Floats as codes: what is too large is infinity or the largest number, every NaN has all bits but its sign's."""
    bits = (np.clip(x, -d.largest, d.largest) if d.finite else x).astype(d.numpy).view(d.unsigned.numpy)
    return np.where(np.isnan(x), bits | bits.dtype.type(d.nan), bits).view(d.numpy)


def _to_odd_f32(x: Array) -> Array:
    """float64 as float32 with the last bit set if inexact, so that a second, narrower rounding is right."""
    near = np.asarray(x.astype(np.float32))
    inexact = np.isfinite(x) & (near.astype(np.float64) != x)
    above = np.abs(near.astype(np.float64)) > np.abs(x)
    bits = near.view(np.uint32)
    return np.asarray(np.where(inexact, (bits - above) | np.uint32(1), bits).astype(np.uint32)).view(
        np.float32
    )


def wide(x: Array) -> Array:
    """Narrower floats as f32, everything else as it is."""
    return x.astype(np.float32) if x.dtype.itemsize <= 2 and x.dtype.kind not in "iub" else x


# Two-term sums and products (Knuth, Dekker), and fma from them (Boldo and Melquiond, 2008).


def _two_sum(x: Array, y: Array) -> tuple[Array, Array]:
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


def _odd_sum(x: Array, y: Array) -> Array:
    """x + y in float64, an inexact sum rounded to the neighbour whose last bit is set."""
    total, error = _two_sum(x, y)
    even = (np.asarray(total).view(np.uint64) & np.uint64(1)) == 0
    moved = np.nextafter(total, np.where(error > 0, np.inf, -np.inf))
    return np.where((error != 0) & np.isfinite(error) & even, moved, total)


def _split(x: Array) -> tuple[Array, Array]:
    scaled = x * 134217729.0  # 2^27 + 1
    high = scaled - (scaled - x)
    return high, x - high


def _fma_exact(x: float, y: float, z: float) -> float:
    if not (math.isfinite(x) and math.isfinite(y) and math.isfinite(z)):
        if math.isfinite(x) and math.isfinite(y):
            return z  # the product is finite, whatever float64 makes of it
        return float(np.float64(x) * np.float64(y) + np.float64(z))
    exact = fractions.Fraction(x) * fractions.Fraction(y) + fractions.Fraction(z)
    if exact == 0:
        return math.copysign(1.0, x) * math.copysign(1.0, y) * 0.0 + z if x == 0 or y == 0 else 0.0
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _fma_f64(x: Array, y: Array, z: Array) -> Array:
    x, y, z = np.broadcast_arrays(x, y, z)
    (xh, xl), (yh, yl) = _split(x), _split(y)
    product = x * y
    low = xl * yl - (((product - xh * yh) - xl * yh) - xh * yl)
    th, tl = _two_sum(z, low)
    vh, vl = _two_sum(product, th)
    result = np.array(vh + _odd_sum(tl, vl))
    # The terms are exact only well inside float64's range; the rest is computed with fractions.
    safe = np.ones(x.shape, bool)
    for term in (x, y, z):
        safe &= (np.abs(term) > 2.0**-400) & (np.abs(term) < 2.0**400)
    outside = ~safe
    if outside.any():
        rows = zip(x[outside].tolist(), y[outside].tolist(), z[outside].tolist(), strict=True)
        result[outside] = [_fma_exact(*row) for row in rows]
    return result


def _fma(d: DType, x: Array, y: Array, z: Array) -> Array:
    if not d.is_float:
        return x * y + z
    if d is dtypes.f64:
        return _fma_f64(x, y, z)
    x, y, z = (v.astype(np.float64) for v in (x, y, z))
    return narrow(_odd_sum(x * y, z), d)  # the product of two f32 is exact in f64


# Arithmetic.


def _elementwise(ufunc: Compute) -> Compute:
    """A function exact or rounded once in the operands' own dtype (f16, bf16: in f32)."""

    def compute(d: DType, *operands: Array) -> Array:
        if d.is_float:
            return narrow(ufunc(*(wide(x) for x in operands)), d)
        return ufunc(*operands)

    return compute


def _function(ufunc: Compute) -> Compute:
    """A function of floats, computed in float64, or of complex numbers, in complex128."""

    def compute(d: DType, *operands: Array) -> Array:
        return narrow(ufunc(*(x.astype(np.complex128 if d.is_complex else np.float64) for x in operands)), d)

    return compute


def _comparison(ufunc: Compute) -> Compute:
    def compute(d: DType, x: Array, y: Array) -> Array:
        return ufunc(wide(x), wide(y))

    return compute


def _mad(d: DType, x: Array, y: Array, z: Array) -> Array:
    """Rounded twice: an allowed reading, and the cheap one."""
    return COMPUTE[Opcode.ADD](d, COMPUTE[Opcode.MUL](d, x, y), z)


def _div(d: DType, x: Array, y: Array) -> Array:
    if d.is_inexact:
        return narrow(np.divide(wide(x), wide(y)), d)
    if not d.is_signed:
        return np.where(y == 0, y, x // np.where(y == 0, y.dtype.type(1), y))
    one = y.dtype.type(1)
    plain = np.where((y == 0) | (y == -1), one, y)  # lowest // -1 would overflow
    quotient = x // plain
    quotient = quotient + ((np.fmod(x, plain) != 0) & ((x < 0) != (plain < 0)))
    return np.where(y == 0, y, np.where(y == -1, -x, quotient)).astype(d.numpy)


def _rem(d: DType, x: Array, y: Array) -> Array:
    if d.is_float:
        return narrow(np.fmod(wide(x), wide(y)), d)
    one = y.dtype.type(1)
    trivial = (y == 0) | (y == -1) if d.is_signed else y == 0
    return np.fmod(x, np.where(trivial, one, y))


def _mulhi(d: DType, x: Array, y: Array) -> Array:
    double = np.int64 if d.is_signed else np.uint64
    return ((x.astype(double) * y.astype(double)) >> double(32)).astype(d.numpy)


def _pow(d: DType, x: Array, y: Array) -> Array:
    if d.is_complex:
        return narrow(np.power(x.astype(np.complex128), y.astype(np.complex128)), d)
    if d.is_float:
        # NumPy takes a square root for one exponent of 0.5: NaN for -inf, where IEEE 754's power is inf.
        x, y = np.broadcast_arrays(x.astype(np.float64), y.astype(np.float64))
        return narrow(np.power(x, y.copy()), d)
    if not d.is_signed:
        return np.power(x, y)
    zero, one = d.numpy.type(0), d.numpy.type(1)
    power = np.power(x, np.maximum(y, zero))
    inverse = np.where(x == 1, one, np.where(x == -1, np.where(y & one == 0, one, -one), zero))
    return np.where(y < 0, inverse, power).astype(d.numpy)


def _not(d: DType, x: Array) -> Array:
    return np.logical_not(x) if d.kind == "bool" else np.invert(x)


def _beyond(d: DType, count: Array) -> Array:
    """Where a shift count, read as unsigned, is the width or more."""
    return (count < 0) | (count >= d.bits)


def _shl(d: DType, x: Array, count: Array) -> Array:
    zero = d.numpy.type(0)
    beyond = _beyond(d, count)
    return np.where(beyond, zero, np.left_shift(x, np.where(beyond, zero, count)))


def _shr(d: DType, x: Array, count: Array) -> Array:
    last = d.numpy.type(d.bits - 1)
    beyond = _beyond(d, count)
    shifted = np.right_shift(x, np.where(beyond, last, count))
    return shifted if d.is_signed else np.where(beyond, d.numpy.type(0), shifted)


def _select(d: DType, condition: Array, x: Array, y: Array) -> Array:
    return np.where(condition, x, y)


# Conversions.


def convert(d: DType, x: Array) -> Array:
    """To nearest even; float to integer truncates and saturates, NaN gives 0; to bool is x != 0; complex to real."""
    floating = x.dtype.kind not in "iub"
    if d.kind == "bool":
        return wide(x) != 0
    if d.is_complex:
        return x.astype(d.numpy)
    if x.dtype.kind == "c":
        x = np.real(x)
    if d.is_float:
        if d.is_foreign and x.dtype.itemsize == 8 and not floating:
            return narrow(_sticky_f64(x), d)
        # An integer of 32 bits or fewer, as an f32 or narrower float, is exact in float64.
        return narrow(x.astype(np.float64) if d.is_foreign and not floating else x, d)
    if not floating:
        return x.astype(d.numpy)
    whole = np.trunc(x.astype(np.float64))
    low, high = (
        whole <= float(d.lowest),
        whole >= float(d.highest),
    )  # a 64-bit highest rounds up to 2^63 or 2^64
    inside = np.where(low | high | np.isnan(whole), 0.0, whole).astype(d.numpy)
    return np.where(low, d.numpy.type(d.lowest), np.where(high, d.numpy.type(d.highest), inside))


def _sticky_f64(x: Array) -> Array:
    """A 64-bit integer as a float64 that rounds to bf16 as the integer does."""
    # bf16 keeps 8 bits, so of an integer past 2^40 the low 16 matter only in whether any is set.
    large = np.abs(x.astype(np.float64)) >= 2.0**40
    sixteen = x.dtype.type(16)
    sticky = (x >> sixteen) | ((x & x.dtype.type(0xFFFF)) != 0)
    return np.where(large, sticky.astype(np.float64) * 65536.0, x.astype(np.float64))


def _bitcast(d: DType, x: Array) -> Array:
    return np.ascontiguousarray(x).reshape(x.shape).view(d.numpy)


def _pair(d: DType, x: Array, y: Array) -> Array:
    x, y = np.broadcast_arrays(x, y)
    z = np.empty(x.shape, d.numpy)
    z.real, z.imag = x, y
    return z


_erf = np.frompyfunc(math.erf, 1, 1)

O = Opcode
COMPUTE: dict[Opcode, Compute] = {
    O.CONVERT: convert,
    O.BITCAST: _bitcast,
    O.REAL: lambda d, z: z.real,
    O.IMAG: lambda d, z: z.imag,
    O.PAIR: _pair,
    O.ADD: _elementwise(np.add),
    O.SUB: _elementwise(np.subtract),
    O.MUL: _elementwise(np.multiply),
    O.DIV: _div,
    O.REM: _rem,
    O.MULHI: _mulhi,
    O.MAD: _mad,
    O.FMA: _fma,
    O.MIN: _elementwise(np.minimum),
    O.MAX: _elementwise(np.maximum),
    O.ABS: _elementwise(np.abs),
    O.NEG: _elementwise(np.negative),
    O.POW: _pow,
    O.AND: _elementwise(np.bitwise_and),
    O.OR: _elementwise(np.bitwise_or),
    O.XOR: _elementwise(np.bitwise_xor),
    O.NOT: _not,
    O.SHL: _shl,
    O.SHR: _shr,
    O.EQ: _comparison(np.equal),
    O.NE: _comparison(np.not_equal),
    O.LT: _comparison(np.less),
    O.LE: _comparison(np.less_equal),
    O.GT: _comparison(np.greater),
    O.GE: _comparison(np.greater_equal),
    O.SELECT: _select,
    O.SQRT: _function(np.sqrt),
    O.RSQRT: _function(lambda x: 1.0 / np.sqrt(x)),
    O.EXP: _function(np.exp),
    O.EXP2: _function(np.exp2),
    O.EXPM1: _function(np.expm1),
    O.LOG: _function(np.log),
    O.LOG2: _function(np.log2),
    O.LOG1P: _function(np.log1p),
    O.SIN: _function(np.sin),
    O.COS: _function(np.cos),
    O.TAN: _function(np.tan),
    O.TANH: _function(np.tanh),
    O.ATAN: _function(np.arctan),
    O.ERF: _function(lambda x: np.asarray(_erf(x), np.float64)),
    O.FLOOR: _elementwise(np.floor),
    O.CEIL: _elementwise(np.ceil),
    O.ROUND: _elementwise(np.rint),
    O.TRUNC: _elementwise(np.trunc),
}
del O
