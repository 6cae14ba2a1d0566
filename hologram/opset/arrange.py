"""Rearranging elements: the array API's manipulation functions, made of views and of other operations."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from hologram.atlas.functions import select
from hologram.foundation import dtypes
from hologram.foundation.dtypes import ALL
from hologram.foundation.errors import ShapeError
from hologram.machine.axes import count, normalize_axes, normalize_axis, whole
from hologram.machine.layout import Layout
from hologram.machine.strided import Strided
from hologram.opset import movement
from hologram.opset.creation import arange
from hologram.opset.forms.composite import Composite, composite
from hologram.opset.forms.map import indexed
from hologram.opset.forms.samples import cases
from hologram.opset.indexing import index_select
from hologram.opset.math import remainder

# Views.


@composite(dtypes=ALL, aten=("expand",), methods=False, reference=np.broadcast_to,
           samples=cases(((3, 1), {"shape": (2, 3, 4)}), ((), {"shape": (2,)}),
                          ((1, 0), {"shape": (3, 0)})))  # fmt: skip
def broadcast_to(x, *, shape):
    """x repeated, without a copy, to a shape that it broadcasts to."""
    return x.expand(shape)


@composite(dtypes=ALL, aten=("reshape", "view"), methods=False,
           reference=lambda x, **how: np.reshape(x, **how),
           samples=cases(((4, 6), {"shape": (3, -1)}), ((), {"shape": (1, 1)}), ((0, 3), {"shape": (3, 0)}),
                          ((4, 6), {"shape": (3, -1), "order": "F"})))  # fmt: skip
def reshape(x, *, shape, order="C", copy=None):
    """The same elements in another shape, one of whose sizes may be -1; a copy only where strides cannot express it.

    They are read and placed row by row ("C"), by columns ("F"), or ("A") by columns where they lie so. With `copy`
    always or never: ValueError where it would need one.
    """
    return x.reshape(shape, order=order, copy=copy)


@composite(dtypes=ALL, aten=("unsqueeze",), methods=False, reference=lambda x, axis=0: np.expand_dims(x, axis),
           samples=cases(((2, 3), {"axis": 1}), ((2, 3), {"axis": -1}), ((), {"axis": 0}),
                          ((2, 3), {"axis": (0, -1)}), ((2,), {"axis": ()})))  # fmt: skip
def expand_dims(x, *, axis=0):
    """x with new axes of size 1 at that place of the result, or those places."""
    if not isinstance(axis, tuple):
        return x.unsqueeze(axis)
    for place in sorted(normalize_axes(axis, x.ndim + len(axis), "expand_dims")):
        x = x.unsqueeze(place)
    return x


@composite(dtypes=ALL, aten=("squeeze.dims",), methods=False, reference=lambda x, axis=None: np.squeeze(x, axis),
           samples=cases(((1, 3, 1), {"axis": 0}), ((1, 3, 1), {"axis": (0, -1)}), ((1, 3, 1), {})))  # fmt: skip
def squeeze(x, *, axis=None):
    """x without the axes named, which must have size 1; without all such axes if none is named."""
    return x.squeeze(axis)


@composite(dtypes=ALL, aten=("permute",), methods=False, reference=lambda x, axes=None: np.transpose(x, axes),
           samples=cases(((2, 3, 4), {}), ((2, 3, 4), {"axes": (2, 0, 1)}), ((), {"axes": ()})))  # fmt: skip
def permute_dims(x, *, axes=None):
    """Axes in another order (in reverse, if none is named), without a copy."""
    return x.permute(tuple(range(x.ndim))[::-1] if axes is None else axes)


@composite(
    dtypes=ALL, methods=False, reference=lambda x: np.swapaxes(x, -2, -1), samples=cases(((2, 3, 4), {}))
)
def matrix_transpose(x):
    """The last two axes exchanged, without a copy."""
    return x.mT


@composite(dtypes=ALL, methods=False, reference=lambda x, source, destination: np.moveaxis(x, source, destination),
           samples=cases(((2, 3, 4), {"source": 0, "destination": -1}),
                          ((2, 3, 4), {"source": (0, 2), "destination": (1, 0)})))  # fmt: skip
def moveaxis(x, *, source, destination):
    """Axes moved to other places, without a copy; the others keep their order."""
    ends = [_listed(axes, x.ndim, "moveaxis") for axes in (source, destination)]
    if len(ends[0]) != len(ends[1]):
        raise ShapeError(f"moveaxis: as many axes must go as come, got {source} and {destination}")
    order = [axis for axis in range(x.ndim) if axis not in ends[0]]
    for place, axis in sorted(zip(ends[1], ends[0], strict=True)):
        order.insert(place, axis)
    return x.permute(order)


def _listed(axes: int | Sequence[int], ndim: int, who: str) -> list[int]:
    """Axes counted from the front, in the order given."""
    normalize_axes(axes, ndim, who)
    return [normalize_axis(a, ndim, who) for a in (axes if isinstance(axes, (tuple, list)) else (axes,))]  # type: ignore[arg-type]


@composite(dtypes=ALL, aten=("flip",), reference=lambda x, axis=None: np.flip(x, axis),
           samples=cases(((4, 5), {"axis": None}), ((4, 5), {"axis": -1}), ((2, 3, 4), {"axis": (0, 2)})))  # fmt: skip
def flip(x, *, axis=None):
    """The elements in reverse order along the axes (all, if none is named), without a copy."""
    for k in normalize_axes(axis, x.ndim, "flip"):
        x = x.slice(k, None, None, -1)
    return x


# Copies.


@composite(dtypes=ALL, aten=("roll",), reference=lambda x, shift, axis=None: np.roll(x, shift, axis),
           samples=cases(((4, 5), {"shift": 3, "axis": None}), ((4, 5), {"shift": -7, "axis": 1}),
                          ((0, 3), {"shift": 1, "axis": 0}), ((4, 5), {"shift": (1, 2), "axis": (0, 1)}),
                          ((4, 5), {"shift": (1, -2), "axis": 0}), ((4, 5), {"shift": 2, "axis": (1, 0, 1)}),
                          ((4, 5), {"shift": (3, 9), "axis": None})))  # fmt: skip
def roll(x, *, shift, axis=None):
    """Elements moved along axes (along the flat tensor, if none is named), from the end to the beginning.

    Where there is one shift, or one axis, it goes with each of the others; the shifts of one axis add up. A shift may
    be a tensor of one integer.
    """
    if axis is None:
        return roll(x.reshape(x.size), shift=shift, axis=0).reshape(x.shape)
    if isinstance(shift, Strided):  # a tensor, of which nobody waits for the element
        return _rolled(x, shift, normalize_axis(axis, x.ndim, "roll"))
    axes = [normalize_axis(a, x.ndim, "roll") for a in (axis if isinstance(axis, (tuple, list)) else (axis,))]
    shifts = [whole(by, "roll: shift") for by in (shift if isinstance(shift, (tuple, list)) else (shift,))]
    count = max(len(axes), len(shifts)) if axes and shifts else 0
    if not {len(axes), len(shifts)} <= {1, count}:
        raise ShapeError(f"roll: a shift for every axis is needed, got {shift} for {axis}")
    along: dict[int, int] = {}
    for j in range(count):
        k = axes[j % len(axes)]
        along[k] = along.get(k, 0) + shifts[j % len(shifts)]
    for k, by in along.items():
        cut = -by % x.shape[k] if x.shape[k] else 0
        if cut:
            x = movement.concat([x.slice(k, cut), x.slice(k, None, cut)], axis=k)
    return x


def _rolled(x: Any, shift: Any, axis: int) -> Any:
    if shift.size != 1 or not shift.dtype.is_integer:
        raise TypeError(
            f"roll: shift must be integers or a tensor of one, got {shift.dtype} of shape {shift.shape}"
        )
    places = arange(x.executor, x.shape[axis]) - shift.reshape(1)
    return index_select(x, remainder(places, max(x.shape[axis], 1)), axis=axis)


class Repeats(Composite):
    """Numbers of repeats may be an array or a tensor, which the host reads: the result's shape depends on them."""

    def bind(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        args = tuple(_numbers(a) if k else a for k, a in enumerate(args))
        return super().bind(
            args, {name: _numbers(a) if name == "repeats" else a for name, a in kwargs.items()}
        )


def _numbers(given: Any) -> Any:
    """A list instead of an array."""
    return np.asarray(given).tolist() if getattr(given, "shape", ()) else given


@composite(Repeats, dtypes=ALL, reference=lambda x, repeats, axis=None: np.repeat(x, repeats, axis),
           samples=cases(((2, 3), {"repeats": 3, "axis": None}), ((2, 3), {"repeats": 2, "axis": 0}),
                          ((2, 3), {"repeats": 0, "axis": -1}),
                          ((2, 3), {"repeats": (2, 0, 1), "axis": 1})))  # fmt: skip
def repeat(x, *, repeats, axis=None):
    """Every element (slice, if an axis is named) `repeats` times in a row, or each a number of times of its own.

    Numbers of their own are a sequence, an array or a tensor.
    """
    if axis is None:
        return repeat(x.reshape(x.size), repeats=repeats, axis=0)
    k = normalize_axis(axis, x.ndim, "repeat")
    if isinstance(repeats, (tuple, list)):
        return index_select(x, _repeated(np.asarray(repeats), x.shape[k]), axis=k)
    repeats = count(repeats, "repeat: repeats")
    wide = x.unsqueeze(k + 1).expand(*x.shape[: k + 1], repeats, *x.shape[k + 1 :])
    return wide.reshape(*x.shape[:k], x.shape[k] * repeats, *x.shape[k + 1 :])


def _repeated(counts: np.ndarray, size: int) -> np.ndarray:
    """The positions along an axis, each as often as it says."""
    if counts.size and counts.dtype.kind not in "iu":
        raise TypeError(f"repeat: repeats must be integers, got {counts.dtype}")
    if counts.shape not in ((1,), (size,)):
        raise ShapeError(
            f"repeat: repeats must have the axis's {size} elements or 1, got shape {counts.shape}"
        )
    if counts.size and counts.min() < 0:
        raise ValueError(f"repeat: repeats must be 0 or more, got {counts.min()}")
    return np.repeat(np.arange(size), counts.astype(np.int64))


@composite(dtypes=ALL, aten=("repeat",), reference=lambda x, repetitions: np.tile(x, repetitions),
           samples=cases(((2, 3), {"repetitions": (2, 1, 2)}), ((2, 3), {"repetitions": (3,)}),
                          ((), {"repetitions": (2,)})))  # fmt: skip
def tile(x, *, repetitions):
    """x side by side with itself, so many times along each axis; missing axes are added in front."""
    given = repetitions if isinstance(repetitions, (tuple, list)) else (repetitions,)
    rank = max(x.ndim, len(given))
    counts = (1,) * (rank - len(given)) + tuple(count(n, "tile: repetitions") for n in given)
    shape = (1,) * (rank - x.ndim) + x.shape
    within = [size for n in shape for size in (1, n)]
    wide = x.reshape(within).expand([size for n, r in zip(shape, counts, strict=True) for size in (r, n)])
    made = wide.reshape([n * r for n, r in zip(shape, counts, strict=True)])
    # Where that is a view still: what is tiled has memory of its own, which can be written to.
    return made if math.prod(counts) > 1 and made.layout.is_writable else movement.copy(made)


_TRIANGLES = (((4, 5), {"k": 0}), ((4, 5), {"k": 2}), ((2, 5, 3), {"k": -1}), ((0, 3), {"k": 0}))


def _matrices(who: str) -> Callable[..., Layout]:
    def shape_of(x: Layout, *, k: int) -> Layout:
        if x.ndim < 2:
            raise ShapeError(f"{who}: a tensor of at least 2 axes is needed, got shape {x.shape}")
        return Layout.contiguous(x.dtype, x.shape)

    return shape_of


def _lower(cotangent: Any, k: Any) -> Any:
    return tril(cotangent, k=k)


def _upper(cotangent: Any, k: Any) -> Any:
    return triu(cotangent, k=k)


@indexed(shape_of=_matrices("tril"), dtypes=ALL, aten=("tril",), samples=cases(*_TRIANGLES),
         scalars={"k": dtypes.i32}, reference=lambda x, k=0: np.tril(x, k),
         gradient={"x": _lower})  # fmt: skip
def tril(at, x, *, k: Any = 0):
    """The lower triangles of matrices: zeros above diagonal `k`."""
    return select(at[-1].to(dtypes.i32) - at[-2].to(dtypes.i32) <= k, x.at(*at), 0)


@indexed(shape_of=_matrices("triu"), dtypes=ALL, aten=("triu",), samples=cases(*_TRIANGLES),
         scalars={"k": dtypes.i32}, reference=lambda x, k=0: np.triu(x, k),
         gradient={"x": _upper})  # fmt: skip
def triu(at, x, *, k: Any = 0):
    """The upper triangles of matrices: zeros below diagonal `k`."""
    return select(at[-1].to(dtypes.i32) - at[-2].to(dtypes.i32) >= k, x.at(*at), 0)
