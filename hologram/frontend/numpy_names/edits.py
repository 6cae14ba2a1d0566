"""Arrays with elements added, taken out or repeated, and arrays made of blocks: NumPy's functions for those."""

from __future__ import annotations

from typing import Any

import numpy as np

from hologram.foundation.errors import ShapeError
from hologram.foundation.sizes import fixed_range
from hologram.frontend.array_api.creation import asarray
from hologram.frontend.indexing import flat_nonzero
from hologram.frontend.numpy_names.counting import unique
from hologram.frontend.numpy_names.operands import beside, on_host
from hologram.frontend.numpy_names.shapes import split
from hologram.frontend.tensor import Tensor
from hologram.machine.axes import integers, normalize_axis
from hologram.opset import arrange, indexing, movement


def _flat(x: Tensor, axis: int | None, who: str) -> tuple[Tensor, int]:
    return (x.reshape(x.size), 0) if axis is None else (x, normalize_axis(axis, x.ndim, who))


def _places(obj: Any, who: str) -> np.ndarray:
    """Positions, or a mask of them, as NumPy's functions take them."""
    given = on_host(obj, f"{who}: obj")
    if given.size and given.dtype.kind not in "iub":
        raise TypeError(f"{who}: obj must be integers, bools or a slice, got {obj!r}")
    return given


def append(arr: Any, values: Any, axis: int | None = None) -> Tensor:
    """With values behind it along an axis; both flat if none is named."""
    x, y = beside(arr, values)
    first, k = _flat(x, axis, "append")
    return movement.concat([first, y.reshape(y.size) if axis is None else y], axis=k)


def delete(arr: Any, obj: Any, axis: int | None = None) -> Tensor:
    """Without the slices at positions, a slice of them, or where a mask holds, along an axis; flat if none is named."""
    x, k = _flat(asarray(arr), axis, "delete")
    kept = np.delete(np.arange(x.shape[k]), obj if isinstance(obj, slice) else _places(obj, "delete"))
    return indexing.index_select(x, x.executor.tensor(kept), axis=k)


def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Tensor:
    """With values before positions along an axis; flat if none is named."""
    given, new = beside(arr, values)
    x, k = _flat(given, axis, "insert")
    new = new.astype(x.dtype, copy=False)
    n = x.shape[k]
    at = np.arange(n)[obj] if isinstance(obj, slice) else _places(obj, "insert")
    several = at.size != 1
    new = new.reshape((1,) * (x.ndim - new.ndim) + new.shape)
    new = new if at.ndim else arrange.moveaxis(new, source=0, destination=k)
    count = at.size if several else new.shape[k]
    shape = tuple(count if a == k else size for a, size in enumerate(x.shape))
    # Where each element of the result comes from: x, or what is new behind it.
    order = np.insert(
        np.arange(n), at if several else at.reshape(-1)[:1].repeat(count), np.arange(n, n + count)
    )
    return indexing.index_select(
        movement.concat([x, new.expand(shape)], axis=k), x.executor.tensor(order), axis=k
    )


def resize(a: Any, new_shape: Any) -> Tensor:
    """The elements in order, repeated or cut so that they fill a shape; zeros if there is none."""
    x = asarray(a)
    shape = integers(new_shape if isinstance(new_shape, (tuple, list)) else (new_shape,), "resize: a size")
    size = int(np.prod(shape))
    if not x.size:
        return x.executor.zeros(shape, x.dtype)
    flat = (
        arrange.tile(x.reshape(x.size), repetitions=-(-size // x.size))
        if size > x.size
        else x.reshape(x.size)
    )
    return flat[:size].reshape(shape)


def trim_zeros(filt: Any, trim: str = "fb") -> Tensor:
    """A vector without the zeros in front ("f") and behind ("b"); waits."""
    x = asarray(filt)
    if x.ndim != 1:
        raise ShapeError(f"trim_zeros: a vector is needed, got shape {x.shape}")
    places = flat_nonzero(x).to_numpy()
    if not places.size:
        return x[:0] if trim else x
    begin = int(places[0]) if "f" in trim.lower() else 0
    return x[begin : int(places[-1]) + 1 if "b" in trim.lower() else None]


def rollaxis(a: Any, axis: int, start: int = 0) -> Tensor:
    """An axis moved back until it stands before another, a view."""
    x = asarray(a)
    k = normalize_axis(axis, x.ndim, "rollaxis")
    place = start + x.ndim if start < 0 else start
    if not 0 <= place <= x.ndim:
        raise ShapeError(f"rollaxis: start must lie in [{-x.ndim}, {x.ndim}], got {start}")
    order = [a for a in fixed_range(x.ndim) if a != k]
    order.insert(place - (place > k), k)
    return x.permute(tuple(order))


def dsplit(ary: Any, indices_or_sections: Any) -> list[Tensor]:
    """Split along the third axis."""
    x = asarray(ary)
    if x.ndim < 3:
        raise ShapeError(f"dsplit: three axes at least are needed, got shape {x.shape}")
    return split(x, indices_or_sections, 2)


def block(arrays: Any) -> Tensor:
    """Nested lists of blocks joined: the innermost along the last axis, those around along the ones before."""

    def depth(x: Any) -> int:
        return 1 + max(map(depth, x)) if isinstance(x, list) and x else int(isinstance(x, list))

    def leaves(x: Any) -> list[Any]:
        return [leaf for part in x for leaf in leaves(part)] if isinstance(x, list) else [x]

    made = iter(beside(*leaves(arrays)))
    levels = depth(arrays)
    found = _blocks(arrays, made)
    ndim = max(levels, *(x.ndim for x in leaves(found)))

    def joined(x: Any, level: int) -> Tensor:
        if not isinstance(x, list):
            return x.reshape((1,) * (ndim - x.ndim) + x.shape)
        return movement.concat([joined(part, level - 1) for part in x], axis=ndim - level)

    return joined(found, levels)


def _blocks(x: Any, made: Any) -> Any:
    return [_blocks(part, made) for part in x] if isinstance(x, list) else next(made)


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Tensor:
    """Powers of a vector's elements, a column each; the highest first unless `increasing`."""
    v = asarray(x)
    if v.ndim != 1:
        raise ShapeError(f"vander: a vector is needed, got shape {v.shape}")
    count = v.size if N is None else N
    v = v if v.dtype.is_inexact or v.dtype.name == "u64" else v.astype("i64")
    if not count:
        return v.executor.empty((v.size, 0), v.dtype)
    columns = [v.executor.ones(v.shape, v.dtype)]
    for _ in fixed_range(1, count):
        columns.append(columns[-1] * v)
    columns = columns[:count]
    return movement.stack(columns if increasing else columns[::-1], axis=1)


def setxor1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Tensor:
    """The distinct elements that one of both has, in order; nothing depends on `assume_unique`."""
    first, second = unique(asarray(ar1)), unique(beside(asarray(ar1), ar2)[1])
    values, counts = unique(movement.concat([first, second]), return_counts=True)
    return values[counts == 1]
