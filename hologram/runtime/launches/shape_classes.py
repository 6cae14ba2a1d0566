"""Classes of structures: the keys of structures (engine.py) with the sizes of their layouts left open.

The class of a key says which sizes and strides are 0, 1 or equal, which strides follow from which sizes, and their
order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from hologram.foundation.sizes import Trace
from hologram.machine.layout import Layout

MAX_FORMS = 8192  # of shapes with strides that are known without computing them
OPEN = None  # in a form: a size or stride that is left open

# What is known of sizes, of strides, and in which order these are: a number that is no size beyond 1, OPEN, or `(k,)`
# for a stride that steps over axis k.
Form = tuple[tuple[Any, ...], tuple[Any, ...], tuple[int, ...]]


@lru_cache(MAX_FORMS)
def form_of(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[Form, tuple[int, ...]]:
    """The form of a shape with strides, and the numbers that it leaves open, in order."""
    numbers: list[int] = []
    sizes = [_mark(n, numbers) for n in shape]
    axes = range(len(shape))
    steps = [_over(k, shape, strides) or _mark(strides[k], numbers) for k in axes]
    order = sorted(axes, key=strides.__getitem__)
    return (tuple(sizes), tuple(steps), tuple(order)), tuple(numbers)


def _mark(n: int, numbers: list[int]) -> int | None:
    if n < 2:
        return n
    numbers.append(n)
    return OPEN


def _over(axis: int, shape: Sequence[int], strides: Sequence[int]) -> tuple[int] | None:
    """The axis that a stride steps over, if there is one: first among those behind it."""
    step = strides[axis]
    if step > 1:
        for k in (*range(axis + 1, len(shape)), *range(axis)):
            if shape[k] > 1 and 0 < strides[k] and strides[k] * shape[k] == step:
                return (k,)
    return None


def lifted(form: Form, numbers: Iterator[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The shape and strides of a form, with these numbers for those that it leaves open."""
    sizes, steps, _ = form
    shape = tuple([next(numbers) if n is OPEN else n for n in sizes])
    own = [next(numbers) if step is OPEN else step for step in steps]

    def stride(axis: int) -> Any:
        step = own[axis]
        return stride(step[0]) * shape[step[0]] if type(step) is tuple else step

    return shape, tuple(map(stride, range(len(shape))))


def class_of(key: Sequence[Any]) -> tuple[tuple[Any, ...], dict[int, int]]:
    """The class of a key, and the sizes that it leaves open with their numbers."""
    parts: list[Any] = []
    sizes: dict[int, int] = {}
    for item in key:
        if type(item) is Layout:
            form, numbers = form_of(item.shape, item.strides)
            parts += (form, item.dtype, item.offset, item.repeats)
            for n in numbers:
                parts.append(sizes.setdefault(n, len(sizes)))
        else:
            parts.append(item)
    return tuple(parts), sizes


def lifted_layouts(key: Sequence[Any], sizes: dict[int, int], trace: Trace) -> list[Layout]:
    """The layouts of a key with sizes of a trace."""
    symbols = [trace.symbol(n) for n in sizes]
    layouts = []
    for item in key:
        if type(item) is Layout:
            form, numbers = form_of(item.shape, item.strides)
            shape, strides = lifted(form, iter([symbols[sizes[n]] for n in numbers]))
            layouts.append(Layout(item.dtype, shape, strides, item.offset, item.repeats))
    return layouts
