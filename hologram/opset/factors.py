"""Cotangents of factors, for derivatives that are differentiated again: products of neighbours alone, no division.

A rule that divides the whole product by a factor, and treats zeros apart, has the right value everywhere, but at zeros
not the right derivative. Here a product is a tree, or log2(n) steps of a running one (Hillis and Steele, Data parallel
algorithms, 1986), of n factors, and reverse mode goes through its multiplications, so that derivatives of any order
follow.
"""

from __future__ import annotations

from typing import Any

from hologram.opset import movement


def of_product(cotangent: Any, x: Any) -> Any:
    """The cotangents of x (..., n) from that of its products along the last axis, (..., 1)."""
    if not x.size:
        return x
    levels = []
    while (n := x.shape[-1]) > 1:
        left, right = x.narrow(-1, 0, (n + 1) // 2), x.narrow(-1, (n + 1) // 2, n // 2)
        if n % 2:
            right = beside(right, 1, 1.0, behind=True)
        levels.append((left, right, n))
        x = left * right
    for left, right, n in reversed(levels):
        cotangent = movement.concat([cotangent * right, cotangent * left], axis=-1).narrow(-1, 0, n)
    return cotangent


def of_running_product(cotangent: Any, x: Any) -> Any:
    """The cotangents of x (..., n) from those of its running products along the last axis."""
    if not x.size:
        return x
    n, levels, distance = x.shape[-1], [], 1
    while distance < n:
        before = beside(x.narrow(-1, 0, n - distance), distance, 1.0, behind=False)
        levels.append((x, before, distance))
        x = x * before
        distance *= 2
    for x, before, distance in reversed(levels):
        sent = (cotangent * x).narrow(-1, distance, n - distance)
        cotangent = cotangent * before + beside(sent, distance, 0.0, behind=True)
    return cotangent


def beside(x: Any, count: int, value: float, *, behind: bool) -> Any:
    """x with `count` more elements along the last axis."""
    more = x.executor.full((), value, x.dtype).expand((*x.shape[:-1], count))
    return movement.concat([x, more] if behind else [more, x], axis=-1)
