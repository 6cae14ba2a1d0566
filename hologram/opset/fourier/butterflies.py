"""Transforms of few complex numbers, in registers: of whatever adds, subtracts and is multiplied by a float.

Both the programs of opset/fourier.py and the CPU's vectors are written by these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

PRIMES = (3, 5, 7, 11, 13)  # beside 2

Number = TypeVar("Number", bound=Any)
Turned = Callable[[Any, float], Any]  # a number times e^(2 pi i angle)


def small(x: Sequence[Number], sign: int, turned: Turned) -> list[Number]:
    """The transform of few numbers, whose count has prime factors up to 13, of its least factors first."""
    n = len(x)
    if n == 1:
        return list(x)
    if n == 2:
        return [x[0] + x[1], x[0] - x[1]]
    if n in PRIMES:
        return _prime(x, sign, turned)
    factor = next(p for p in (2, *PRIMES) if n % p == 0)
    part = n // factor
    parts = [small(x[j::factor], sign, turned) for j in range(factor)]
    columns = [
        small([turned(parts[j][k], sign * j * k / n) for j in range(factor)], sign, turned)
        for k in range(part)
    ]
    return [columns[k % part][k // part] for k in range(n)]


def _prime(x: Sequence[Number], sign: int, turned: Turned) -> list[Number]:
    """By the sums and differences of elements that stand opposite each other."""
    n = len(x)
    pairs = [(x[k] + x[n - k], x[k] - x[n - k]) for k in range(1, n // 2 + 1)]
    result: list[Any] = [x[0]] * n
    for total, _ in pairs:
        result[0] = result[0] + total
    for j in range(1, n // 2 + 1):
        along, across = x[0], None
        for k, (total, apart) in enumerate(pairs, 1):
            angle = 2 * math.pi * j * k / n
            along = along + total * math.cos(angle)
            term = apart * (sign * math.sin(angle))
            across = term if across is None else across + term
        up = turned(across, 0.25)
        result[j], result[n - j] = along + up, along - up
    return result
