"""Reductions of segments that lie one behind another along an axis."""

from __future__ import annotations

from typing import Any

import hologram as hg
from hologram.frontend.tensor import Tensor
from hologram_torch.aten.indexing.positions import check
from hologram_torch.aten.indexing.scattering import reduced
from hologram_torch.kernels.numbers import highest, lowest, scalar
from hologram_torch.kernels.registry import implements

WORDS = {"sum": "sum", "mean": "sum", "prod": "prod", "max": "amax", "min": "amin"}
EMPTY = {"sum": lambda d: 0, "mean": lambda d: 0, "prod": lambda d: 1, "max": lowest, "min": highest}


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
    else:
        ends = offsets.narrow(-1, 1, offsets.shape[-1] - 1)
        lengths = ends - offsets.narrow(-1, 0, offsets.shape[-1] - 1)
    count = lengths.shape[-1]
    first = EMPTY[reduce](data.dtype) if initial is None else initial
    shape = (*data.shape[:axis], count, *data.shape[axis + 1 :])
    start = scalar(data, first).expand(shape)
    lead = data.shape[:axis]
    numbers = hg.arange(data.executor, 0, n).expand((*lead, n)).contiguous()
    which = hg.searchsorted(ends.contiguous(), numbers, side="right")
    which = _spread(which, data.ndim).expand(data.shape)
    found = reduced(start, axis, which, data, WORDS[reduce], True) if count and n else start
    if reduce == "mean":
        found = found / _spread(lengths, data.ndim).astype(data.dtype)
        if initial is not None:
            found = hg.where(_spread(hg.equal(lengths, 0), data.ndim), scalar(data, initial), found)
    return found


def _spread(x: Tensor, ndim: int) -> Tensor:
    """With axes behind its own, up to so many."""
    return x.reshape(*x.shape, *(1,) * (ndim - x.ndim))
