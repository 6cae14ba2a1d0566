"""Order along an axis, what is found by it, and distinct elements."""

from __future__ import annotations

import math
from typing import Any

import hologram as hg
from hologram.frontend.tensor import Tensor
from hologram_torch.aten.indexing.positions import named
from hologram_torch.aten.reductions import ordered
from hologram_torch.kernels.registry import implements


def _placed(x: Tensor, dim: int, descending: bool = False) -> tuple[Tensor, Tensor]:
    """The elements in order, and their positions."""
    n = x.shape[dim] if x.ndim else 1
    if not x.size:
        return x, x.executor.empty(x.shape, "i64")
    return hg.topk(x, k=n, axis=dim, largest=descending)


@implements("sort", by_class=True)
def sort(x: Any, dim: int = -1, descending: bool = False) -> Any:
    return _placed(x, dim, descending)


@implements("sort.stable", by_class=True)
def sort_stably(x: Any, *, stable: bool | None = None, dim: int = -1, descending: bool = False) -> Any:
    """Every order is stable."""
    return _placed(x, dim, descending)


@implements("topk")
def topk(x: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    if not x.ndim:
        return x, x.executor.zeros((), "i64")
    if not k or not x.size:
        shape = tuple(k if axis == dim % x.ndim else n for axis, n in enumerate(x.shape))
        return x.executor.empty(shape, x.dtype), x.executor.empty(shape, "i64")
    return hg.topk(x, k=k, axis=dim, largest=largest)


def _at(values: Tensor, order: Tensor, place: Tensor, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    """What stands at a place of each row in order, and where it stood before; `place` has the rows' shape, kept."""
    pair = hg.gather(values, place, dim=dim), hg.gather(order, place, dim=dim)
    return pair if keepdim else (pair[0].squeeze(dim), pair[1].squeeze(dim))


@implements("kthvalue")
def kthvalue(x: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    if not x.ndim:
        return x, x.executor.zeros((), "i64")
    values, order = _placed(x, dim)
    pair = values.narrow(dim, k - 1, 1), order.narrow(dim, k - 1, 1)
    return pair if keepdim else (pair[0].squeeze(dim), pair[1].squeeze(dim))


def _median(x: Tensor, dim: int, keepdim: bool, skip_nan: bool) -> tuple[Tensor, Tensor]:
    """The lower one of the two in the middle; NaN, the first one, if there is any, or of what is no NaN."""
    if not x.ndim:
        return x, x.executor.zeros((), "i64")
    values, order = _placed(x, dim)
    n = x.shape[dim]
    if not x.dtype.is_float:
        middle = (n - 1) // 2
        pair = values.narrow(dim, middle, 1), order.narrow(dim, middle, 1)
        return pair if keepdim else (pair[0].squeeze(dim), pair[1].squeeze(dim))
    missing = hg.sum(hg.isnan(x), axis=dim, keepdims=True)  # they are last
    if skip_nan:
        place = hg.maximum(hg.floor_divide(n - missing - 1, 2), 0)
    else:
        place = hg.where(hg.greater(missing, 0), n - missing, (n - 1) // 2)
    return _at(values, order, place, dim, keepdim)


def _medians(name: str, skip_nan: bool) -> None:
    @implements(name)
    def whole(x: Any) -> Any:
        if not x.size:
            return x.executor.full((), math.nan if x.dtype.is_float else 0, x.dtype)
        return _median(x.reshape(x.size), 0, False, skip_nan)[0]

    @implements(f"{name}.dim")
    def along(x: Any, dim: int, keepdim: bool = False) -> Any:
        return _median(x, dim, keepdim, skip_nan)


_medians("median", False)
_medians("nanmedian", True)


@implements("mode", inferred=False)
def mode(x: Any, dim: int = -1, keepdim: bool = False) -> Any:
    """The smallest of the most frequent elements, and the last position where it stands."""
    if not x.ndim:
        return x, x.executor.zeros((), "i64")
    dim %= x.ndim
    values, order = _placed(x, dim)
    n = x.shape[dim]
    across = tuple(n if k == dim else 1 for k in range(x.ndim))
    column = hg.arange(x.executor, 0, n).reshape(across).expand(x.shape)
    begins = hg.not_equal(values.narrow(dim, 1, n - 1), values.narrow(dim, 0, n - 1))
    later = hg.where(begins, column.narrow(dim, 1, n - 1), 0)
    starts, _ = hg.cummax(hg.concat([column.narrow(dim, 0, 1), later], axis=dim), axis=dim)
    last = hg.argmax(column - starts, axis=dim, keepdims=True)
    return _at(values, order, last, dim, keepdim)


# Distinct elements.


@implements("_unique2", inferred=False)
def unique(x: Any, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False) -> Any:
    """The distinct elements in order; the inverse where it or the counts are asked for, as PyTorch."""
    flat = x.reshape(x.size)
    values, order = _placed(flat, 0)
    none = x.executor.empty((0,), "i64")
    if not x.size:
        return values, x.executor.empty(x.shape, "i64") if return_inverse else none, none
    return _groups(values, _changes(values), order, x.shape, return_inverse, return_counts)


@implements("_unique", inferred=False)
def unique_alone(x: Any, sorted: bool = True, return_inverse: bool = False) -> Any:
    """The distinct elements, and the inverse where it is asked for."""
    return unique(x, sorted, return_inverse)[:2]


def _changes(values: Tensor) -> Tensor:
    """Whether an element, or slice, along the first axis differs from the one before it."""
    differs = hg.not_equal(values[1:], values[:-1])
    if differs.ndim > 1:
        differs = hg.any(differs, axis=tuple(range(1, differs.ndim)))
    return hg.concat([values.executor.ones(1, "bool"), differs])


def _groups(
    values: Tensor,
    changes: Tensor,
    order: Tensor | None,
    shape: tuple[int, ...],
    return_inverse: bool,
    return_counts: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """The first of each run, which run each element is in (where it stood before an order was made), their lengths."""
    starts = named("unique", changes)
    inverse = counts = values.executor.empty((0,), "i64")
    n = values.shape[0]
    if return_inverse:
        inverse = hg.cumsum(changes, axis=0) - 1
        inverse = inverse if order is None else hg.scatter(inverse, order, inverse, dim=0)
        inverse = inverse.reshape(shape)
    if return_counts:
        counts = hg.concat([starts[1:], values.executor.full(1, n, "i64")]) - starts
    return hg.index_select(values, starts, axis=0), inverse, counts


@implements("unique_consecutive", inferred=False)
def unique_consecutive(
    x: Any, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    values = x.reshape(x.size) if dim is None else x.permute(_front(x.ndim, dim))
    shape = x.shape if dim is None else (values.shape[0],)
    none = x.executor.empty((0,), "i64")
    if not values.shape[0]:
        return (
            x if dim is not None else values,
            x.executor.empty(shape, "i64") if return_inverse else none,
            none,
        )
    distinct, inverse, counts = _groups(values, _changes(values), None, shape, return_inverse, return_counts)
    return distinct if dim is None else distinct.permute(_back(x.ndim, dim)), inverse, counts


@implements("unique_dim_consecutive", inferred=False)
def unique_dim_consecutive(
    x: Any, dim: int, return_inverse: bool = False, return_counts: bool = False
) -> Any:
    return unique_consecutive(x, return_inverse, return_counts, dim)


@implements("unique_dim", inferred=False)
def unique_dim(
    x: Any, dim: int, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> Any:
    """The distinct slices along an axis, in the order of their elements: sorted by the last one first, stably."""
    values = x.permute(_front(x.ndim, dim))
    n = values.shape[0]
    none = x.executor.empty((0,), "i64")
    if not n or not x.size:
        if x.size or n:
            raise RuntimeError("hologram, unique_dim: There are 0 sized dimensions, and they aren't selected")
        return x, none, none
    columns = values.reshape(n, x.size // n)
    order = hg.arange(x.executor, 0, n)
    for k in reversed(range(columns.shape[1])):
        key = hg.index_select(columns.select(1, k), order, axis=0)
        order = hg.index_select(order, hg.argsort(key, axis=0), axis=0)
    values = hg.index_select(values, order, axis=0)
    distinct, inverse, counts = _groups(values, _changes(values), order, (n,), True, True)
    return distinct.permute(_back(x.ndim, dim)), inverse, counts


def _front(ndim: int, axis: int) -> list[int]:
    if not ndim:
        raise IndexError(f"hologram, unique: Dimension specified as {axis} but tensor has no dimensions")
    return [axis % ndim, *(k for k in range(ndim) if k != axis % ndim)]


def _back(ndim: int, axis: int) -> list[int]:
    order = _front(ndim, axis)
    return [order.index(k) for k in range(ndim)]


@implements("repeat_interleave.Tensor", inferred=False)
def repeat_interleave(repeats: Any, *, output_size: int | None = None) -> Any:
    """Every position as often as a number says."""
    if repeats.size and hg.min(repeats).item() < 0:
        raise RuntimeError("hologram, repeat_interleave: repeats can not be negative")
    ends = hg.cumsum(repeats.astype("i64", copy=False), axis=0)
    total = int(ends[-1].item()) if repeats.size else 0
    if output_size is not None and output_size != total:
        raise RuntimeError(
            f"hologram, repeat_interleave: output_size {output_size} is not the sum of repeats, {total}"
        )
    positions = hg.searchsorted(ends, hg.arange(repeats.executor, 0, total), side="right")
    return positions.astype(repeats.dtype, copy=False)


# Searching.


@implements("searchsorted.Tensor", "searchsorted.Scalar")
def searchsorted(
    sorted_sequence: Any,
    x: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Any:
    x = x if isinstance(x, Tensor) else sorted_sequence.executor.tensor(x)
    side = side or ("right" if right else "left")
    return hg.searchsorted(sorted_sequence, x, sorter, side=side, nan_last=False)


@implements("bucketize.Tensor", "bucketize.Scalar")
def bucketize(x: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    if boundaries.ndim != 1:
        raise RuntimeError(
            f"hologram, bucketize: boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})"
        )
    return searchsorted(boundaries, x, right=right).astype("i32" if out_int32 else "i64", copy=False)


@implements("isin.Tensor_Tensor", "isin.Tensor_Scalar")
def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Any:
    if not isinstance(test_elements, Tensor):
        return hg.not_equal(elements, test_elements) if invert else hg.equal(elements, test_elements)
    return hg.isin(ordered(elements), ordered(test_elements), invert=invert)
