"""Reductions by segment, and slices that begin where tensors say: JAX's names.

Nothing here waits: positions out of range are left out, or moved inside.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from hologram.foundation import dtypes
from hologram.foundation.errors import ShapeError
from hologram.frontend.array_api.creation import asarray
from hologram.frontend.numpy_names.operands import beside
from hologram.frontend.tensor import Tensor
from hologram.machine.arguments import sequence
from hologram.machine.axes import integers, whole
from hologram.opset import creation, indexing, logic, reduce, scattering
from hologram.opset import math as arithmetic
from hologram.opset.forms.accumulator import accumulated
from hologram.opset.forms.types import accumulator


def _segments(who: str, data: Any, segment_ids: Any, num_segments: int | None) -> tuple[Tensor, Tensor, int]:
    """The data as rows, the number of each row's segment, and how many there are: one more holds what is left out."""
    x, ids = beside(data, segment_ids)
    if not x.ndim or ids.shape != x.shape[:1] or not ids.dtype.is_integer:
        raise ShapeError(
            f"{who}: an integer for each of the rows is needed, got {ids.dtype} of {ids.shape} for {x.shape}"
        )
    if num_segments is None:
        num_segments = max(int(reduce.max_(ids)) + 1, 0) if ids.size else 0
    num_segments = whole(num_segments, f"{who}: num_segments")
    if num_segments < 0:
        raise ShapeError(f"{who}: num_segments must be at least 0, got {num_segments}")
    ids = ids.astype(dtypes.i64, copy=False)
    inside = logic.logical_and(logic.greater_equal(ids, 0), logic.less(ids, num_segments))
    return x, logic.where(inside, ids, num_segments), num_segments


def _spread(ids: Tensor, x: Tensor) -> Tensor:
    return ids.reshape((-1, *(1,) * (x.ndim - 1))).expand(x.shape)


def segment_sum(data: Any, segment_ids: Any, num_segments: int | None = None) -> Tensor:
    """The sums of the rows of each segment; 0 of none.

    Numbers that are negative, or not below `num_segments`, are left out. Without it the largest number is waited for.
    """
    x, ids, count = _segments("segment_sum", data, segment_ids, num_segments)
    zeros = x.executor.zeros((count + 1, *x.shape[1:]), x.dtype)
    return indexing.scatter_add(zeros, _spread(ids, x), x, dim=0)[:count]


def segment_mean(data: Any, segment_ids: Any, num_segments: int | None = None) -> Tensor:
    """The means of the rows of each segment; NaN of none. See segment_sum."""
    x, ids, count = _segments("segment_mean", data, segment_ids, num_segments)
    return _segment_mean(x if x.dtype.is_inexact else x.astype(dtypes.f32), ids, count)


@accumulated
def _segment_mean(x: Tensor, ids: Tensor, count: int) -> Tensor:
    held = segment_sum(x.executor.ones(ids.shape, dtypes.i32), ids, count).astype(x.dtype.part)
    return segment_sum(x, ids, count) / held.reshape((-1, *(1,) * (x.ndim - 1)))


def segment_prod(data: Any, segment_ids: Any, num_segments: int | None = None) -> Tensor:
    """The products of the rows of each segment; 1 of none. See segment_sum."""
    return _folded("segment_prod", "prod", 1, data, segment_ids, num_segments)


def segment_max(data: Any, segment_ids: Any, num_segments: int | None = None) -> Tensor:
    """The largest of each segment; -infinity, or the lowest integer, of none. See segment_sum."""
    return _folded("segment_max", "max", None, data, segment_ids, num_segments)


def segment_min(data: Any, segment_ids: Any, num_segments: int | None = None) -> Tensor:
    """The smallest of each segment; infinity, or the highest integer, of none. See segment_sum."""
    return _folded("segment_min", "min", None, data, segment_ids, num_segments)


def _folded(who: str, fold: str, start: Any, data: Any, segment_ids: Any, num_segments: int | None) -> Tensor:
    x, ids, count = _segments(who, data, segment_ids, num_segments)
    if start is None:
        sign = -1 if fold == "max" else 1
        start = sign * math.inf if x.dtype.is_float else x.dtype.lowest if fold == "max" else x.dtype.highest
    begun = x.executor.full((count + 1, *x.shape[1:]), start, x.dtype)
    return scattering.scatter_reduce(begun, _spread(ids, x), x, dim=0, reduce=fold)[:count]


def scatter_mean(x: Any, index: Any, source: Any, *, dim: int, include_self: bool = True) -> Tensor:
    """x with the mean of what scatter would write at a place, and of what was there, if `include_self`."""
    kept, at, given = beside(x, index, source)
    return _scatter_mean(kept, at, given, dim, include_self)


@accumulated
def _scatter_mean(kept: Tensor, at: Tensor, given: Tensor, dim: int, include_self: bool) -> Tensor:
    ones = given.executor.ones(given.shape, dtypes.i32)
    count = indexing.scatter_add(kept.executor.zeros(kept.shape, dtypes.i32), at, ones, dim=dim)
    wide, given = (t.astype(accumulator(t.dtype), copy=False) for t in (kept, given))
    if include_self:
        return indexing.scatter_add(wide, at, given, dim=dim) / (count + 1)
    total = indexing.scatter_add(wide.executor.zeros(wide.shape, wide.dtype), at, given, dim=dim)
    hit = logic.greater(count, 0)
    return logic.where(hit, total / logic.where(hit, count, 1), kept)


def _begins(who: str, x: Tensor, starts: Any, sizes: Sequence[int]) -> list[Tensor]:
    """Where a slice begins along each axis, moved so that it lies inside."""
    several = isinstance(starts, Tensor)
    parts = [starts[k] for k in range(len(sizes))] if several else sequence(starts, f"{who}: starts")
    if (
        len(parts) != x.ndim
        or len(sizes) != x.ndim
        or any(not 0 <= n <= m for n, m in zip(sizes, x.shape, strict=True))
    ):
        raise ShapeError(
            f"{who}: a start for each of {x.ndim} axes, and sizes of at most {x.shape} are needed, got {tuple(sizes)}"
        )
    made = []
    for part, size, extent in zip(parts, sizes, x.shape, strict=True):
        at = beside(x, part)[1].astype(dtypes.i64, copy=False).reshape(())
        at = logic.where(logic.less(at, 0), at + extent, at)
        made.append(arithmetic.minimum(arithmetic.maximum(at, 0), extent - size))
    return made


def dynamic_slice(operand: Any, start_indices: Any, slice_sizes: Sequence[int]) -> Tensor:
    """The slice of such sizes that begins where tensors, or numbers, say; moved inside where it would reach out."""
    x = asarray(operand)
    sizes = integers(slice_sizes, "dynamic_slice: a size")
    for axis, (at, size) in enumerate(
        zip(_begins("dynamic_slice", x, start_indices, sizes), sizes, strict=True)
    ):
        if size != x.shape[axis]:
            x = indexing.index_select(x, creation.arange(x.executor, size) + at, axis=axis)
    return x


def dynamic_update_slice(operand: Any, update: Any, start_indices: Any) -> Tensor:
    """A copy of a tensor with another in the place that dynamic_slice would read."""
    x, new = beside(operand, update)
    inside: Any = None
    placed = new
    for axis, at in enumerate(_begins("dynamic_update_slice", x, start_indices, new.shape)):
        size, extent = new.shape[axis], x.shape[axis]
        place = creation.arange(x.executor, extent) - at
        here = logic.logical_and(logic.greater_equal(place, 0), logic.less(place, size))
        placed = indexing.index_select(placed, logic.where(here, place, 0), axis=axis)
        here = here.reshape([-1 if k == axis else 1 for k in range(x.ndim)])
        inside = here if inside is None else logic.logical_and(inside, here)
    return (
        x.clone()
        if inside is None and not x.ndim
        else logic.where(inside, placed, x).astype(x.dtype, copy=False)
    )
