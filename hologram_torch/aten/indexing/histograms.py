"""Counts, or sums of weights, of what lies between edges, along one axis or several."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import hologram as hg
from hologram.frontend.tensor import Tensor
from hologram_torch.kernels.registry import implements

Range = Sequence[float] | None


def edges_between(x: Tensor, bins: int, low: float | None, high: float | None) -> Tensor:
    """Edges of equal parts of an interval, of that of all elements if none is given."""
    if bins <= 0:
        raise RuntimeError(f"hologram, histogram: bins must be > 0, got {bins}")
    if low is None or high is None:
        low, high = (float(hg.min(x).item()), float(hg.max(x).item())) if x.size else (0.0, 1.0)
        if low == high:
            low, high = low - 0.5, high + 0.5
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"hologram, histogram: range [{low}, {high}] is not finite")
    if low > high:
        raise RuntimeError("hologram, histogram: min should not exceed max")
    return hg.linspace(x.executor, low, high, bins + 1, dtype=x.dtype)


def counted(x: Tensor, edges: Sequence[Tensor], weight: Tensor | None, density: bool) -> Tensor:
    """Of rows (n, axes): those on the last edge belong to the last part; those outside do not count."""
    shape = tuple(e.shape[0] - 1 for e in edges)
    flat: Any = x.executor.zeros(x.shape[0], "i64")
    inside: Any = x.executor.ones(x.shape[0], "bool")
    for k, edge in enumerate(edges):
        column = x.select(1, k)
        place = hg.searchsorted(edge, column, side="right") - 1
        place = hg.where(hg.equal(column, edge[-1:]), shape[k] - 1, place)
        inside = hg.logical_and(inside, hg.logical_and(hg.greater_equal(place, 0), hg.less(place, shape[k])))
        flat = flat * shape[k] + place
    size = math.prod(shape)
    zeros = x.executor.zeros(size + 1, x.dtype)
    given = x.executor.ones(x.shape[0], x.dtype) if weight is None else weight.reshape(x.shape[0])
    counts = hg.scatter_add(zeros, hg.where(inside, flat, size), given, dim=0)[:size].reshape(shape)
    if density:
        counts = counts / hg.sum(counts)
        for k, edge in enumerate(edges):
            width = edge[1:] - edge[:-1]
            counts = counts / width.reshape(tuple(n if axis == k else 1 for axis, n in enumerate(shape)))
    return counts


@implements("histogram.bin_ct", inferred=False)
def histogram(
    x: Any, bins: int = 100, *, range: Range = None, weight: Any = None, density: bool = False
) -> Any:
    low, high = range if range is not None else (None, None)
    edges = edges_between(x, bins, low, high)
    return counted(x.reshape(x.size, 1), [edges], weight, density), edges


@implements("histogram.bins_tensor", inferred=False)
def histogram_within(x: Any, bins: Any, *, weight: Any = None, density: bool = False) -> Any:
    return counted(x.reshape(x.size, 1), [bins], weight, density), bins


def _rows(x: Tensor) -> Tensor:
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


@implements("_histogramdd_bin_edges", inferred=False)
def histogramdd_edges(
    x: Any, bins: Sequence[int], *, range: Range = None, weight: Any = None, density: bool = False
) -> Any:
    rows = _rows(x)
    if len(bins) != rows.shape[1]:
        raise RuntimeError(
            "hologram, histogramdd: The size of bins must be equal to the innermost dimension of the input."
        )
    bounds = [None] * (2 * len(bins)) if range is None else list(range)
    return [edges_between(rows.select(1, k), n, bounds[2 * k], bounds[2 * k + 1]) for k, n in enumerate(bins)]


@implements("_histogramdd_from_bin_cts", inferred=False)
def histogramdd(
    x: Any, bins: Sequence[int], *, range: Range = None, weight: Any = None, density: bool = False
) -> Any:
    return counted(_rows(x), histogramdd_edges(x, bins, range=range), weight, density)


@implements("_histogramdd_from_bin_tensors", inferred=False)
def histogramdd_within(x: Any, bins: Sequence[Any], *, weight: Any = None, density: bool = False) -> Any:
    return counted(_rows(x), bins, weight, density)
