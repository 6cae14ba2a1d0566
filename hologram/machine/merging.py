"""Layouts with as few axes as describe them, and layouts of layouts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hologram.machine.axes import row_major
from hologram.machine.layout import Layout


def collapse(layouts: Sequence[Layout]) -> tuple[Layout, ...]:
    """The same arrays with as few axes as describe them all: axes of size 1 dropped, regular neighbours merged.

    All layouts must have one shape. At least one axis is left.
    """
    shape = layouts[0].shape
    axes: list[tuple[int, tuple[int, ...]]] = []  # size, a stride for each layout
    for k, n in enumerate(shape):
        strides = tuple(layout.strides[k] for layout in layouts)
        if n == 1:
            continue
        if axes and all(outer == n * inner for outer, inner in zip(axes[-1][1], strides, strict=True)):
            axes[-1] = (axes[-1][0] * n, strides)
        else:
            axes.append((n, strides))
    if not axes:
        axes = [(1, (1,) * len(layouts))]
    sizes = tuple(n for n, _ in axes)
    return tuple(
        replace(layout, shape=sizes, strides=tuple(s[j] for _, s in axes)) for j, layout in enumerate(layouts)
    )


def collapse_apart(
    layouts: Sequence[Layout], cut: int, ended: Sequence[Layout] = ()
) -> tuple[list[Layout], int]:
    """As `collapse`, of the first `cut` axes and of those behind apart; also gives how many the first have become.

    The layouts that have `ended` have the first axes only; they come last.
    """
    first = [Layout(v.dtype, v.shape[:cut], v.strides[:cut], v.offset) for v in (*layouts, *ended)]
    outer = collapse(first)
    inner = collapse([Layout(v.dtype, v.shape[cut:], v.strides[cut:]) for v in layouts])
    joined = [
        replace(a, shape=a.shape + b.shape, strides=a.strides + b.strides)
        for a, b in zip(outer, inner, strict=False)
    ]
    return [*joined, *outer[len(joined) :]], outer[0].ndim


def compose(inner: Layout, outer: Layout) -> Layout | None:
    """Where `inner` lies at the coordinates that `outer` numbers: a layout of the outer shape, or None if none does.

    `outer` gives positions in the row-major order of the inner shape. Each of its strides is split into steps along the
    inner axes; the result exists if no coordinate then leaves its axis.
    """
    (plain,) = collapse([inner])
    weights = row_major(plain.shape)
    starts = digits(outer.offset, weights)
    low, high = list(starts), list(starts)
    offset = plain.offset + sum(d * s for d, s in zip(starts, plain.strides, strict=True))
    strides = []
    for n, stride in zip(outer.shape, outer.strides, strict=True):
        steps = digits(stride, weights) if n > 1 else (0,) * len(weights)
        for axis, step in enumerate(steps):
            low[axis] += min(step * (n - 1), 0)
            high[axis] += max(step * (n - 1), 0)
        strides.append(sum(d * s for d, s in zip(steps, plain.strides, strict=True)))
    inside = all(0 <= a and b < n for a, b, n in zip(low, high, plain.shape, strict=True))
    return Layout(inner.dtype, outer.shape, tuple(strides), offset) if inside else None


def digits(number: int, weights: Sequence[int]) -> tuple[int, ...]:
    """A signed position as steps along axes of those weights, each of the number's sign."""
    digits, rest = [], abs(number)
    for weight in weights:
        digit, rest = divmod(rest, weight)
        digits.append(digit if number >= 0 else -digit)
    return tuple(digits)


def without_unit_strides(layout: Layout) -> Layout:
    """The layout with stride 0 along axes of one element, so that equal ones compare equal."""
    strides = (s if n > 1 else 0 for n, s in zip(layout.shape, layout.strides, strict=True))
    return replace(layout, strides=tuple(strides))
