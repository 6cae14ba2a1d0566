"""Reading at positions: rows, elements, and PyTorch's advanced indexing, with writing by the same."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

import hologram as hg
from hologram.foundation.frozen import frozen
from hologram.frontend.tensor import Tensor
from hologram.machine.axes import row_major
from hologram.machine.layout import Layout
from hologram_torch.aten.indexing.positions import along, at_least_1d, check, from_the_front, named
from hologram_torch.aten.indexing.writing import Into, copied, over
from hologram_torch.kernels.numbers import scalar
from hologram_torch.kernels.registry import implements
from hologram_torch.kernels.results import placed
from hologram_torch.kernels.strides import iterated


def of_positions(x: Any, dim: int, index: Any, *rest: Any) -> str | None:
    """Positions along an axis are int32 or int64 to PyTorch."""
    if index.dtype not in (torch.int32, torch.int64):
        return f"Expected dtype int32 or int64 for index, but got: {index.dtype}"
    return None


@implements("index_select", refuses=of_positions)
def index_select(x: Any, dim: int, index: Any) -> Any:
    whole, index = at_least_1d(x), at_least_1d(index)
    check("index_select", index, whole.shape[dim])
    return hg.index_select(whole, index, axis=dim) if index.size else whole.slice(dim, 0, 0)


@implements("gather")
def gather(x: Any, dim: int, index: Any, *, sparse_grad: bool = False) -> Any:
    if not index.size:
        return x.executor.empty(index.shape, x.dtype)
    whole, positions = at_least_1d(x), at_least_1d(index)
    check("gather", positions, whole.shape[dim], kind=RuntimeError)
    return hg.gather(whole, positions, dim=dim)


@implements("take")
def take(x: Any, index: Any) -> Any:
    check("take", index, x.size, from_the_end=True)
    if not index.size:
        return x.executor.empty(index.shape, x.dtype)
    return hg.index_select(x.reshape(x.size), index.reshape(index.size), axis=0).reshape(index.shape)


# What masks name.


@implements("masked_select", inferred=False)
def masked_select(x: Any, mask: Any) -> Any:
    if mask.dtype.kind != "bool":
        raise RuntimeError("hologram, masked_select: expected BoolTensor for mask")
    shape = hg.broadcast_arrays(x, mask)[0].shape
    flat = x.expand(shape).reshape(math.prod(shape))
    return hg.index_select(flat, named("masked_select", mask.expand(shape).contiguous()), axis=0)


@implements("masked_fill.Scalar", "masked_fill.Tensor", by_class=True)
def masked_fill(x: Any, mask: Any, value: Any) -> Any:
    if mask.dtype.kind != "bool":
        raise RuntimeError(f"hologram, masked_fill: a mask of bools is needed, got {mask.dtype}")
    value = value.astype(x.dtype, copy=False) if isinstance(value, Tensor) else scalar(x, value)
    return hg.where(mask, value, x)


@implements("masked_scatter")
def masked_scatter(x: Any, mask: Any, source: Any) -> Any:
    """The elements of the source, in order, at what the mask names."""
    if mask.dtype.kind != "bool":
        raise RuntimeError(f"hologram, masked_scatter: only supports boolean masks, but got {mask.dtype}")
    shape = hg.broadcast_arrays(x, mask)[0].shape
    if not math.prod(shape):
        return x.expand(shape)
    mask = mask.expand(shape)
    counts = hg.cumsum(mask.reshape(math.prod(shape)), axis=0)
    check("masked_scatter", counts[-1:], source.size + 1, kind=RuntimeError)
    if not source.size:
        return x.expand(shape)
    last = hg.clip(counts - 1, 0, source.size - 1)
    elements = hg.index_select(source.reshape(source.size), last, axis=0).reshape(shape)
    return hg.where(mask, elements, x.expand(shape))


@implements("nonzero", inferred=False)
def nonzero(x: Any) -> Any:
    """A row (n, axes) for each element that is not 0."""
    flat = named("nonzero", x.reshape(x.size))
    columns = []
    for n in reversed(x.shape):
        columns.append(hg.remainder(flat, max(n, 1)))
        flat = hg.floor_divide(flat, max(n, 1))
    return hg.stack(columns[::-1], axis=0).mT if columns else x.executor.empty((flat.size, 0), "i64")


@implements("nonzero_static")
def nonzero_static(x: Any, *, size: int, fill_value: int = -1) -> Any:
    """The first `size` of them, and a number for those that are missing."""
    filled = x.executor.full((size, x.ndim), fill_value, "i64")
    if not size or not x.ndim or not x.size:
        return filled
    true = hg.not_equal(x.reshape(x.size), 0)
    place = hg.where(true, hg.cumsum(true, axis=0) - 1, size)
    place = hg.where(hg.less(place, size), place, size)
    numbers, columns = hg.arange(x.executor, 0, x.size), []
    for n in reversed(x.shape):
        columns.append(hg.remainder(numbers, n))
        numbers = hg.floor_divide(numbers, n)
    rows = hg.stack(columns[::-1], axis=1)
    longer = x.executor.full((size + 1, x.ndim), fill_value, "i64")
    return hg.scatter(longer, place.unsqueeze(1).expand(rows.shape), rows, dim=0)[:size]


# Advanced indexing. Index tensors stand for an axis each, masks for as many as they have.


@frozen
class Picked:
    """A tensor with the axes that are picked from in front and made one, positions along it, and where those go."""

    view: Tensor  # (extent, *rest)
    positions: Tensor  # in a row; those out of range stay so
    shape: tuple[int, ...]  # that the indices broadcast to
    place: int  # of these axes in the result
    order: tuple[int, ...]  # of the tensor's axes in the view
    sizes: tuple[int, ...]  # of the axes in that order
    steps: tuple[int, ...]  # in memory, along the axes that are not picked from


def picked(name: str, x: Tensor, indices: Sequence[Any], unchecked: bool = False) -> Picked:
    """Takes an index apart; raises IndexError where a position is out of range."""
    chosen: list[int] = []
    parts: list[tuple[Tensor, int]] = []
    axis, numbers = 0, []
    for number, index in enumerate(indices):
        if index is None:
            axis += 1
            continue
        if index.dtype.name not in ("i64", "i32", "u8", "bool"):
            raise IndexError(
                f"hologram, {name}: tensors used as indices must be long, int, byte or bool tensors"
            )
        mask = index.dtype.kind == "bool" or index.dtype.name == "u8"
        count = index.ndim if mask else 1
        if mask and index.ndim == 0:
            x, count = x.unsqueeze(axis), 1
            index = index.reshape(1)
        extents = x.shape[axis : axis + count]
        if len(extents) < count:
            raise IndexError(f"hologram, {name}: too many indices for tensor of dimension {x.ndim}")
        if mask and index.shape != extents:
            raise IndexError(
                f"hologram, {name}: The shape of the mask {list(index.shape)} does not match the shape of the indexed "
                f"tensor {list(x.shape)} at index {axis}"
            )
        extent = math.prod(extents)
        if mask:
            index = named(name, index)
        elif not unchecked:
            check(name, index, extent, from_the_end=True)
        parts.append((index, extent))
        chosen += range(axis, axis + count)
        numbers.append(number)
        axis += count
    rest = [k for k in range(x.ndim) if k not in chosen]
    together = not numbers or numbers[-1] - numbers[0] == len(numbers) - 1
    order = (*chosen, *rest)
    sizes = tuple(x.shape[k] for k in order)
    steps = tuple(x.layout.strides[k] for k in rest)
    try:
        several = hg.broadcast_arrays(*(i for i, _ in parts)) if len(parts) > 1 else [i for i, _ in parts]
    except ValueError as error:
        raise IndexError(
            f"hologram, {name}: shape mismatch: indexing tensors could not be broadcast: {error}"
        ) from None
    shape = several[0].shape if several else ()
    view = x.permute(order).reshape(math.prod(sizes[: len(chosen)]), *sizes[len(chosen) :])
    flat: Any = several[0] if several else x.executor.zeros((), "i64")
    if len(parts) > 1:
        flat = from_the_front(flat, parts[0][1])
        for index, (_, extent) in zip(several[1:], parts[1:], strict=True):
            flat = flat * extent + from_the_front(index, extent)
    return Picked(
        view, flat.reshape(flat.size), shape, chosen[0] if together and chosen else 0, order, sizes, steps
    )


@implements("index.Tensor", inferred=False)
def index(x: Any, indices: Sequence[Any]) -> Any:
    """The elements at positions; their shape takes the place of the axes picked from if these are side by side."""
    return _read("index", x, indices)


@implements("_unsafe_index.Tensor", inferred=False)
def unsafe_index(x: Any, indices: Sequence[Any]) -> Any:
    return _read("_unsafe_index", x, indices, unchecked=True)


def _read(name: str, x: Any, indices: Sequence[Any], unchecked: bool = False) -> Any:
    picks = picked(name, x, indices, unchecked)
    count, place = len(picks.shape), picks.place
    rest = picks.view.shape[1:]
    shape = (*rest[:place], *picks.shape, *rest[place:])
    if not picks.positions.size or not picks.view.size:
        return x.executor.empty(shape, x.dtype)
    view = picks.view.permute((*range(1, place + 1), 0, *range(place + 1, picks.view.ndim)))
    elements = hg.index_select(view, picks.positions, axis=place).reshape(shape)
    steps = picks.steps
    if list(steps) == sorted(steps, reverse=True):  # most are
        return elements
    along = row_major(picks.shape)
    operands = (
        (*steps[:place], *(0,) * count, *steps[place:]),
        (*(0,) * place, *along, *(0,) * (len(rest) - place)),
    )
    return placed(elements, Layout(x.dtype, shape, iterated(shape, operands)), ())


def index_put(
    x: Any,
    indices: Sequence[Any],
    values: Any,
    accumulate: bool = False,
    unsafe: bool = False,
    *,
    into: Into = copied,
) -> Any:
    """x with values, broadcast, at positions; where one is named again, one of its values, or their sum."""
    if values.dtype is not x.dtype:
        raise RuntimeError(
            "hologram, index_put: Index put requires the source and destination dtypes match, got "
            f"{x.dtype.numpy_name} for the destination and {values.dtype.numpy_name} for the source."
        )
    whole = _under_a_mask(x, indices, values)
    if whole is not None and not accumulate:
        return whole
    picks = picked("index_put", x, indices)
    rest, count = picks.view.shape[1:], len(picks.shape)
    wide = values.expand((*rest[: picks.place], *picks.shape, *rest[picks.place :]))
    moved = range(picks.place, picks.place + count)
    source = wide.permute([*moved, *(k for k in range(wide.ndim) if k not in moved)])
    source = source.reshape(picks.positions.size, *rest)
    if not source.size:
        return x
    positions = along(picks.positions, source.shape, 0)
    written = (added if accumulate else into)(picks.view, 0, positions, source)
    if written.buffer is x.buffer:
        return x
    back = [picks.order.index(k) for k in range(len(picks.order))]
    return written.reshape(picks.sizes).permute(back).reshape(x.shape)


implements("index_put", "_index_put_impl", over=partial(index_put, into=over))(index_put)


def added(x: Any, dim: int, index: Any, source: Any) -> Any:
    """Sums at positions; of bools, whether any is true."""
    if x.dtype.kind != "bool":
        return hg.scatter_add(x, index, source, dim=dim)
    return hg.scatter_add(x.astype("i32"), index, source.astype("i32"), dim=dim).astype("bool")


def _under_a_mask(x: Tensor, indices: Sequence[Any], values: Tensor) -> Tensor | None:
    """One value at all that a mask names: nobody needs to know how many that are."""
    given = [i for i in indices if i is not None]
    if len(given) != 1 or given[0].dtype.kind != "bool" or values.size != 1 or indices[0] is None:
        return None
    mask = given[0]
    if not mask.ndim or mask.shape != x.shape[: mask.ndim]:
        return None
    return hg.where(mask.reshape(*mask.shape, *(1,) * (x.ndim - mask.ndim)), values.reshape(()), x)


def put(x: Any, index: Any, source: Any, accumulate: bool = False, *, into: Into = copied) -> Any:
    """x, seen as flat, with the elements of the source at positions."""
    check("put", index, x.size, from_the_end=True)
    if source.size != index.size:
        raise IndexError(
            f"hologram, put: Expected source and index to have the same number of elements, got {source.size} and "
            f"{index.size}"
        )
    if not index.size:
        return x
    write = added if accumulate else into
    written = write(x.reshape(x.size), 0, index.reshape(index.size), source.reshape(index.size))
    return x if written.buffer is x.buffer else written.reshape(x.shape)


implements("put", over=partial(put, into=over))(put)
