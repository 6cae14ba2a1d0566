"""Reading at positions as NumPy writes it: take, take_along_axis."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from hologram.foundation.dtypes import ALL, DType
from hologram.foundation.errors import ShapeError
from hologram.machine.axes import broadcast, normalize_axis
from hologram.opset.forms.composite import Shaped, composite
from hologram.opset.forms.operation import Sample
from hologram.opset.forms.samples import array
from hologram.opset.indexing import gather, index_select
from hologram.opset.math import maximum, minimum, remainder
from hologram.opset.movement import cast

MODES = ("fill", "raise", "wrap", "clip")


def _take_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for shape, axis in (((9,), 0), ((4, 5), -1)):
        index = rng.integers(0, shape[axis], 6).astype(np.int64)
        yield Sample((array(rng, dtype, shape), index), {"axis": axis})
    yield Sample((array(rng, dtype, (4, 5)), rng.integers(0, 20, (2, 3)).astype(np.int8)))
    yield Sample((array(rng, dtype, (300,)), np.array(299, np.uint16)))
    for mode, kind in (("wrap", np.int32), ("clip", np.int64), ("clip", np.uint8)):
        index = rng.integers(0 if kind is np.uint8 else -90, 90, (2, 7)).astype(kind)
        yield Sample((array(rng, dtype, (4, 5)), index), {"axis": 1, "mode": mode})


def _taken(x, indices, axis=None, mode: Any = "raise"):
    return np.take(x, indices, axis, mode=mode)


@composite(dtypes=ALL, samples=_take_samples, reference=_taken)
def take(x, indices, *, axis=None, mode="fill"):
    """The slices of x along an axis (of the flat tensor, if none is named) at `indices`, whose shape replaces the axis.

    Positions are as in index_select: negative ones count from the end, those out of range give zeros, for nobody waits
    to see them. The `mode` "raise" waits, as `x[indices]` does, and raises IndexError; "wrap" counts on from the
    beginning, "clip" stays at the ends, also for negative ones.
    """
    if mode not in MODES:
        raise ValueError(f"take: mode must be one of {', '.join(MODES)}, got {mode!r}")
    if axis is None:
        x, axis = x if x.ndim == 1 else x.reshape(x.size), 0
    k = normalize_axis(axis, x.ndim, "take")
    if mode == "raise" and not isinstance(x, Shaped):
        return x[(*(slice(None),) * k, indices)]
    if mode in ("wrap", "clip") and indices.size:
        if not x.shape[k]:
            raise ShapeError(f"take: an axis with elements is needed, got shape {x.shape} and axis {axis}")
        indices = indices if indices.dtype.bits == 64 else cast(indices, dtype="i64")
        last = x.shape[k] - 1
        indices = remainder(indices, last + 1) if mode == "wrap" else minimum(maximum(indices, 0), last)
    slices = index_select(x, indices.reshape(indices.size), axis=k)
    return slices if indices.ndim == 1 else slices.reshape(*x.shape[:k], *indices.shape, *x.shape[k + 1 :])


def _take_along_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for shape, picked, axis in (
        ((9,), (4,), 0),
        ((4, 5), (4, 7), -1),
        ((4, 5, 3), (2, 1, 3), 0),
        ((1, 5), (3, 2), 1),
    ):
        index = rng.integers(0, shape[axis], picked).astype(np.int64)
        yield Sample((array(rng, dtype, shape), index), {"axis": axis})


@composite(dtypes=ALL, samples=_take_along_samples,
           reference=lambda x, indices, axis=-1: np.take_along_axis(x, indices, axis))  # fmt: skip
def take_along_axis(x, indices, *, axis=-1):
    """The elements of x at the positions in `indices` along an axis (of the flat tensor, for None); see gather.

    Along the other axes x and `indices` are broadcast.
    """
    if axis is None:
        x, axis = x.reshape(x.size), 0
    shape, picked = x.shape, indices.shape
    n = len(shape)
    if (shape == picked or len(picked) == n == 1) and axis in range(-n, n):  # nothing is broadcast
        return gather(x, indices, dim=axis)
    k = normalize_axis(axis, n, "take_along_axis")
    if len(picked) != n:
        raise ShapeError(
            f"take_along_axis: positions must have as many axes as x, got shapes {picked} and {shape}"
        )
    rest = broadcast([(*a.shape[:k], 1, *a.shape[k + 1 :]) for a in (x, indices)], "take_along_axis")
    wide = (a.expand((*rest[:k], a.shape[k], *rest[k + 1 :])) for a in (x, indices))
    return gather(*wide, dim=k)
