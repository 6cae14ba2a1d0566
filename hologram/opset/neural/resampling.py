"""Resampling along an axis: sums of elements at given positions, by given weights.

Interpolation, pooling by means, and padding by reflection are of this form, an axis at a time, and so are their
derivatives.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from hologram.atlas.functions import reduce_add, select
from hologram.foundation import dtypes
from hologram.foundation.dtypes import FLOATS, DType
from hologram.foundation.errors import ShapeError, UnsupportedDType
from hologram.machine.axes import normalize_axis
from hologram.machine.layout import Layout
from hologram.opset.forms.map import indexed
from hologram.opset.forms.operation import Sample
from hologram.opset.forms.samples import array
from hologram.opset.indexing import index_select, scatter_add
from hologram.opset.logic import where
from hologram.opset.math import multiply
from hologram.opset.reduce import sum_


def _resample_shape(x, positions, weights, *, axis):
    axis = normalize_axis(axis, x.ndim, "resample")
    if positions.ndim != 2 or positions.shape != weights.shape:
        raise ShapeError(
            f"resample: positions and weights must have one shape (results, taps), got {positions.shape} and "
            f"{weights.shape}"
        )
    if positions.dtype is not dtypes.i32 or not weights.dtype.is_float:
        raise UnsupportedDType(
            f"resample: positions must be i32 and weights floats, got {positions.dtype} and {weights.dtype}"
        )
    return Layout.contiguous(x.dtype, (*x.shape[:axis], positions.shape[0], *x.shape[axis + 1 :]))


def _resample_reference(x, positions, weights, axis):
    x = np.moveaxis(np.asarray(x), axis, -1)
    inside = (positions >= 0) & (positions < x.shape[-1])
    taps = np.where(inside, x[..., np.where(inside, positions, 0)] * weights, 0.0)
    return np.moveaxis(taps.sum(axis=-1), -1, axis)


def _resample_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for shape, axis, results, taps in (((9,), 0, 5, 2), ((4, 7), 1, 12, 3), ((3, 5, 6), -2, 4, 1)):
        positions = rng.integers(-2, shape[axis] + 1, (results, taps)).astype(np.int32)
        weights = array(rng, dtype.computed, (results, taps), -2, 2)
        yield Sample((array(rng, dtype, shape), positions, weights), {"axis": axis})


def _spread(cotangent: Any, inputs: Any, positions: Any, weights: Any, axis: Any) -> Any:
    """Every weighted tap, added up at its position; those that are nowhere, nowhere."""
    axis %= cotangent.ndim
    order = [*(k for k in range(cotangent.ndim) if k != axis), axis]
    moved = cotangent.permute(order).unsqueeze(-1)
    outer, count = moved.shape[:-2], positions.size
    taps = multiply(moved, weights.astype(cotangent.dtype, copy=False)).reshape(*outer, count)
    places = positions.reshape(count)
    length = inputs[0].shape[axis]
    beyond = (places < 0) * length + (places >= 0) * places  # scatter counts what is negative from the end
    zero = cotangent.executor.full((), 0, cotangent.dtype).expand((*outer, length))
    sums = scatter_add(zero, beyond.astype(dtypes.i32, copy=False).expand(taps.shape), taps, dim=-1)
    return sums.permute([order.index(k) for k in range(cotangent.ndim)])


def _weighed(cotangent: Any, inputs: Any, x: Any, positions: Any, axis: Any) -> Any:
    """For every weight, what it multiplies times what comes back, over all other axes."""
    axis %= cotangent.ndim
    order = [*(k for k in range(cotangent.ndim) if k != axis), axis]
    lines, back = x.permute(order), cotangent.permute(order)
    length, (results, taps) = lines.shape[-1], positions.shape
    inside = (positions >= 0) & (positions < length)
    places = where(inside, positions, 0).reshape(results * taps)
    gathered = index_select(lines.reshape(-1, length), places, axis=1).reshape(-1, results, taps)
    total = sum_(multiply(gathered, back.reshape(-1, results, 1)), axis=0)
    return where(inside, total, 0).astype(inputs[2].dtype, copy=False)


@indexed(
    shape_of=_resample_shape,
    window=lambda x, positions, weights, *, axis: positions.shape[1:],
    dtypes=FLOATS,
    samples=_resample_samples,
    reference=_resample_reference,
    ulp=4,
    absolute=8.0,
    gradient={"x": _spread, "weights": _weighed},
    methods=False,
)
def resample(at, window, x, positions, weights, *, axis):
    """out[i] = the sum over t of weights[i, t] * x[positions[i, t]] along `axis`; positions out of range count as none.

    positions (results, taps) are i32, weights of that shape floats.
    """
    axis %= x.ndim
    taps = (at[axis], window[0])
    position = positions.at(*taps)
    inside = (position >= 0) & (position < x.extent(axis).to(position.dtype))
    place = select(inside, position, 0).to(dtypes.index)
    return reduce_add(select(inside, x.at(*at[:axis], place, *at[axis + 1 :]) * weights.at(*taps), 0.0))
