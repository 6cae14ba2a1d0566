"""Shapes and axes as they are asked for: checked, counted from the front, broadcast."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import index
from typing import Any

from hologram.foundation.errors import AxisError, ShapeError


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides, in elements, of a contiguous array."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


def whole(number: Any, who: str) -> int:
    """An integer of Python or NumPy as Python's; TypeError for anything else, bools included."""
    try:
        if not isinstance(number, bool):
            return number if issubclass(type(number), int) else index(number)  # not what stands for one
    except TypeError:
        pass
    raise TypeError(f"{who} must be an integer, got {number!r}")


def integers(given: Any, who: str) -> tuple[int, ...]:
    """An integer or a sequence of some, as a tuple."""
    return tuple(whole(n, who) for n in (given if isinstance(given, (tuple, list)) else (given,)))


def normalize_axis(axis: int, ndim: int, who: str) -> int:
    """`axis` counted from the front; AxisError if there is none such."""
    axis = whole(axis, f"{who}: axis")
    if not -ndim <= axis < ndim:
        raise AxisError(f"{who}: axis must lie in [-{ndim}, {ndim}), got {axis}")
    return axis % ndim


def normalize_axes(axes: int | Sequence[int] | None, ndim: int, who: str) -> tuple[int, ...]:
    """Axes counted from the front, in order; None means all."""
    if axes is None:
        return tuple(range(ndim))
    named: Any = axes if isinstance(axes, (tuple, list)) else (axes,)
    numbers = tuple(normalize_axis(a, ndim, who) for a in named)
    if len(set(numbers)) != len(numbers):
        raise ShapeError(f"{who}: axes must differ, got {axes}")
    return tuple(sorted(numbers))


def resolve_shape(shape: Sequence[int], size: int) -> tuple[int, ...]:
    """`shape` with one -1 replaced so that it holds `size` elements."""
    shape = tuple(shape)
    if shape.count(-1) == 1:
        rest = math.prod(n for n in shape if n != -1)
        if rest and size % rest == 0:
            shape = tuple(size // rest if n == -1 else n for n in shape)
    if any(n < 0 for n in shape) or math.prod(shape) != size:
        raise ShapeError(f"reshape: a shape of {size} elements is needed, got {shape}")
    return shape


def broadcast(shapes: Sequence[tuple[int, ...]], who: str) -> tuple[int, ...]:
    """The shape NumPy broadcasting gives."""
    result: list[int] = []
    for axis in range(-max((len(s) for s in shapes), default=0), 0):
        size = 1
        for s in shapes:
            if len(s) >= -axis and s[axis] != 1 and s[axis] != size:
                if size != 1:
                    raise ShapeError(f"{who}: shapes must broadcast, got {' and '.join(map(str, shapes))}")
                size = s[axis]
        result.append(size)
    return tuple(result)


def count(number: Any, who: str) -> int:
    """A whole number of at least 0; `who` names it in errors."""
    if whole(number, who) < 0:
        raise ShapeError(f"{who} must be at least 0, got {number}")
    return whole(number, who)
