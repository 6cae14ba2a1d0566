"""Polynomials written into programs, by their coefficients."""

from __future__ import annotations

from collections.abc import Sequence

from hologram.atlas import functions as atlas
from hologram.atlas.builder import Value
from hologram.foundation.dtypes import f64


def polynomial(x: Value, coefficients: Sequence[float]) -> Value:
    """The polynomial whose coefficients are given from the highest power down (Horner)."""
    total = x.builder.constant(coefficients[0], x.dtype)
    for coefficient in coefficients[1:]:
        total = atlas.mad(total, x, coefficient)
    return total


def monic(x: Value, coefficients: Sequence[float]) -> Value:
    """The polynomial that begins with the next higher power, once."""
    return polynomial(x, (1.0, *coefficients))


def chebyshev(x: Value, coefficients: Sequence[float]) -> Value:
    """The sum of Chebyshev polynomials of x / 2, the highest first, the last one half (Clenshaw 1955).

    Terms too small to be seen in the dtype are left out.
    """
    least = 0.0 if x.dtype == f64 else max(map(abs, coefficients)) * 2.0**-28
    first = next(k for k, c in enumerate(coefficients) if abs(c) > least)
    zero = x.builder.constant(0.0, x.dtype)
    b0, b1, b2 = x.builder.constant(coefficients[first], x.dtype), zero, zero
    for coefficient in coefficients[first + 1 :]:
        b0, b1, b2 = x * b0 - b1 + coefficient, b0, b1
    return (b0 - b2) * 0.5
