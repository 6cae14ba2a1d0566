"""Classes of structures: the keys of structures (engine.py) with the sizes of their layouts left open.

The class of a key says which sizes and strides are 0, 1 or equal, and which strides follow from which sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from hologram.layout import Layout
from hologram.sizes import Trace

MAX_FORMS = 8192  # of layouts that are known without computing them
OPEN = None  # in a form: a size or stride that is left open

# Of a layout: its dtype, offset and whether it repeats, and what is known of its sizes and of its strides: a number that is no size beyond
# 1, OPEN, or `(k,)` for a stride that steps over axis k.
Form = tuple[Any, ...]


@lru_cache(MAX_FORMS)
def form_of(layout: Layout) -> tuple[Form, tuple[int, ...]]:
    """A layout's form, and the numbers that it leaves open, in order."""
    shape, strides = layout.shape, layout.strides
    found: list[int] = []
    sizes = [_mark(n, found) for n in shape]
    steps = [_over(k, shape, strides) or _mark(strides[k], found) for k in range(len(shape))]
    return (layout.dtype, layout.offset, layout.repeats, tuple(sizes), tuple(steps)), tuple(found)


def _mark(n: int, found: list[int]) -> int | None:
    if n < 2:
        return n
    found.append(n)
    return OPEN


def _over(axis: int, shape: Sequence[int], strides: Sequence[int]) -> tuple[int] | None:
    """The axis that a stride steps over, if there is one: first among those behind it."""
    step = strides[axis]
    if step > 1:
        for k in (*range(axis + 1, len(shape)), *range(axis)):
            if shape[k] > 1 and 0 < strides[k] and strides[k] * shape[k] == step:
                return (k,)
    return None


def class_of(key: Sequence[Any]) -> tuple[tuple[Any, ...], dict[int, int]]:
    """The class of a key, and the sizes that it leaves open with their numbers."""
    parts: list[Any] = []
    sizes: dict[int, int] = {}
    for item in key:
        if type(item) is Layout:
            form, numbers = form_of(item)
            parts.append(form)
            for n in numbers:
                parts.append(sizes.setdefault(n, len(sizes)))
        else:
            parts.append(item)
    return tuple(parts), sizes


def lifted(key: Sequence[Any], sizes: dict[int, int], trace: Trace) -> list[Layout]:
    """The layouts of a key with sizes of a trace."""
    symbols = [trace.symbol(n) for n in sizes]
    found = []
    for item in key:
        if type(item) is Layout:
            form, numbers = form_of(item)
            found.append(_lifted(form, iter([symbols[sizes[n]] for n in numbers])))
    return found


def _lifted(form: Form, numbers: Iterator[int]) -> Layout:
    dtype, offset, repeats, sizes, steps = form
    shape = tuple([next(numbers) if n is OPEN else n for n in sizes])
    own = [next(numbers) if step is OPEN else step for step in steps]

    def stride(axis: int) -> int:
        step = own[axis]
        return stride(step[0]) * shape[step[0]] if type(step) is tuple else step

    return Layout(dtype, shape, tuple(map(stride, range(len(shape)))), offset, repeats)
