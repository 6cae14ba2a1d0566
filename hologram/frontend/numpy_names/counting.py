"""What is counted, found or told apart among elements; sizes that only elements tell are waited for."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hologram.foundation import dtypes
from hologram.foundation.errors import ShapeError, UnsupportedDType
from hologram.frontend.array_api.creation import asarray
from hologram.frontend.array_api.searching import nonzero, unique_all
from hologram.frontend.indexing import flat_nonzero
from hologram.frontend.numpy_names.operands import beside, floating, inexact, on_host, widened
from hologram.frontend.tensor import Tensor
from hologram.machine.axes import normalize_axis, whole
from hologram.opset import creation, indexing, logic, movement, reduce, scan, searching, sort
from hologram.opset import math as arithmetic
from hologram.runtime.dispatch import deferred


def flatnonzero(a: Any) -> Tensor:
    """The positions (i64), counted flat, of the elements that are not 0."""
    return flat_nonzero(asarray(a))


def argwhere(a: Any) -> Tensor:
    """The positions (i64) of the elements that are not 0, a row each."""
    x = asarray(a)
    if not x.ndim:
        return x.executor.zeros((int(bool(x)), 0), dtypes.i64)
    return movement.stack(nonzero(x), axis=1)


def bincount(x: Any, weights: Any = None, minlength: int = 0, *, length: int | None = None) -> Tensor:
    """How often each number from 0 on occurs (i64), or the sums of their weights (f64, where the device has it).

    The result is as long as the largest number asks for, which is waited for; `length` says it instead, and what is
    not below it is left out.
    """
    given = asarray(x)
    if given.ndim != 1 or not (given.dtype.is_integer or given.dtype.kind == "bool"):
        raise UnsupportedDType(
            f"bincount: a vector of integers is needed, got {given.dtype} of shape {given.shape}"
        )
    minlength = whole(minlength, "bincount: minlength")
    if minlength < 0:
        raise ValueError(f"bincount: minlength must be at least 0, got {minlength}")
    if length is None:
        length = minlength
        if given.size:
            if int(reduce.min_(given)) < 0:
                raise ValueError("bincount: numbers must not be negative")
            length = max(minlength, int(reduce.max_(given)) + 1)
    if weights is None:
        added: Any = given.executor.ones(given.shape, dtypes.i64)
    else:
        added = widened(floating(beside(given, weights)[1], "bincount: weights"))
        if added.shape != given.shape:
            raise ShapeError(f"bincount: as many weights are needed, got {given.shape} and {added.shape}")
    return counted(given.astype(dtypes.i64, copy=False), added, length)


def counted(places: Tensor, added: Tensor, length: int) -> Tensor:
    """Sums by place; what is negative or not below the length is left out."""
    inside = logic.logical_and(logic.greater_equal(places, 0), logic.less(places, length))
    kept = logic.where(inside, places, length)
    zeros = places.executor.zeros((length + 1,), added.dtype)
    return indexing.scatter_add(zeros, kept, added, dim=0)[:length]


def digitize(x: Any, bins: Any, right: bool = False) -> Tensor:
    """Which bin each element is in (i64): bins[i - 1] <= x < bins[i], or bins[i - 1] < x <= bins[i] for `right`.

    Bins may fall as well as rise, then all comparisons turn round. A traced function takes a tensor of bins for rising.
    """
    values, edges = beside(x, bins)
    if edges.ndim != 1:
        raise ShapeError(f"digitize: bins must be a vector, got shape {edges.shape}")
    falling = False
    if not unknown(bins):
        numbers = on_host(bins, "digitize: bins")
        falling = bool(np.any(numbers[1:] < numbers[:-1]))
        if falling and np.any(numbers[1:] > numbers[:-1]):
            raise ValueError("digitize: bins must rise or fall throughout")
    if not falling:
        return searching.searchsorted(edges, values, side="left" if right else "right")
    found = searching.searchsorted(edges[::-1], values, side="left" if right else "right")
    return edges.shape[0] - found


def unknown(x: Any) -> bool:
    """Whether it is a tensor in a traced function, whose elements nobody knows yet."""
    return deferred() and isinstance(x, Tensor)


def interp(
    x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: float | None = None
) -> Tensor:
    """The piecewise linear function through (xp, fp), at x; xp must rise. Outside: `left`, `right`, else the ends.

    The result is f64 or c128 where the device has them. With a `period` xp may lie in any order, and there is no
    outside.
    """
    at, known, values = beside(x, xp, fp)
    at, known = widened(floating(at, "interp: x")), widened(floating(known, "interp: xp"))
    values = widened(inexact(values))
    if known.ndim != 1 or known.shape != values.shape or not known.size:
        raise ShapeError(
            f"interp: vectors of one size, 1 at least, are needed, got {known.shape} and {values.shape}"
        )
    if period is not None:
        if not period:
            raise ValueError("interp: the period must not be 0")
        size = abs(float(period))
        at, known = arithmetic.remainder(at, size), arithmetic.remainder(known, size)
        order = sort.argsort(known)
        known, values = indexing.index_select(known, order), indexing.index_select(values, order)
        known = movement.concat([known[-1:] - size, known, known[:1] + size])
        values = movement.concat([values[-1:], values, values[:1]])
    n = known.shape[0]
    flat = at.reshape(at.size)
    upper = arithmetic.minimum(
        arithmetic.maximum(searching.searchsorted(known, flat, side="right"), 1), max(n - 1, 1)
    )
    upper = arithmetic.minimum(upper, n - 1)
    lower = arithmetic.maximum(upper - 1, 0)
    x0, x1, y0, y1 = (indexing.index_select(t, k) for t in (known, values) for k in (lower, upper))
    width = x1 - x0
    flat_there = logic.equal(width, 0.0)
    weight = logic.where(flat_there, 0.0, (flat - x0) / logic.where(flat_there, 1.0, width))
    rise = y1 - y0
    found = y0 + rise * weight
    other = logic.where(
        logic.equal(y0, y1), y0, y1 + rise * (weight - 1.0)
    )  # beside infinite values, as NumPy
    other = logic.where(logic.equal(flat, x0), y0, other)
    found = logic.where(logic.isnan(found), other, found)
    found = logic.where(logic.equal(flat, x1), y1, found)
    below = values[0] if left is None or period is not None else left
    above = values[n - 1] if right is None or period is not None else right
    found = logic.where(logic.less(flat, known[0]), below, found)
    found = logic.where(logic.greater(flat, known[n - 1]), above, found)
    return logic.where(logic.isnan(flat), math.nan, found).reshape(at.shape)


def unique(
    ar: Any, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False,
    axis: int | None = None, *, equal_nan: bool = True,
) -> Any:  # fmt: skip
    """The distinct elements in order, or the distinct slices along an axis; waits, and cannot be traced.

    Beside them, as asked: where each occurs first, which of them is at each place, and how often each occurs (i64).
    Several NaN are one unless `equal_nan` is false.
    """
    x = asarray(ar)
    if axis is None:
        found = list(unique_all(x))
        if equal_nan and x.dtype.is_inexact:
            found = _joined(found)
    else:
        found = _slices(x, normalize_axis(axis, x.ndim, "unique"))
    wanted = (True, return_index, return_inverse, return_counts)
    asked = [part for part, yes in zip(found, wanted, strict=True) if yes]
    return asked[0] if len(asked) == 1 else tuple(asked)


def _joined(found: list[Tensor]) -> list[Tensor]:
    """NaN, which are last, as one."""
    values, first, inverse, counts = found
    missing = int(reduce.sum_(logic.isnan(values)))
    if missing < 2:
        return found
    kept = values.size - missing + 1
    last = reduce.sum_(counts[kept - 1 :]).reshape(1)
    return [
        values[:kept],
        first[:kept],
        arithmetic.minimum(inverse, kept - 1),
        movement.concat([counts[: kept - 1], last]),
    ]


def _slices(x: Tensor, axis: int) -> list[Tensor]:
    """The distinct slices along an axis: put in order by their elements, from the last to the first."""
    n = x.shape[axis]
    rest = x.permute((axis, *(k for k in range(x.ndim) if k != axis)))
    table = rest.reshape(n, x.size // n if n else 0)
    order = creation.arange(x.executor, n)
    for column in reversed(range(table.shape[1])):
        key = indexing.index_select(table[:, column], order)
        order = indexing.index_select(order, sort.argsort(key))
    ordered = indexing.index_select(table, order)
    first = x.executor.ones(min(n, 1), dtypes.bool_)
    differs = reduce.any_(logic.not_equal(ordered[1:], ordered[:-1]), axis=1) if n else first
    begins = movement.concat([first, differs]) if n else first
    starts = flat_nonzero(begins)
    index = indexing.index_select(order, starts)
    inverse = indexing.scatter(order * 0, order, scan.cumsum(begins) - 1, dim=0) if n else order
    ends = movement.concat([starts[1:], x.executor.full(min(n, 1), n, dtypes.i64)])
    values = indexing.index_select(x, index, axis=axis)
    return [values, index, inverse, ends - starts]


def union1d(ar1: Any, ar2: Any) -> Tensor:
    """The distinct elements of both, in order."""
    a, b = beside(ar1, ar2)
    return unique(movement.concat([a.reshape(a.size), b.reshape(b.size)]))


def intersect1d(ar1: Any, ar2: Any, assume_unique: bool = False, return_indices: bool = False) -> Any:
    """The distinct elements that both have, in order; beside them, as asked, where each occurs first in either (i64).

    `assume_unique` says that elements are distinct already, which nothing depends on.
    """
    a, b = beside(ar1, ar2)
    common = dtypes.promote(a.dtype, b.dtype)
    a, b = a.astype(common, copy=False), b.astype(common, copy=False)
    values, first = unique(a, return_index=True)
    others, then = unique(b, return_index=True)
    both = searching.isin(values, others)
    if not return_indices:
        return values[both]
    return values[both], first[both], then[searching.isin(others, values)]


def setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Tensor:
    """The distinct elements of the first that the second has not, in order.

    With `assume_unique` all elements of the first that the second has not, in the order in which they are.
    """
    a, b = beside(ar1, ar2)
    values = a.reshape(a.size) if assume_unique else unique(a)
    return values[searching.isin(values, b, invert=True)]
