"""Indexing with arrays: `x[rows, columns]`, `x[mask]`, `x[positions] = value`, by NumPy's rules of advanced indexing.

An index array stands for one axis, a mask for as many as it has. All their axes are brought together and become one,
of which positions are read or written; the shape that the arrays broadcast to replaces it. Positions out of range raise
IndexError, for which tensors of positions are waited for; in a function that is traced nobody can wait, and such
positions read zeros and write nothing, as those of `index_select` and `scatter` always do.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Sequence
from operator import index as integer
from typing import TYPE_CHECKING, Any

import numpy as np

from hologram.foundation import dtypes, lazy
from hologram.foundation.dtypes import DType
from hologram.foundation.errors import ShapeError, TraceError
from hologram.foundation.frozen import frozen
from hologram.machine.axes import broadcast, integers
from hologram.machine.layout import Layout
from hologram.runtime.dispatch import deferred
from hologram.runtime.memory.view import View

if TYPE_CHECKING:
    from hologram.opset import indexing as operations
    from hologram.opset import logic, movement, scan
else:  # needed by who indexes with arrays
    logic, operations = lazy.module("hologram.opset.logic"), lazy.module("hologram.opset.indexing")
    movement, scan = lazy.module("hologram.opset.movement"), lazy.module("hologram.opset.scan")


CHUNK = 256  # elements that one lane looks for those that are not 0


@frozen
class _Array:
    """An index that is an array: it picks along `count` axes of the view from `axis` on."""

    axis: int
    count: int
    array: Any  # of NumPy or on the device; of integers (one axis), or a mask

    @property
    def is_mask(self) -> bool:
        dtype = self.array.dtype  # NumPy's or hologram's
        return dtype is dtypes.bool_ or (type(dtype) is not DType and dtype.kind == "b")


@frozen
class _Selection:
    """A view that integers, slices and None were applied to, what picks from it, and where that goes in the result."""

    view: Any
    arrays: Sequence[_Array]
    place: int

    @property
    def chosen(self) -> list[int]:
        """The axes that arrays pick along."""
        return [axis for a in self.arrays for axis in range(a.axis, a.axis + a.count)]

    @property
    def order(self) -> list[int]:
        """The view's axes with those that are picked along together, at their place."""
        rest = [axis for axis in range(self.view.ndim) if axis not in self.chosen]
        return rest[: self.place] + self.chosen + rest[self.place :]

    @property
    def rest(self) -> tuple[int, ...]:
        """Sizes of the axes that stay."""
        return tuple(n for axis, n in enumerate(self.view.shape) if axis not in self.chosen)

    @property
    def extent(self) -> int:
        """How many positions there are to pick from."""
        return math.prod(self.view.shape[axis] for axis in self.chosen)


def element(x: Any, position: tuple[Any, ...]) -> Any:
    """The element at a position, counted flat or by axis, as a view without axes."""
    at = position[0] if len(position) == 1 and isinstance(position[0], tuple) else position
    places = integers(at, "item: a position")
    if len(places) == 1 and x.ndim != 1:
        (flat,) = places
        if not -x.size <= flat < x.size:
            raise IndexError(f"item: position {flat} is out of range of {x.size} elements")
        places = tuple(map(int, np.unravel_index(flat % x.size, x.shape)))
    if len(places) != x.ndim:
        raise ShapeError(f"item: a place for each axis of shape {x.shape} is needed, got {at}")
    return x[places]


def read(tensor: Any, index: Any) -> Any:
    """The elements that an index with arrays picks, in a new tensor."""
    selection = _selection(tensor, index)
    if not selection.arrays:
        return selection.view
    positions, shape = _positions(selection)
    before, after = selection.rest[: selection.place], selection.rest[selection.place :]
    source = selection.view.permute(selection.order).reshape(*before, selection.extent, *after)
    return operations.index_select(source, positions, axis=selection.place).reshape(*before, *shape, *after)


def write(tensor: Any, index: Any, value: Any) -> None:
    """Writes a tensor, broadcast and converted, to the elements that an index with arrays picks.

    Where a position is named more than once, one of its values is written.
    """
    selection = _selection(tensor, index)
    value = value.astype(tensor.dtype, copy=False)
    if not selection.arrays:
        tensor.executor.copy(value, selection.view)
    elif (chosen := _chosen(selection, value)) is not None:
        tensor.executor.copy(chosen, selection.view)
    else:
        _scattered(selection, value)


def _selection(tensor: Any, index: Any) -> _Selection:
    items = [_item(item) for item in (index if isinstance(index, tuple) else (index,))]
    if sum(item is Ellipsis for item in items) > 1:
        raise IndexError("an index can have one ellipsis ('...')")
    if not any(item is Ellipsis for item in items):
        items.append(Ellipsis)
    used = sum(_axes(item) for item in items)
    if used > tensor.ndim:
        raise IndexError(f"too many indices for a tensor of {tensor.ndim} axes: {used}")
    layout, axis, arrays = tensor.layout, 0, []
    together: list[int] = []  # numbers of the items that NumPy counts among the arrays
    place = 0
    for number, item in enumerate(items):
        picks = isinstance(item, (int, np.ndarray, View))
        if picks:
            place = place if together else axis
            together.append(number)
        if item is Ellipsis:
            axis += tensor.ndim - used
        elif item is None:
            layout, axis = layout.unsqueeze(axis), axis + 1
        elif isinstance(item, slice):
            layout, axis = layout.slice(axis, item.start, item.stop, item.step), axis + 1
        elif isinstance(item, int):
            layout = layout.select(axis, item)
        else:
            array, layout = _array(item, layout, axis)
            arrays.append(array)
            axis += array.count
    if together and together[-1] - together[0] >= len(together):
        place = 0  # they stand apart: what they pick comes first
    return _Selection(tensor._view(layout), arrays, place)


def _item(item: Any) -> Any:
    """An index as None, ..., a slice, an int, or an array of integers or bools; raises TypeError for anything else."""
    if item is None or item is Ellipsis or isinstance(item, slice):
        return item
    given = item
    if isinstance(item, View):
        kind = item.dtype.kind
    else:
        item = np.asarray(item)
        if item.size == 0 and item.dtype == np.float64:
            item = item.astype(np.int64)  # an empty list
        kind = {"b": "bool", "i": "int", "u": "uint"}.get(item.dtype.kind, str(item.dtype))
        if item.ndim == 0 and kind in ("int", "uint"):
            return integer(item)
    if kind not in ("bool", "int", "uint"):
        raise TypeError(
            "a Tensor is indexed with integers, slices, None, ... and arrays of integers or bools, got "
            + str(getattr(given, "dtype", None) or reprlib.repr(given))
        )
    return item


def _axes(item: Any) -> int:
    """How many axes an index picks from."""
    if item is None or item is Ellipsis:
        return 0
    if isinstance(item, (int, slice)) or not _Array(0, 0, item).is_mask:
        return 1
    return item.ndim


def _array(item: Any, layout: Layout, axis: int) -> tuple[_Array, Layout]:
    """An index array with the axes that it picks along; a mask without axes picks along a new one, of size 1.

    A mask may have size 0 where the tensor has not, as in the standard and NumPy: it picks nothing.
    """
    array = _Array(axis, _axes(item), item)
    if not array.is_mask:
        return array, layout
    if item.ndim == 0:
        return _Array(axis, 1, item[None]), layout.unsqueeze(axis)
    extents = layout.shape[axis : axis + item.ndim]
    if tuple(item.shape) == extents:
        return array, layout
    if any(n not in (extent, 0) for n, extent in zip(item.shape, extents, strict=True)):
        raise IndexError(
            f"a mask must have the shape of the axes that it picks from, {extents}, got {item.shape}"
        )
    return _Array(axis, item.ndim, np.zeros(extents, np.bool_)), layout


def _positions(selection: _Selection) -> tuple[Any, tuple[int, ...]]:
    """Positions along the chosen axes as one, in a row on the device, and the shape they form."""
    executor = selection.view.executor
    extents = [math.prod(selection.view.shape[a.axis : a.axis + a.count]) for a in selection.arrays]
    parts = [_checked(a, n) for a, n in zip(selection.arrays, extents, strict=True)]
    try:
        shape = broadcast([tuple(p.shape) for p in parts], "an index")
    except ShapeError as error:
        raise IndexError(str(error)) from error
    if len(parts) == 1:
        flat = parts[0]
    elif all(isinstance(p, np.ndarray) for p in parts):
        flat = np.zeros(shape, np.int64)
        for part, extent in zip(parts, extents, strict=True):
            flat = flat * extent + part % max(extent, 1)
    else:
        flat = _joined(
            [executor.tensor(p) if isinstance(p, np.ndarray) else p for p in parts], extents, shape
        )
    flat = executor.tensor(flat) if isinstance(flat, np.ndarray) else flat
    return flat.reshape(flat.size), shape


def _joined(parts: Sequence[Any], extents: Sequence[int], shape: tuple[int, ...]) -> Any:
    """Positions along several axes as positions along their product; out of range, where one of them is."""
    flat, inside = parts[0].executor.zeros(shape, "i64"), None
    for part, extent in zip(parts, extents, strict=True):
        here = (part >= -extent) & (part < extent)
        flat = flat * extent + part.astype("i64", copy=False) % extent
        inside = here if inside is None else inside & here
    return logic.where(inside, flat, -1 - math.prod(extents))


def _checked(array: _Array, extent: int) -> Any:
    """The positions that an index names along its axes as one; raises IndexError where one is out of range."""
    index = array.array
    traced = deferred()
    if array.is_mask and isinstance(index, np.ndarray):
        return np.flatnonzero(index)
    if array.is_mask:
        if traced:
            raise TraceError(
                "indexing with a mask: how many elements it picks is not known before the function runs; choose with "
                "hg.where(mask, x, other), or do it outside (x[mask] = number can be traced)"
            )
        return flat_nonzero(index)
    if index.size and (isinstance(index, np.ndarray) or not traced):
        for end in (index.min().item(), index.max().item()):
            if not -extent <= end < extent:
                raise IndexError(f"position {end} is out of range for an axis of size {extent}")
    return index


def _chosen(selection: _Selection, value: Any) -> Any:
    """The whole view as a mask leaves it, where the value is the same for all that it picks; None if it is not so.

    Nothing needs to know how many elements that is, so it can be traced, and nothing waits.
    """
    (first, *others), view = selection.arrays, selection.view
    behind = view.ndim - first.axis - first.count if first.is_mask else 0
    if others or not first.is_mask or (value.ndim > behind and value.shape[-1 - behind] != 1):
        return None
    if selection.place != first.axis:
        return None
    before, after = value.shape[: max(value.ndim - behind - 1, 0)], value.shape[max(value.ndim - behind, 0) :]
    spread = value.reshape(*before, *(1,) * first.count, *after) if value.ndim > behind else value
    mask = first.array if isinstance(first.array, View) else view.executor.tensor(first.array)
    mask = mask.reshape(*mask.shape, *(1,) * behind)  # type: ignore[attr-defined]
    return logic.where(mask, spread.expand(view.shape), view)


def _scattered(selection: _Selection, value: Any) -> None:
    """Writes a value at positions along the chosen axes, brought to the front and made one."""
    view, place, executor = selection.view, selection.place, selection.view.executor
    positions, shape = _positions(selection)
    rest, order = selection.rest, selection.order
    picked = list(range(place, place + len(shape)))
    wide = value.expand(*rest[:place], *shape, *rest[place:])
    source = wide.permute(picked + [k for k in range(wide.ndim) if k not in picked])
    source = source.reshape(positions.size, *rest)
    chosen = selection.chosen
    view = view.permute(chosen + [axis for axis in order if axis not in chosen])
    layout = view.layout.reshape((selection.extent, *rest))
    target = view.clone().reshape(selection.extent, *rest) if layout is None else view._view(layout)
    index = positions.reshape(positions.size, *(1,) * len(rest)).expand(source.shape)
    if executor.tracer is None:
        executor.execute(operations.put, (index, source, None), (target,), {})
    else:
        executor.copy(operations.scatter(target, index, source, dim=0), target)
    if layout is None:
        executor.copy(target.reshape(view.shape), view)


def flat_nonzero(x: Any) -> Any:
    """The positions (i64) of the elements that are not 0, counted flat."""
    if not x.size:
        return x.executor.empty(0, "i64")
    flat = x.reshape(x.size)
    true = flat if flat.dtype is dtypes.bool_ else logic.not_equal(flat, 0)
    whole = x.size - x.size % CHUNK
    parts = [true[:whole].reshape(-1, CHUNK), true[whole:].reshape(1, x.size - whole)]
    ends = scan.cumsum(movement.concat([part.sum(axis=1) for part in parts if part.size]), axis=0)
    positions = x.executor.empty(int(ends[-1].item()), "i64")
    x.executor.execute(operations.pack, (ends, true), (positions,), {"length": CHUNK})
    return positions
