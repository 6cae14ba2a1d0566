"""How often numbers occur, or lie in parts of an interval."""

from __future__ import annotations

import math
from typing import Any

import torch

import hologram as hg
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.frontend.tensor import Tensor
from hologram_torch.kernels.registry import implements


def tally(place: Tensor, bins: int, dtype: DType, weights: Tensor | None = None) -> Tensor:
    """How often each number below `bins` occurs, or the sum of its weights; others do not count."""
    # No device is slow at sums of i32, and as many as an i32 counts are enough for most.
    few = place.size < 2**31
    kind = weights.dtype if weights is not None else dtypes.i32 if few else dtypes.i64
    given = place.executor.full((), 1, kind).expand(place.shape) if weights is None else weights
    zeros = place.executor.full((), 0, kind).expand((bins,))
    return hg.scatter_add(zeros, place, given, dim=0).astype(dtype, copy=False)


@hg.jit
def _extremes(x: Tensor) -> tuple[Tensor, Tensor]:
    return hg.min(x), hg.max(x)


@implements("bincount", inferred=False)
def bincount(x: Any, weights: Any = None, minlength: int = 0) -> Any:
    """How often each number occurs, or the sum of its weights."""
    if x.dtype.is_float:
        raise NotImplementedError(f"hologram, bincount: not implemented for {x.dtype}")
    if x.ndim != 1 or minlength < 0:
        raise RuntimeError(
            "hologram, bincount: bincount only supports 1-d non-negative integral inputs, and a minlength of at least 0"
        )
    if weights is not None and weights.shape != x.shape:
        raise RuntimeError("hologram, bincount: weights should be 1-d and have the same length as input")
    if not x.size:
        return x.executor.zeros(minlength, "i64")
    low, high = (int(bound.item()) for bound in _extremes(x))
    if low < 0:
        raise RuntimeError("hologram, bincount: bincount only supports 1-d non-negative integral inputs.")
    bins = max(high + 1, minlength)
    if weights is None:
        return tally(x, bins, dtypes.i64)
    dtype = dtypes.f32 if weights.dtype is dtypes.f32 else dtypes.f64
    return tally(x, bins, dtype, weights.astype(dtype, copy=False))


# Equal parts of an interval: the last one has its end too.

WHOLE = frozenset(
    {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}
)  # as PyTorch's CUDA has it


def _inside(x: Tensor, low: Any, high: Any) -> Tensor:
    return hg.logical_and(hg.greater_equal(x, low), hg.less_equal(x, high))


@hg.jit
def _parts(x: Tensor, low: float, high: float, scale: float, bins: int) -> Tensor:
    place = hg.floor((x - low) * scale)
    place = hg.where(hg.equal(x, high), bins - 1, hg.clip(place, 0, bins - 1))
    return tally(hg.where(_inside(x, low, high), place, bins).astype(dtypes.i32), bins, x.dtype)


@hg.jit
def _whole_parts(x: Tensor, low: Tensor, high: Tensor, bins: int) -> Tensor:
    """The same in integers of the bounds' dtype, which holds all that are inside of them, times `bins`."""
    wide = x.astype(low.dtype, copy=False)
    place = hg.minimum(hg.floor_divide((wide - low) * bins, high - low), bins - 1)
    return tally(hg.where(_inside(wide, low, high), place, bins).astype(dtypes.i32), bins, x.dtype)


@implements("histc", wider=WHOLE)
def histc(x: Any, bins: int = 100, min: float = 0, max: float = 0) -> Any:
    """How many elements lie in each of equal parts of an interval, of that of all elements if it is empty."""
    whole = not x.dtype.is_float
    if not (math.isfinite(min) and math.isfinite(max)):
        raise RuntimeError(f"hologram, histc: range of [{min}, {max}] is not finite")
    low, high = (int(min), int(max)) if whole else (float(min), float(max))
    if low == high and x.size:
        low, high = (bound.item() for bound in _extremes(x))
    if low == high:
        low, high = low - 1, high + 1
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"hologram, histc: range of [{low}, {high}] is not finite")
    if low > high:
        raise RuntimeError("hologram, histc: max must be larger than min")
    flat = x.reshape(x.size)
    if not x.size:
        return x.executor.zeros(bins, x.dtype)
    if not whole:
        return _parts(flat, low, high, bins / (high - low), bins)
    reach = (high - low) * bins
    if reach >= 2**63 or not -(2**63) <= low <= high < 2**63:
        counts = _parts(flat.astype(dtypes.f64), float(low), float(high), bins / (high - low), bins)
        return counts.astype(x.dtype)
    few = x.dtype.bits <= 32 and reach < 2**31 and -(2**31) <= low <= high < 2**31
    kind = dtypes.i32 if few else dtypes.i64
    first, last = (x.executor.full((), end, kind) for end in (low, high))
    return _whole_parts(flat, first, last, bins)
