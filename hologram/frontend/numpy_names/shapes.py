"""Shapes: axes added, joined, split, turned; diagonals; functions applied along an axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from hologram.foundation import dtypes
from hologram.foundation.errors import ShapeError
from hologram.foundation.sizes import fixed_range
from hologram.frontend.array_api.creation import asarray
from hologram.frontend.linear_algebra import products
from hologram.frontend.numpy_names.operands import beside, written
from hologram.frontend.tensor import Tensor
from hologram.machine.arguments import memory_order, pair, sequence
from hologram.machine.axes import count, integers, normalize_axis, whole
from hologram.opset import arrange, creation, logic, movement, padding


def array(
    object: Any, dtype: Any = None, *, copy: bool | None = True, ndmin: int = 0, device: Any = None
) -> Tensor:
    """A tensor of an array, numbers or nested lists, of its own memory unless `copy` is false; see hg.asarray.

    Axes of size 1 are put in front where it has fewer than `ndmin`.
    """
    made, ndmin = asarray(object, dtype=dtype, device=device, copy=copy), whole(ndmin, "array: ndmin")
    return made.reshape((1,) * (ndmin - made.ndim) + made.shape) if made.ndim < ndmin else made


def ravel(a: Any, order: str | None = "C") -> Tensor:
    """The elements row by row ("C") along one axis, or by columns ("F"): a view where that can be.

    By columns where they lie so ("A"), or as they lie ("K").
    """
    x = asarray(a)
    order = memory_order(order, "ravel", "CFAK")
    if order == "K":
        return x.permute(_outermost_first(x)).reshape(x.size)
    return x.reshape(x.size, order=order)


def _outermost_first(x: Tensor) -> list[int]:
    """The axes as they lie in memory, in whichever direction; one that repeats elements stays where it is.

    It is the order in which NumPy's iterators visit an array (NpyIter_New, order "K").
    """
    inner: list[int] = []
    apart = [0 if size == 1 else abs(step) for size, step in zip(x.shape, x.strides, strict=True)]
    for axis in reversed(range(x.ndim)):
        place = len(inner)
        for k in reversed(range(len(inner))):
            if not apart[axis] or 0 < apart[inner[k]] <= apart[axis]:
                break
            place = k if apart[inner[k]] else place
        inner.insert(place, axis)
    return inner[::-1]


def swapaxes(a: Any, axis1: int, axis2: int) -> Tensor:
    """Two axes exchanged, a view."""
    x = asarray(a)
    order = list(range(x.ndim))
    first, second = (normalize_axis(axis, x.ndim, "swapaxes") for axis in (axis1, axis2))
    order[first], order[second] = second, first
    return x.permute(tuple(order))


def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """The diagonals along the last axis, a view, of the first two axes by default; see hg.linalg.diagonal."""
    return products.diagonal(a, offset=offset, axis1=axis1, axis2=axis2)


def trace(
    a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None
) -> Tensor:
    """The sums of diagonals, of the first two axes by default."""
    found = products.trace(a, offset=offset, axis1=axis1, axis2=axis2, dtype=dtype)
    return written(found, out, "trace")


def diag(v: Any, k: int = 0) -> Tensor:
    """A matrix with a vector on its diagonal k, or the diagonal k of a matrix."""
    x = asarray(v)
    if x.ndim == 2:
        return diagonal(x, k)
    if x.ndim != 1:
        raise ShapeError(f"diag: a vector or a matrix is needed, got shape {x.shape}")
    k = whole(k, "diag: k")
    n = x.shape[0]
    if not n:
        return x.executor.zeros((abs(k), abs(k)), x.dtype)
    wide = logic.where(creation.eye(x.executor, n, dtype="bool"), x[None, :], 0)
    wide = wide.astype(x.dtype, copy=False)
    return padding.pad(wide, padding=((max(-k, 0), max(k, 0)), (max(k, 0), max(-k, 0)))) if k else wide


def diagflat(v: Any, k: int = 0) -> Tensor:
    """A matrix with all elements on its diagonal k."""
    return diag(ravel(v), k)


def _deep(arrays: Sequence[Any], ndim: int) -> Any:
    made = []
    for x in beside(*arrays):
        if ndim == 3 and x.ndim < 3:
            x = x.reshape((1, x.size, 1) if x.ndim < 2 else (*x.shape, 1))
        elif x.ndim < ndim:
            x = x.reshape((1,) * (ndim - x.ndim) + x.shape)
        made.append(x)
    return made[0] if len(made) == 1 else tuple(made)


def atleast_1d(*arys: Any) -> Any:
    """With one axis at least."""
    return _deep(arys, 1)


def atleast_2d(*arys: Any) -> Any:
    """With two axes at least; missing ones are added in front."""
    return _deep(arys, 2)


def atleast_3d(*arys: Any) -> Any:
    """With three axes at least: a vector becomes (1, n, 1), a matrix (m, n, 1)."""
    return _deep(arys, 3)


def hstack(tup: Sequence[Any]) -> Tensor:
    """Joined along the second axis, vectors along their only one."""
    flat = [x if x.ndim else x.reshape(1) for x in beside(*sequence(tup, "hstack: arrays"))]
    if not flat:
        raise ValueError("hstack: at least one array is needed")
    return movement.concat(flat, axis=0 if flat[0].ndim == 1 else 1)


def vstack(tup: Sequence[Any]) -> Tensor:
    """Joined along the first axis; vectors are rows."""
    return movement.concat([atleast_2d(x) for x in beside(*sequence(tup, "vstack: arrays"))], axis=0)


def dstack(tup: Sequence[Any]) -> Tensor:
    """Joined along the third axis."""
    return movement.concat([atleast_3d(x) for x in beside(*sequence(tup, "dstack: arrays"))], axis=2)


def column_stack(tup: Sequence[Any]) -> Tensor:
    """Joined along the second axis; vectors are columns."""
    columns = beside(*sequence(tup, "column_stack: arrays"))
    return movement.concat([x if x.ndim > 1 else x.reshape(-1, 1) for x in columns], axis=1)


def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    """Parts of sizes that differ by one at most, or those between places: views."""
    x = asarray(ary)
    k = normalize_axis(axis, x.ndim, "array_split")
    if isinstance(indices_or_sections, (tuple, list, np.ndarray)):
        places = [0, *integers(tuple(indices_or_sections), "array_split: a place"), x.shape[k]]
    else:
        sections = whole(indices_or_sections, "array_split: the number of parts")
        if sections < 1:
            raise ValueError(f"array_split: at least one part is needed, got {sections}")
        each, extra = divmod(x.shape[k], sections)
        places = [0]
        for part in fixed_range(sections):
            places.append(places[-1] + each + (part < extra))
    return [x.slice(k, begin, end) for begin, end in pairwise(places)]


def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    """Parts of equal sizes, or those between places: views."""
    x = asarray(ary)
    k = normalize_axis(axis, x.ndim, "split")
    if not isinstance(indices_or_sections, (tuple, list, np.ndarray)):
        sections = whole(indices_or_sections, "split: the number of parts")
        if sections < 1 or x.shape[k] % sections:
            raise ValueError(f"split: {x.shape[k]} elements cannot be split into {sections} equal parts")
    return array_split(x, indices_or_sections, k)


def vsplit(ary: Any, indices_or_sections: Any) -> list[Tensor]:
    """Split along the first of two or more axes."""
    x = asarray(ary)
    if x.ndim < 2:
        raise ShapeError(f"vsplit: at least two axes are needed, got shape {x.shape}")
    return split(x, indices_or_sections, 0)


def hsplit(ary: Any, indices_or_sections: Any) -> list[Tensor]:
    """Split along the second axis; a vector along its only one."""
    x = asarray(ary)
    return split(x, indices_or_sections, 1 if x.ndim > 1 else 0)


def fliplr(m: Any) -> Tensor:
    """The second axis turned round."""
    return arrange.flip(asarray(m), axis=1)


def flipud(m: Any) -> Tensor:
    """The first axis turned round."""
    return arrange.flip(asarray(m), axis=0)


def rot90(m: Any, k: int = 1, axes: Sequence[int] = (0, 1)) -> Tensor:
    """Turned by k right angles, from the first of two axes to the second."""
    x = asarray(m)
    first, second = (normalize_axis(a, x.ndim, "rot90") for a in pair(axes, "rot90: axes"))
    if first == second:
        raise ShapeError(f"rot90: two axes are needed, got {tuple(axes)}")
    k = whole(k, "rot90: k") % 4
    if k == 2:
        return arrange.flip(x, axis=(first, second))
    if k == 1:
        return swapaxes(arrange.flip(x, axis=second), first, second)
    return arrange.flip(swapaxes(x, first, second), axis=second) if k else x


def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = dtypes.f32, *, device: Any = None) -> Tensor:
    """Ones on and below diagonal k, zeros above."""
    shape = count(N, "tri: N"), count(N if M is None else M, "tri: M")
    ones = arrange.tril(asarray(np.ones(shape, np.float32), device=device), k=k)
    return ones.astype(dtype, copy=False)


def identity(n: int, dtype: Any = dtypes.f32, *, device: Any = None) -> Tensor:
    """The identity matrix."""
    return creation.eye(device=device, n_rows=n, dtype=dtypes.dtype(dtype).name)


def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any) -> Tensor:
    """A function of vectors applied to each along an axis, one call each; its results replace the axis."""
    x = asarray(arr)
    k = normalize_axis(axis, x.ndim, "apply_along_axis")
    moved = x.permute((*(a for a in range(x.ndim) if a != k), k))
    outer = moved.shape[:-1]
    if not math.prod(outer):
        raise ValueError(f"apply_along_axis: there is no vector to apply it to, got shape {x.shape}")
    vectors = moved.reshape(math.prod(outer), moved.shape[-1])
    made = [beside(x, func1d(vectors[row], *args, **kwargs))[1] for row in range(vectors.shape[0])]
    joined = movement.stack(made, axis=0)
    result = joined.reshape((*outer, *made[0].shape))
    inner = result.ndim - len(outer)
    places = list(range(len(outer)))
    return result.permute((*places[:k], *range(len(outer), len(outer) + inner), *places[k:]))


def iscomplexobj(x: Any) -> bool:
    """Whether the dtype is complex."""
    return getattr(getattr(x, "dtype", None), "kind", None) in ("complex", "c") or isinstance(x, complex)


def isrealobj(x: Any) -> bool:
    """Whether the dtype is not complex."""
    return not iscomplexobj(x)
