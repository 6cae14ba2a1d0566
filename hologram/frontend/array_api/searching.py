"""What is found among elements, and how many, which only the elements tell: the device is waited for.

In a function that is traced the size of such a result is not known, and TraceError is raised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from hologram.foundation import dtypes, lazy
from hologram.foundation.errors import ShapeError
from hologram.frontend.array_api.creation import asarray
from hologram.frontend.indexing import flat_nonzero
from hologram.frontend.tensor import Tensor

if TYPE_CHECKING:
    from hologram.opset import indexing, logic, movement, scan, sort
else:
    indexing, logic = lazy.module("hologram.opset.indexing"), lazy.module("hologram.opset.logic")
    movement, scan = lazy.module("hologram.opset.movement"), lazy.module("hologram.opset.scan")
    sort = lazy.module("hologram.opset.sort")


def nonzero(x: Any, /) -> tuple[Tensor, ...]:
    """The positions (i64) of the elements that are not 0, in row-major order: a tensor for each axis."""
    x = asarray(x)
    if not x.ndim:
        raise ShapeError("nonzero: a tensor of at least one axis is needed, got a 0-d one")
    flat = flat_nonzero(x)
    places = []
    for size in reversed(x.shape[1:]):
        places.append(flat % size)
        flat = flat // size
    return (flat, *reversed(places))


class UniqueAll(NamedTuple):
    """The distinct elements in order, the position of each one's first, which is at each place, and how often."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """The distinct elements in order, and how often each occurs."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """The distinct elements in order, and which of them is at each place."""

    values: Tensor
    inverse_indices: Tensor


def _groups(x: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A tensor, the stable order of its elements, where a new one begins in that order, and at which positions."""
    x = asarray(x)
    flat = x.reshape(x.size)
    order = sort.argsort(flat)
    ordered = indexing.index_select(flat, order)
    first = x.executor.ones(min(x.size, 1), dtypes.bool_)
    begins = movement.concat([first, logic.not_equal(ordered[1:], ordered[:-1])]) if x.size else first
    return x, order, begins, flat_nonzero(begins)


def _values(x: Tensor, order: Tensor, starts: Tensor) -> Tensor:
    return indexing.index_select(x.reshape(x.size), indexing.index_select(order, starts))


def _counts(x: Tensor, starts: Tensor) -> Tensor:
    ends = movement.concat([starts[1:], x.executor.full(min(x.size, 1), x.size, dtypes.i64)])
    return ends - starts


def _inverse(x: Tensor, order: Tensor, begins: Tensor) -> Tensor:
    inverse = x.executor.empty(x.size, dtypes.i64)
    x.executor.execute(indexing.put, (order, scan.cumsum(begins) - 1, None), (inverse,), {})
    return inverse.reshape(x.shape)


def unique_all(x: Any, /) -> UniqueAll:
    """The distinct elements in order, with positions, inverse and counts (i64); every NaN is one of its own."""
    x, order, begins, starts = _groups(x)
    first = indexing.index_select(order, starts)
    return UniqueAll(_values(x, order, starts), first, _inverse(x, order, begins), _counts(x, starts))


def unique_counts(x: Any, /) -> UniqueCounts:
    """The distinct elements in order, and how often each occurs (i64); every NaN is one of its own."""
    x, order, _, starts = _groups(x)
    return UniqueCounts(_values(x, order, starts), _counts(x, starts))


def unique_inverse(x: Any, /) -> UniqueInverse:
    """The distinct elements in order, and which of them is at each place (i64); every NaN is one of its own."""
    x, order, begins, starts = _groups(x)
    return UniqueInverse(_values(x, order, starts), _inverse(x, order, begins))


def unique_values(x: Any, /) -> Tensor:
    """The distinct elements in order; every NaN is one of its own."""
    x, order, _, starts = _groups(x)
    return _values(x, order, starts)
