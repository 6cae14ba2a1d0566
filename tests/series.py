"""Derivatives of a function of one real number from both sides, in 80 digits, and what a result may be beside them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath as mp

DIGITS, ORDERS, STEP = 80, 3, mp.mpf(10) ** -15
Sides = tuple[
    list[float], list[float]
]  # the derivatives from the left and from the right; NaN where there is no side


def sides(function: Callable[[Any], Any]) -> Sides:
    """The first three derivatives at 0. Infinite are those that grow without bound as the step shrinks."""
    with mp.workdps(DIGITS):
        found = [_from(function, side * STEP) for side in (-1, 1)]
        for values, side in zip(found, (-1, 1), strict=True):
            if any(abs(v) > 1e4 for v in values):
                closer = _from(function, side * STEP / 1000)
                for k, (far, near) in enumerate(zip(values, closer, strict=True)):
                    if abs(near) > max(1e4, 5 * abs(far)):
                        values[k] = math.copysign(math.inf, near)
    return found[0], found[1]


def _from(function: Callable[[Any], Any], step: Any) -> list[float]:
    """By the polynomial through four values on one side; none at 0 itself, which may be defined apart."""
    try:
        values = [mp.mpmathify(function(step * k)) for k in range(1, 5)]
    except (ZeroDivisionError, ValueError, OverflowError):
        return [math.nan] * ORDERS
    if any(mp.im(v) or not mp.isfinite(v) for v in values):
        return [math.nan] * ORDERS
    a, b, c, d = map(mp.re, values)
    slopes = (
        (-26 * a + 57 * b - 42 * c + 11 * d) / (6 * step),
        (3 * a - 8 * b + 7 * c - 2 * d) / step**2,
        (-a + 3 * b - 3 * c + d) / step**3,
    )
    return [float(s) for s in slopes]


def fits(
    got: float, left: float, right: float, tolerance: float, largest: float, signed: bool = True
) -> bool:
    """Whether a derivative is the one from both sides, or lies between them; one from where nothing is does not count.

    Where it is infinite from all sides alike the result must be so, if it is `signed`; at other poles no number.
    """
    known = [v for v in (left, right) if not math.isnan(v)]
    if any(map(math.isinf, known)):
        return got == known[0] if signed and len(set(known)) == 1 else not math.isfinite(got)
    if not known or max(map(abs, known)) > largest:
        return True  # no function, or no number of the dtype
    low, high = min(known), max(known)
    allowed = tolerance * max(1.0, min(abs(low), abs(high)))
    return low - allowed <= got <= high + allowed
