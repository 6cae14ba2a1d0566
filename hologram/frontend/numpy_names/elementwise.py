"""NumPy's functions of single elements that are a few operations."""

from __future__ import annotations

import math
from typing import Any

from hologram.foundation import dtypes
from hologram.foundation.errors import ShapeError, UnsupportedDType
from hologram.foundation.sizes import fixed_range
from hologram.frontend.array_api.creation import asarray
from hologram.frontend.numpy_names.operands import beside, both_written, floating, written
from hologram.frontend.tensor import Tensor
from hologram.machine.arguments import number
from hologram.machine.axes import normalize_axis
from hologram.opset import arithmetic as arithmetic_parts
from hologram.opset import functions, logic, movement, power, rounding, scan
from hologram.opset import math as arithmetic

DEGREE = math.pi / 180


def deg2rad(x: Any, out: Any = None, *, where: Any = True) -> Tensor:
    """Degrees as radians."""
    return written(floating(x, "deg2rad") * DEGREE, out, "deg2rad", where)


def rad2deg(x: Any, out: Any = None, *, where: Any = True) -> Tensor:
    """Radians as degrees."""
    return written(floating(x, "rad2deg") * (1 / DEGREE), out, "rad2deg", where)


def radians(x: Any, out: Any = None, *, where: Any = True) -> Tensor:
    """Degrees as radians."""
    return deg2rad(x, out, where=where)


def degrees(x: Any, out: Any = None, *, where: Any = True) -> Tensor:
    """Radians as degrees."""
    return rad2deg(x, out, where=where)


def divmod(
    x1: Any, x2: Any, out1: Any = None, out2: Any = None, *, out: Any = None, where: Any = True
) -> tuple[Tensor, Tensor]:
    """The floored quotient and the remainder."""
    x, y = beside(x1, x2)
    found = arithmetic.floor_divide(x, y), arithmetic.remainder(x, y)
    return both_written(found, out1, out2, out, "divmod", where)


def fabs(x: Any, out: Any = None, *, where: Any = True) -> Tensor:
    """Magnitudes as floats."""
    return written(arithmetic.abs_(floating(x, "fabs")), out, "fabs", where)


def cbrt(x: Any, out: Any = None, *, where: Any = True) -> Tensor:
    """Cube roots, of numbers below 0 as well."""
    return written(functions.cbrt(asarray(x)), out, "cbrt", where)


def rint(x: Any, out: Any = None, *, where: Any = True) -> Tensor:
    """The nearest whole number; of two that are equally near the even one."""
    return arithmetic_parts.round_(asarray(x), out=out, where=where)


def sinc(x: Any) -> Tensor:
    """sin(pi x) / (pi x), and 1 at 0."""
    return functions.sinc(asarray(x))


def heaviside(x1: Any, x2: Any, out: Any = None, *, where: Any = True) -> Tensor:
    """0 below 0, 1 above, at 0 the second number; NaN of NaN."""
    x, y = (floating(t, "heaviside") for t in beside(floating(x1, "heaviside"), x2))
    step = logic.where(logic.equal(x, 0), y, logic.where(logic.less(x, 0), 0.0, 1.0).astype(x.dtype))
    return written(logic.where(logic.isnan(x), math.nan, step), out, "heaviside", where)


def logaddexp2(x1: Any, x2: Any, out: Any = None, *, where: Any = True) -> Tensor:
    """log2(2^x1 + 2^x2), without overflow."""
    x, y = (floating(t, "logaddexp2") for t in beside(floating(x1, "logaddexp2"), x2))
    found = functions.logaddexp(x * math.log(2), y * math.log(2)) * (1 / math.log(2))
    return written(found, out, "logaddexp2", where)


def float_power(x1: Any, x2: Any, out: Any = None, *, where: Any = True) -> Tensor:
    """Powers in f64, or c128. A device without it refuses: hg.pow has the dtype of its operands."""
    x, y = beside(x1, x2)
    executor, wanted = (
        x.executor,
        dtypes.f64.complex if x.dtype.is_complex or y.dtype.is_complex else dtypes.f64,
    )
    if wanted not in executor.limits.dtypes:
        raise UnsupportedDType(
            f"float_power: powers are {wanted}, which {executor} lacks; hg.pow(x.astype('f32'), y) has narrower ones"
        )
    number = type(x2) in (int, float)  # exact in double precision
    found = power.pow_(x.astype(wanted, copy=False), x2 if number else y.astype(wanted, copy=False))
    return written(found, out, "float_power", where)


def ldexp(x1: Any, x2: Any, out: Any = None, *, where: Any = True) -> Tensor:
    """x1 times 2 to the integer x2."""
    x, n = beside(x1, x2)
    if not n.dtype.is_integer:
        raise UnsupportedDType(f"ldexp: integer exponents are needed, got {n.dtype}")
    x = floating(x, "ldexp")
    high = math.frexp(x.dtype.largest)[1] - 1
    n = logic.where(n > 4 * high, 4 * high, n) if n.dtype == dtypes.u64 else n
    rest, shares = n.astype(dtypes.i64), []
    for _ in fixed_range(3):  # each a power of two that is a float: infinity times 0 is none
        shares.append(arithmetic.clip(rest, 1 - high, high))
        rest = rest - shares[-1]
    for share in reversed(shares):  # the largest last, so that what is denormal is rounded once
        x = x * arithmetic.exp2(share.astype(x.dtype))
    return written(x, out, "ldexp", where)


def modf(
    x: Any, out1: Any = None, out2: Any = None, *, out: Any = None, where: Any = True
) -> tuple[Tensor, Tensor]:
    """The fractional part and the whole part, both with the sign of x."""
    made = floating(x, "modf")
    whole = rounding.trunc(made)
    part = logic.where(logic.isinf(made), 0.0, made - whole)
    return both_written((functions.copysign(part, made), whole), out1, out2, out, "modf", where)


def frexp(
    x: Any, out1: Any = None, out2: Any = None, *, out: Any = None, where: Any = True
) -> tuple[Tensor, Tensor]:
    """A number in [0.5, 1), with the sign of x, and the power of 2 (i32) that makes x of it.

    Of 0, infinities and NaN they are the number itself, and 0.
    """
    made = floating(x, "frexp")
    found = arithmetic_parts.mantissa(made), arithmetic_parts.exponent(made)
    return both_written(found, out1, out2, out, "frexp", where)


def real_if_close(a: Any, tol: float = 100) -> Tensor:
    """The real parts, where all imaginary parts are below `tol` (epsilons, if above 1); else a itself. It waits."""
    made = asarray(a)
    if not made.dtype.is_complex:
        return made
    least = tol * 2.0**-made.dtype.part.mantissa if tol > 1 else tol
    return made.real if bool(logic.less(arithmetic.abs_(made.imag), least).all()) else made


def spacing(x: Any, out: Any = None, *, where: Any = True) -> Tensor:
    """The distance to the next number away from 0, with the sign of x."""
    made = floating(x, "spacing")
    size = arithmetic.abs_(made)
    beyond = functions.nextafter(size, math.inf) - size
    found = functions.copysign(logic.where(logic.isfinite(made), beyond, math.nan), made)
    return written(found, out, "spacing", where)


def isposinf(x: Any, out: Any = None) -> Tensor:
    """Whether it is infinity."""
    return written(logic.equal(floating(x, "isposinf"), math.inf), out, "isposinf")


def isneginf(x: Any, out: Any = None) -> Tensor:
    """Whether it is -infinity."""
    return written(logic.equal(floating(x, "isneginf"), -math.inf), out, "isneginf")


def isreal(x: Any) -> Tensor:
    """Whether the imaginary part is 0."""
    made = asarray(x)
    return logic.equal(made.imag, 0) if made.dtype.is_complex else made.executor.ones(made.shape, "bool")


def iscomplex(x: Any) -> Tensor:
    """Whether the imaginary part is not 0."""
    made = asarray(x)
    return logic.not_equal(made.imag, 0) if made.dtype.is_complex else made.executor.zeros(made.shape, "bool")


def bitwise_count(x: Any, out: Any = None, *, where: Any = True) -> Tensor:
    """How many bits of the magnitude are 1 (u8)."""
    made = asarray(x)
    if made.dtype.kind == "bool":
        return written(made.astype("u8"), out, "bitwise_count", where)
    if not made.dtype.is_integer:
        raise UnsupportedDType(f"bitwise_count: integers are needed, got {made.dtype}")
    wide = made if made.dtype.bits == 64 else made.astype("i64")
    bits = (arithmetic.abs_(wide) if wide.dtype.is_signed else wide).astype("u64")
    for shift, mask in ((1, 0x5555555555555555), (2, 0x3333333333333333), (4, 0x0F0F0F0F0F0F0F0F)):
        bits = (bits & mask) + ((bits >> shift) & mask)
    for shift in (8, 16, 32):
        bits = bits + (bits >> shift)
    return written((bits & 0x7F).astype("u8"), out, "bitwise_count", where)


def unwrap(p: Any, discont: float | None = None, axis: int = -1, *, period: float = 2 * math.pi) -> Tensor:
    """Steps along an axis that are larger than `discont`, half a period by default, made smaller by whole periods."""
    made = floating(p, "unwrap")
    k = normalize_axis(axis, made.ndim, "unwrap")
    steps = made.slice(k, 1, None) - made.slice(k, None, -1)
    half = number(period, "unwrap: period") / 2
    small = arithmetic.remainder(steps + half, period) - half
    small = logic.where(logic.logical_and(logic.equal(small, -half), logic.greater(steps, 0)), half, small)
    least = half if discont is None else max(number(discont, "unwrap: discont"), half)
    change = logic.where(logic.less(arithmetic.abs_(steps), least), 0.0, small - steps)
    return movement.concat(
        [made.slice(k, 0, 1), made.slice(k, 1, None) + scan.cumsum(change, axis=k)], axis=k
    )


def polyval(p: Any, x: Any) -> Tensor:
    """The polynomial of these coefficients, the highest power's first, at x."""
    coefficients, at = beside(p, x)
    if coefficients.ndim != 1:
        raise ShapeError(f"polyval: a vector of coefficients is needed, got shape {coefficients.shape}")
    value = at * 0
    for k in fixed_range(coefficients.shape[0]):
        value = value * at + coefficients[k]
    return value
