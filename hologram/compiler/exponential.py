"""exp, exp2, expm1, tanh and erf as arithmetic.

x = k ln2 + r with k the nearest integer and |r| <= ln2 / 2; ln2 is in two parts, the first so short that its
product with k is exact with or without fma (Cody and Waite, Software Manual for the Elementary Functions, 1980).
e^r is a polynomial and 2^k goes into the exponent.
"""

from __future__ import annotations

from hologram.atlas.builder import Value, absolute, fma, round_, select
from hologram.compiler import polynomials
from hologram.compiler.floats import clamped, layout, polynomial, power_of_two, scaled, with_sign_of
from hologram.dtypes import f32, f64

# Beyond these e^x is 0 or infinite in every rounding.
EXP_RANGE = {f32: (-104.0, 89.0), f64: (-746.0, 710.0)}
EXP2_RANGE = {f32: (-151.0, 129.0), f64: (-1077.0, 1025.0)}
TANH_ONE = {f32: 9.1, f64: 19.1}  # from here on tanh rounds to 1
ERF_ONE = {f32: 4.0, f64: 6.0}  # likewise erf
EXPM1_LINEAR = {f32: 2.0**-25, f64: 2.0**-54}  # below, e^x - 1 rounds to x; keeps the sign of 0


def _reduced(x: Value) -> tuple[Value, Value]:
    """k and r of x = k ln2 + r."""
    k = round_(x * polynomials.LOG2_E[x.dtype][0])
    high, low = polynomials.LN2[x.dtype]
    return k, fma(k, -low, fma(k, -high, x))


def exp(x: Value) -> Value:
    k, r = _reduced(clamped(x, *EXP_RANGE[x.dtype]))
    p = fma(r * r, polynomial(r, polynomials.EXP[x.dtype]), r) + 1.0
    return scaled(p, k.to(layout(x).bits))


def exp2_sum(high: Value, low: Value | None = None) -> Value:
    """2^(high + low); `low` is small beside 1."""
    high = clamped(high, *EXP2_RANGE[high.dtype])
    k = round_(high)
    r = high - k if low is None else (high - k) + low
    p = fma(r, polynomial(r, polynomials.EXP2[r.dtype]), 1.0)
    return scaled(p, k.to(layout(high).bits))


def exp2(x: Value) -> Value:
    return exp2_sum(x)


def _parts(x: Value) -> tuple[Value, Value]:
    """k and e^r - 1, to the last digit also where r is small."""
    k, r = _reduced(x)
    return k, fma(r * r, fma(r, polynomial(r, polynomials.EXPM1[x.dtype]), 0.5), r)


def expm1(x: Value) -> Value:
    low, high = EXP_RANGE[x.dtype]
    k, p = _parts(clamped(x, low, high))
    # e^x - 1 = 2^k p + (2^k - 1). Half of it first: 2^k itself may overflow where the result does not.
    half = power_of_two(select(k < -100.0, -100.0, k).to(layout(x).bits) - 1, x.dtype)
    y = fma(half, p, half - 0.5) * 2.0
    return select(absolute(x) < EXPM1_LINEAR[x.dtype], x, y)


def tanh(x: Value) -> Value:
    """(e^2a - 1) / (e^2a + 1) with a = |x|."""
    a = absolute(x)
    a = select(a > TANH_ONE[x.dtype], TANH_ONE[x.dtype], a)
    k, p = _parts(a + a)
    power = power_of_two(k.to(layout(x).bits), x.dtype)
    e = fma(power, p, power - 1.0)
    return with_sign_of(e / (e + 2.0), x)


def erf(x: Value) -> Value:
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
        q = select(
            a < 0.5, -1.0, q
        )  # far from the fit's interval the value is not used, but must stay finite
    k = round_(q)
    r = q - k
    p = fma(r, polynomial(r, polynomials.EXP2[x.dtype]), 1.0)
    form = layout(x)
    small = (p.bitcast(form.bits) + (k.to(form.bits) << form.mantissa)).bitcast(x.dtype)
    return select(a < 1.0, near, with_sign_of(1.0 - small, x))
