"""Reductions of segments that lie one behind another along an axis."""

from __future__ import annotations

from typing import Any

import hologram as hg
from hologram.frontend.tensor import Tensor
from hologram_torch.aten.indexing.positions import check, refuse
from hologram_torch.aten.indexing.scattering import reduced
from hologram_torch.kernels.numbers import scalar
from hologram_torch.kernels.registry import implements

WORDS = {"sum": "sum", "mean": "sum", "prod": "prod", "max": "amax", "min": "amin"}
EMPTY = {
    "sum": lambda d: 0,
    "mean": lambda d: 0,
    "prod": lambda d: 1,
    "max": lambda d: d.lowest,
    "min": lambda d: d.highest,
}


@implements("segment_reduce", inferred=False)
def segment_reduce(
    data: Any,
    reduce: str,
    *,
    lengths: Any = None,
    indices: Any = None,
    offsets: Any = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Any:
    """A segment without elements gives the initial value, or what the reduction of nothing is."""
    axis %= data.ndim
    if not data.dtype.is_float:
        raise NotImplementedError(f"hologram, segment_reduce: not implemented for {data.dtype}")
    if reduce not in WORDS:
        raise RuntimeError(
            f"hologram, segment_reduce: reduce must be one of {', '.join(WORDS)}, got {reduce!r}"
        )
    if (lengths is None) == (offsets is None):
        raise RuntimeError("hologram, segment_reduce: either lengths or offsets must be given")
    n = data.shape[axis]
    if offsets is None:
        ends = hg.cumsum(lengths, axis=-1)
        if not unsafe:
            check("segment_reduce", lengths, n + 1, kind=RuntimeError)
            check("segment_reduce", ends, n + 1, kind=RuntimeError)
            short = hg.any(hg.not_equal(hg.sum(lengths, axis=-1), n))
            refuse("segment_reduce", short, f"lengths must add up to {n} along the last axis")
    else:
        lengths, ends = _between(offsets)
    count = lengths.shape[-1]
    first = EMPTY[reduce](data.dtype) if initial is None else initial
    shape = (*data.shape[:axis], count, *data.shape[axis + 1 :])
    start = scalar(data, first).expand(shape)
    start, source = (x.astype(data.dtype.computed, copy=False) for x in (start, data))
    result = (
        reduced(start, axis, _which(data, axis, ends), source, WORDS[reduce], True) if count and n else start
    )
    if reduce == "mean":
        result = result / _spread(lengths, data.ndim)
        if initial is not None:
            result = hg.where(_spread(hg.equal(lengths, 0), data.ndim), scalar(source, initial), result)
    return result.astype(data.dtype, copy=False)


def _between(offsets: Tensor) -> tuple[Tensor, Tensor]:
    """The lengths of segments and where each ends, from where they begin and the last one ends."""
    ends = offsets.narrow(-1, 1, offsets.shape[-1] - 1)
    return ends - offsets.narrow(-1, 0, offsets.shape[-1] - 1), ends


def _which(data: Tensor, axis: int, ends: Tensor) -> Tensor:
    """The number of the segment that each element lies in; that of none behind the last one."""
    n = data.shape[axis]
    numbers = hg.arange(data.executor, 0, n).expand((*data.shape[:axis], n)).contiguous()
    which = hg.searchsorted(ends.contiguous(), numbers, side="right")
    return _spread(which, data.ndim).expand(data.shape)


@implements("_segment_reduce_backward", inferred=False)
def segment_reduce_backward(
    cotangent: Any,
    result: Any,
    data: Any,
    reduce: str,
    *,
    lengths: Any = None,
    offsets: Any = None,
    axis: int = 0,
    initial: Any = None,
) -> Any:
    """Elements that share an extreme share its cotangent."""
    axis %= data.ndim
    lengths, ends = (lengths, hg.cumsum(lengths, axis=-1)) if offsets is None else _between(offsets)
    if not data.size or not result.size:
        return data.executor.zeros(data.shape, data.dtype)
    which = _which(data, axis, ends)

    def own(x: Tensor) -> Tensor:  # that of an element's segment; 0 where it has none
        return hg.gather(x, which, dim=axis)

    def counted(marked: Tensor) -> Tensor:
        zeros = data.executor.full((), 0, "i32").expand(result.shape)
        return own(reduced(zeros, axis, which, marked.astype("i32"), "sum", True))

    slope = own(cotangent)
    if reduce == "mean":
        return slope / own(_spread(lengths, data.ndim).expand(result.shape))
    if reduce == "prod":
        special = hg.logical_or(hg.equal(data, 0), hg.isnan(data))  # by which the product cannot be divided
        ones = data.executor.full((), 1 if initial is None else initial, data.dtype).expand(result.shape)
        others = own(reduced(ones, axis, which, hg.where(special, 1, data), "prod", True))
        alone = hg.logical_and(special, hg.equal(counted(special), 1))
        return slope * hg.where(alone, others, own(result) / hg.where(hg.equal(data, 0), 1, data))
    if reduce in ("max", "min"):
        extreme = hg.logical_or(hg.equal(data, own(result)), hg.isnan(data))
        return hg.where(extreme, slope / counted(extreme), 0)
    return slope


def _spread(x: Tensor, ndim: int) -> Tensor:
    """With axes behind its own, up to so many."""
    return x.reshape(*x.shape, *(1,) * (ndim - x.ndim))
