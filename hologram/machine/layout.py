"""Layouts: how a strided array lies in a buffer, and what can be done to one without touching memory."""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from numbers import Integral
from operator import index
from types import EllipsisType
from typing import Any

from hologram.foundation.dtypes import DType
from hologram.foundation.errors import ShapeError
from hologram.machine.axes import normalize_axis, resolve_shape, row_major, whole

Index = int | slice | None | EllipsisType

MAX_VIEWS = 8192  # that are known without computing them


@dataclass(frozen=True, eq=False, init=False)
class Layout:
    """Dtype, shape, strides and offset of an array; strides and offset count elements, strides may be 0 or negative.

    Equal layouts are one object: they are compared, hashed and looked up by identity, and what follows from one is
    computed once. `repeats` marks a part of what `expand` repeats where strides no longer show it.
    """

    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    repeats: bool = field(default=False, repr=False)

    def __new__(
        cls,
        dtype: DType,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        offset: int = 0,
        repeats: bool = False,
    ) -> Layout:
        key = (dtype, shape, strides, offset, repeats)
        layout = _layouts.get(key)
        if layout is None:
            with _lock:  # so that two threads do not make two
                layout = _layouts.get(key)
                if layout is None:
                    layout = object.__new__(cls)
                    layout.__dict__.update(
                        dtype=dtype, shape=shape, strides=strides, offset=offset, repeats=repeats
                    )
                    _layouts[key] = layout
        return layout

    def __reduce__(self) -> tuple[Any, ...]:
        return (Layout, (self.dtype, self.shape, self.strides, self.offset, self.repeats))

    @staticmethod
    def contiguous(dtype: DType, shape: Sequence[int]) -> Layout:
        """Row-major without gaps."""
        return Layout(dtype, tuple(shape), row_major(shape))

    @cached_property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @cached_property
    def is_contiguous(self) -> bool:
        """Whether elements follow each other in row-major order without gaps."""
        expected = 1
        for n, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if n != 1 and stride != expected:
                return self.size == 0
            expected *= n
        return True

    @cached_property
    def is_writable(self) -> bool:
        """Whether no element stands for others as well, here or in what this is a part of, as in NumPy."""
        shared = any(s == 0 and n > 1 for s, n in zip(self.strides, self.shape, strict=True))
        return not self.size or not (shared or self.repeats)

    @cached_property
    def span(self) -> tuple[int, int]:
        """Lowest and one past the highest element position that is touched; (0, 0) if none is."""
        if not self.size:
            return (0, 0)
        reach = [stride * (n - 1) for n, stride in zip(self.shape, self.strides, strict=True)]
        return (
            self.offset + sum(r for r in reach if r < 0),
            self.offset + sum(r for r in reach if r > 0) + 1,
        )

    def placed(self, alignment: int) -> tuple[Layout, int]:
        """The layout seen from the last multiple of `alignment` bytes before its elements, and where that is, in bytes.

        Layouts that differ in where they begin alone are then one.
        """
        placed = self._placed.get(alignment)
        if placed is None:
            itemsize = self.dtype.itemsize
            step = math.lcm(alignment, itemsize)
            first = self.span[0] * itemsize // step * step
            moved = self if not first else replace(self, offset=self.offset - first // itemsize)
            placed = self._placed[alignment] = (moved, first)
        return placed

    @cached_property
    def _placed(self) -> dict[int, tuple[Layout, int]]:
        return {}

    @cached_property
    def reach_bytes(self) -> int:
        """Bytes from position 0 to the end of its last element."""
        return self.span[1] * self.dtype.itemsize

    def parts(self) -> Layout:
        """Of complex numbers: their parts along a new last axis."""
        strides = (*(2 * s for s in self.strides), 1)
        return replace(
            self, dtype=self.dtype.part, shape=(*self.shape, 2), strides=strides, offset=2 * self.offset
        )

    def part(self, k: int) -> Layout:
        """Of complex numbers: the real parts (0), or the imaginary ones (1)."""
        return self.parts().select(-1, k)

    def joined(self) -> Layout | None:
        """The complex numbers whose parts lie side by side along the last axis; None where they do not."""
        steps = (*self.strides[:-1], self.offset)
        if self.strides[-1] != 1 or any(step % 2 for step in steps):
            return None
        *strides, offset = (step // 2 for step in steps)
        return replace(
            self, dtype=self.dtype.complex, shape=self.shape[:-1], strides=tuple(strides), offset=offset
        )

    def permute(self, axes: Sequence[int]) -> Layout:
        order = tuple(normalize_axis(a, self.ndim, "permute") for a in axes)
        if sorted(order) != list(range(self.ndim)):
            raise ShapeError(f"permute: axes must name each of {self.ndim} axes once, got {tuple(axes)}")
        return replace(
            self, shape=tuple(self.shape[a] for a in order), strides=tuple(self.strides[a] for a in order)
        )

    def expand(self, shape: Sequence[int]) -> Layout:
        """Broadcast to `shape` by NumPy's rules."""
        shape = tuple(shape)
        lead = len(shape) - self.ndim
        pairs = tuple(zip(self.shape, shape[max(lead, 0) :], strict=False))
        if lead < 0 or any(n not in (1, wanted) for n, wanted in pairs) or any(n < 0 for n in shape):
            raise ShapeError(f"expand: {self.shape} cannot be broadcast to {shape}")
        kept = [stride if n == wanted else 0 for stride, (n, wanted) in zip(self.strides, pairs, strict=True)]
        strides = [0] * lead + kept
        return replace(self, shape=shape, strides=tuple(strides))

    def narrow(self, axis: int, start: int, length: int, step: int = 1) -> Layout:
        """`length` positions along an axis: start, start + step, ... The caller has checked the range."""
        shape, strides = list(self.shape), list(self.strides)
        offset = self.offset + (start * strides[axis] if length else 0)
        repeats = self.repeats or (not strides[axis] and shape[axis] > 1 >= length)
        shape[axis], strides[axis] = length, strides[axis] * step
        return replace(self, shape=tuple(shape), strides=tuple(strides), offset=offset, repeats=repeats)

    def select(self, axis: int, position: int) -> Layout:
        """One position along an axis, which disappears."""
        axis, position = normalize_axis(axis, self.ndim, "select"), whole(position, "select: position")
        n = self.shape[axis]
        if not -n <= position < n:
            raise IndexError(f"select: position must lie in [-{n}, {n}) along axis {axis}, got {position}")
        return self.narrow(axis, position % n, 1).squeeze(axis)

    def slice(
        self, axis: int, start: int | None = None, stop: int | None = None, step: int | None = None
    ) -> Layout:
        """A Python slice along one axis; the step may be negative."""
        axis = normalize_axis(axis, self.ndim, "slice")
        if step == 0:
            raise ShapeError("slice: the step must not be 0")
        by = 1 if step is None else whole(step, "slice: the step")
        first, last = _bounds(start, stop, by, self.shape[axis])
        length = -((first - last) // by) if by > 0 else -((last - first) // -by)
        return self.narrow(axis, first, max(length, 0), by)

    def transpose(self, first: int, second: int) -> Layout:
        """Two axes exchanged."""
        order = list(range(self.ndim))
        a, b = (normalize_axis(axis, self.ndim, "transpose") for axis in (first, second))
        order[a], order[b] = order[b], order[a]
        return self.permute(order)

    def squeeze(self, axis: int) -> Layout:
        keep = [k for k in range(self.ndim) if k != axis]
        return replace(
            self, shape=tuple(self.shape[k] for k in keep), strides=tuple(self.strides[k] for k in keep)
        )

    def unsqueeze(self, axis: int) -> Layout:
        shape, strides = list(self.shape), list(self.strides)
        shape.insert(axis, 1)
        strides.insert(axis, 0)
        return replace(self, shape=tuple(shape), strides=tuple(strides))

    def reshape(self, shape: Sequence[int]) -> Layout | None:
        """The same elements in another shape, or None where that needs a copy."""
        shape = resolve_shape(shape, self.size)
        if not self.size:
            return replace(self, shape=shape, strides=row_major(shape))
        # Merge what lies regularly, then split each run into the new axes it must hold.
        runs: list[list[int]] = []  # size, stride
        for n, stride in zip(self.shape, self.strides, strict=True):
            if n == 1:
                continue
            if runs and runs[-1][1] == n * stride:
                runs[-1] = [runs[-1][0] * n, stride]
            else:
                runs.append([n, stride])
        strides: list[int] = []
        pending = runs[::-1]
        left, step = pending.pop() if pending else (1, 1)
        for n in shape:
            if n == 1:
                strides.append(0)
                continue
            if left == 1:
                left, step = pending.pop()
            if left % n:
                return None
            left //= n
            strides.append(step * left)
        return replace(self, shape=shape, strides=tuple(strides))


_layouts: weakref.WeakValueDictionary[Any, Layout] = weakref.WeakValueDictionary()
_lock = threading.RLock()  # entered again where making a layout collects garbage


@lru_cache(maxsize=MAX_VIEWS, typed=True)  # True and 1.0 are no integers, though they equal 1
def cached_view(layout: Layout, how: Callable[..., Layout | None], *arguments: Any) -> Any:
    """What `how(layout, *arguments)` gives, computed once."""
    return how(layout, *arguments)


def hashable(position: Any) -> list[Any] | None:
    """The items of an index, each slice as `slice` and its three numbers: before Python 3.12 it has no hash.

    None where an item is neither an integer, a slice, None nor ...: an array, that is.
    """
    items: list[Any] = []
    for item in position if isinstance(position, tuple) else (position,):
        if isinstance(item, slice):
            items += slice, item.start, item.stop, item.step
        elif type(item) is int or item is None or item is Ellipsis or _is_integer(item):
            items.append(item)
        else:
            return None
    return items


def _bounds(start: int | None, stop: int | None, step: int, n: int) -> tuple[int, int]:
    """As `slice.indices`, in arithmetic."""
    low, high = (0, n) if step > 0 else (-1, n - 1)

    def bound(given: int | None, default: int) -> int:
        if given is None:
            return default
        given = int(given) if isinstance(given, bool) else whole(given, "slice: a bound")
        return max(given + n, low) if given < 0 else min(given, high)

    return bound(start, low if step > 0 else high), bound(stop, high if step > 0 else low)


def _is_integer(item: Any) -> bool:
    return isinstance(item, Integral) and not isinstance(item, bool)


def indexed(layout: Layout, *position: Any) -> Layout:
    """The part that `tensor[position]` is: integers, slices (see `hashable`), None and ... in NumPy's meaning."""
    given = iter(position)
    items = [slice(next(given), next(given), next(given)) if item is slice else item for item in given]
    used = sum(item is not None and item is not Ellipsis for item in items)
    if used > layout.ndim or sum(item is Ellipsis for item in items) > 1:
        raise IndexError(f"too many indices for a tensor of {layout.ndim} axes: {tuple(items)}")
    if Ellipsis not in items:
        items.append(Ellipsis)
    axis, free = 0, layout.ndim - used
    for item in items:
        if item is None:
            layout, axis = layout.unsqueeze(axis), axis + 1
        elif item is Ellipsis:
            axis += free
        elif isinstance(item, slice):
            layout, axis = layout.slice(axis, item.start, item.stop, item.step), axis + 1
        else:
            layout = layout.select(axis, index(item))
    return layout
