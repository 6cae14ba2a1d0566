"""exp, exp2, expm1, tanh and erf as arithmetic.

x = k ln2 + r with k the nearest integer and |r| <= ln2 / 2; ln2 is in two parts, the first so short that its
product with k is exact with or without fma (Cody and Waite, Software Manual for the Elementary Functions, 1980).
e^r is a polynomial and 2^k goes into the exponent.
"""

from __future__ import annotations

from hologram.atlas.builder import Value
from hologram.atlas.functions import absolute, fma, round_, select
from hologram.compiler.functions import polynomials
from hologram.compiler.functions.floats import clamped, polynomial, powers_of_two, with_sign_of
from hologram.foundation.dtypes import f32, f64

# Beyond these e^x is 0 or infinite in every rounding.
EXP_RANGE = {f32: (-104.0, 89.0), f64: (-746.0, 710.0)}
EXP2_RANGE = {f32: (-151.0, 129.0), f64: (-1077.0, 1025.0)}
EXPM1_RANGE = {f32: (-30.0, 89.0), f64: (-50.0, 710.0)}  # likewise of e^x - 1, which is -1 or infinite
TANH_ONE = {f32: 9.1, f64: 19.1}  # from here on tanh rounds to 1
ERF_ONE = {f32: 4.0, f64: 6.0}  # likewise erf
EXPM1_LINEAR = {f32: 2.0**-25, f64: 2.0**-54}  # below, e^x - 1 rounds to x; keeps the sign of 0


def _nearest(x: Value, scale: float, offset: int, strict: bool) -> tuple[Value, Value]:
    """k, the integer nearest to scale * x, and k + offset in the low bits of an integer.

    `strict`: the target's compiler keeps to IEEE 754, so adding a number whose last place is 1 rounds and leaves k in
    its bits, far cheaper than a conversion that must saturate. The higher bits then hold something else.
    """
    form = x.dtype
    if strict:
        shift = 1.5 * 2.0**form.mantissa + offset
        shifted = fma(x, scale, shift) if scale != 1.0 else x + shift
        return shifted - shift, shifted.bitcast(form.signed)
    k = round_(x * scale if scale != 1.0 else x)
    return k, k.to(form.signed) + offset


def _log2e_nearest(x: Value, offset: int, strict: bool) -> tuple[Value, Value, Value]:
    """k, k + offset as bits, and r of x = k ln2 + r."""
    k, n = _nearest(x, polynomials.LOG2_E[x.dtype][0], offset, strict)
    high, low = polynomials.LN2[x.dtype]
    return k, n, fma(k, -low, fma(k, -high, x))


def exp(x: Value, *, strict: bool = False) -> Value:
    _, n, r = _log2e_nearest(clamped(x, *EXP_RANGE[x.dtype]), 2 * x.dtype.bias, strict)
    q = fma(r * r, polynomial(r, polynomials.EXP[x.dtype]), r)
    first, second = powers_of_two(n, x.dtype)
    return fma(first, q, first) * second


def exp2_sum(high: Value, low: Value | None = None, *, strict: bool = False) -> Value:
    """2^(high + low); `low` is small beside 1."""
    high = clamped(high, *EXP2_RANGE[high.dtype])
    k, n = _nearest(high, 1.0, 2 * high.dtype.bias, strict)
    r = high - k if low is None else (high - k) + low
    first, second = powers_of_two(n, high.dtype)
    return fma(r, polynomial(r, polynomials.EXP2[r.dtype]), 1.0) * first * second


def exp2(x: Value, *, strict: bool = False) -> Value:
    return exp2_sum(x, strict=strict)


def _parts(x: Value, offset: int, strict: bool) -> tuple[Value, Value]:
    """k + offset as bits and e^r - 1, to the last digit also where r is small."""
    _, n, r = _log2e_nearest(x, offset, strict)
    return n, fma(r * r, fma(r, polynomial(r, polynomials.EXPM1[x.dtype]), 0.5), r)


def expm1(x: Value, *, strict: bool = False) -> Value:
    form = x.dtype
    # e^x - 1 = 2^k p + (2^k - 1). Half of it first: 2^k itself may overflow where the result does not.
    n, p = _parts(clamped(x, *EXPM1_RANGE[x.dtype]), form.bias - 1, strict)
    half = (n << form.mantissa).bitcast(x.dtype)
    y = fma(half, p, half - 0.5) * 2.0
    return select(absolute(x) < EXPM1_LINEAR[x.dtype], x, y)


def tanh(x: Value, *, strict: bool = False) -> Value:
    """(1 - e^-2a) / (1 + e^-2a) with a = |x|."""
    form = x.dtype
    a = absolute(x)
    a = select(a > TANH_ONE[x.dtype], TANH_ONE[x.dtype], a)
    n, p = _parts(a * -2.0, form.bias, strict)
    power = (n << form.mantissa).bitcast(x.dtype)
    return with_sign_of(fma(power, -p, 1.0 - power) / fma(power, p, 1.0 + power), x)


def erf(x: Value, *, strict: bool = False) -> Value:
    """x + x P(x^2) up to 1, then 1 - 2^Q(|x|) with Q = log2(erfc)."""
    a = absolute(x)
    near = fma(x, polynomial(x * x, polynomials.ERF[x.dtype]), x)
    a = select(a > ERF_ONE[x.dtype], ERF_ONE[x.dtype], a)
    if x.dtype == f32:
        q = polynomial(a, polynomials.ERFC_NEAR[f32])
    else:
        q = select(
            a < 2.25,
            polynomial(a - 1.625, polynomials.ERFC_NEAR[f64]),
            polynomial(a - 3.5, polynomials.ERFC_FAR[f64]),
        )
        # Far from the fit's interval the value is not used, but must stay finite.
        q = select(a < 0.5, -1.0, q)
    form = x.dtype
    k, n = _nearest(q, 1.0, form.bias, strict)
    r = q - k
    p = fma(r, polynomial(r, polynomials.EXP2[x.dtype]), 1.0)
    far = fma(p, -(n << form.mantissa).bitcast(x.dtype), 1.0)
    return select(a < 1.0, near, with_sign_of(far, x))
