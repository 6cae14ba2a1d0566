"""Reading at positions as NumPy writes it: take, take_along_axis."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from hologram.foundation.dtypes import ALL, DType
from hologram.machine.axes import normalize_axis
from hologram.opset.forms.composite import composite
from hologram.opset.forms.operation import Sample
from hologram.opset.forms.samples import array
from hologram.opset.indexing import gather, index_select


def _take_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for shape, axis in (((9,), 0), ((4, 5), -1)):
        index = rng.integers(0, shape[axis], 6).astype(np.int64)
        yield Sample((array(rng, dtype, shape), index), {"axis": axis})
    yield Sample((array(rng, dtype, (4, 5)), rng.integers(0, 4, (2, 3)).astype(np.int8)))
    yield Sample((array(rng, dtype, (300,)), np.array(299, np.uint16)))


@composite(dtypes=ALL, samples=_take_samples,
           reference=lambda x, indices, axis=0: np.take(x, indices, axis))  # fmt: skip
def take(x, indices, *, axis=0):
    """The slices of x along an axis (of the flat tensor, for None) at `indices`, whose shape replaces the axis.

    Positions are as in index_select: negative ones count from the end, those out of range give zeros, for nobody waits
    to see them; `x[indices]` does, and raises IndexError.
    """
    if axis is None:
        return take(x.flatten(), indices, axis=0)
    k = normalize_axis(axis, x.ndim, "take")
    slices = index_select(x, indices.flatten(), axis=k)
    return slices if indices.ndim == 1 else slices.reshape(*x.shape[:k], *indices.shape, *x.shape[k + 1 :])


def _take_along_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for shape, picked, axis in (((9,), (4,), 0), ((4, 5), (4, 7), -1)):
        index = rng.integers(0, shape[axis], picked).astype(np.int64)
        yield Sample((array(rng, dtype, shape), index), {"axis": axis})


@composite(dtypes=ALL, samples=_take_along_samples,
           reference=lambda x, indices, axis=-1: np.take_along_axis(x, indices, axis))  # fmt: skip
def take_along_axis(x, indices, *, axis=-1):
    """The elements of x at the positions in `indices` along an axis; see gather."""
    return gather(x, indices, dim=axis)
