"""Windows sliding over the spatial axes of images (N, C, ...)."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from hologram.foundation.errors import ShapeError
from hologram.machine.axes import integers
from hologram.machine.layout import Layout


def per_axis(value: int | Sequence[int], axes: int, who: str) -> tuple[int, ...]:
    """A number for each spatial axis."""
    numbers = integers(value, f"{who}: a number for each axis") * (
        1 if isinstance(value, (tuple, list)) else axes
    )
    if len(numbers) != axes:
        raise ShapeError(f"{who}: {axes} numbers are needed, got {value}")
    return numbers


def windows(n: int, kernel: int, stride: int, padding: int, dilation: int, who: str) -> int:
    """How many places a window has along an axis of n elements."""
    if min(kernel, stride, dilation) < 1 or padding < 0:
        raise ShapeError(f"{who}: kernel, stride and dilation must be >= 1 and padding >= 0")
    places = (n + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
    if places < 1:
        raise ShapeError(
            f"{who}: a window of {dilation * (kernel - 1) + 1} does not fit into {n} + 2 * {padding}"
        )
    return places


def window_view(
    x: Layout, window: Sequence[int], places: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> Layout:
    """The elements of every window, where they lie: (n, c, window..., places...)."""
    steps = x.strides[2:]
    within = (step * d for step, d in zip(steps, dilation, strict=True))
    between = (step * s for step, s in zip(steps, stride, strict=True))
    return replace(x, shape=(*x.shape[:2], *window, *places), strides=(*x.strides[:2], *within, *between))


UNROLLED = 16  # taps up to which a window is written out, so that a lane is straight code


def swept(kernel: Sequence[int]) -> tuple[int, ...]:
    """The extents that a program reduces over for a window; none for a small one, see `folded`."""
    return () if math.prod(kernel) <= UNROLLED else tuple(kernel)


def folded(
    window: Sequence[Any],
    kernel: Sequence[int],
    reduce: Callable[[Any], Any],
    join: Callable[[Any, Any], Any],
    element: Callable[[Sequence[Any]], Any],
) -> Any:
    """A window's elements reduced over its coordinates, or, where it is not swept, joined one by one."""
    if window:
        return reduce(element(window))
    return functools.reduce(join, map(element, itertools.product(*map(range, kernel))))
