"""Histograms of one and of several variables, over equal bins, edges, or bins by one of NumPy's rules."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.foundation.errors import ShapeError
from hologram.foundation.sizes import fixed_range
from hologram.frontend.array_api.creation import asarray
from hologram.frontend.numpy_names.counting import counted, unknown
from hologram.frontend.numpy_names.operands import beside, exact, floating, on_host
from hologram.frontend.numpy_names.quantiles import percentile
from hologram.frontend.tensor import Tensor
from hologram.machine.arguments import number, pair, sequence
from hologram.opset import creation, logic, movement, reduce, searching
from hologram.opset.forms.types import accumulator


def histogram(
    a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> tuple[Tensor, Tensor]:
    """How many elements lie in each bin (i64), or the sums of their weights, and the edges of the bins.

    `bins` is a number of equal bins over `range` (by default from the smallest element to the largest, which are waited
    for), the edges, or how to choose the number: "auto", "fd", "doane", "scott", "stone", "rice", "sturges" or "sqrt".
    The last bin has both of its edges. `density` divides by the sum and by the widths.
    """
    x = asarray(a)
    flat = _counted_in(x)
    edges = _edges(flat, bins, range, x.dtype, weights)
    last = edges.shape[0] - 1
    counts = counted(_places(edges, flat), _added(x, weights, bool(density)), last)
    if density:
        share = counts.astype(edges.dtype, copy=False)
        counts = share / (edges[1:] - edges[:-1]) / reduce.sum_(share)
    return counts, edges


def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Tensor:
    """The edges that histogram uses."""
    x = asarray(a)
    return _edges(_counted_in(x), bins, range, x.dtype, weights)


def histogramdd(
    sample: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """How many points (n, d), or d vectors of coordinates, lie in each bin, and the edges along each axis; floats.

    `bins` is a number for all axes, or for each axis a number or edges; `range`, if any, a pair for each axis.
    """
    if isinstance(sample, (tuple, list)):
        columns = [_counted_in(x) for x in beside(*sample)]
    else:
        points = asarray(sample)
        points = points.reshape(-1, 1) if points.ndim < 2 else points
        columns = [_counted_in(points[:, k]) for k in fixed_range(points.shape[1])]
    d = len(columns)
    each = bins if isinstance(bins, (tuple, list)) else [bins] * d
    ranges = [None] * d if range is None else sequence(range, "histogramdd: range")
    if len(each) != d or len(ranges) != d:
        raise ShapeError(f"histogramdd: {d} bins and ranges are needed, got {len(each)} and {len(ranges)}")
    edges = [_edges(x, b, r, x.dtype, None) for x, b, r in zip(columns, each, ranges, strict=True)]
    shape = tuple(e.shape[0] - 1 for e in edges)
    place: Any = 0
    inside: Any = True
    for x, e, n in zip(columns, edges, shape, strict=True):
        own = _places(e, x)
        inside = logic.logical_and(logic.logical_and(logic.greater_equal(own, 0), logic.less(own, n)), inside)
        place = place * n + own
    kind = edges[0].dtype
    added = _added(columns[0], weights, bool(density))
    added = added if added.dtype.is_inexact else added.astype(kind)
    counts = counted(logic.where(inside, place, -1), added, math.prod(shape)).reshape(shape)
    if density:
        counts = counts / reduce.sum_(counts)
        for axis, e in enumerate(edges):
            counts = counts / (e[1:] - e[:-1]).reshape([-1 if k == axis else 1 for k in fixed_range(d)])
    return counts, tuple(edges)


def histogram2d(
    x: Any, y: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> tuple[Tensor, Tensor, Tensor]:
    """How many of the points (x, y) lie in each bin, and the edges along x and along y: see histogramdd.

    Edges that are no pair are those of both axes.
    """
    both = beside(x, y)
    if both[0].shape != both[1].shape:
        raise ShapeError(f"histogram2d: as many x as y are needed, got {both[0].shape} and {both[1].shape}")
    pair = isinstance(bins, (int, np.integer)) or (isinstance(bins, (tuple, list)) and len(bins) == 2)
    counts, (along_x, along_y) = histogramdd(both, bins if pair else [bins, bins], range, density, weights)
    return counts, along_x, along_y


def _counted_in(x: Tensor) -> Tensor:
    """The elements, flat, in the dtype that edges have: f32 of narrower floats, which have too few numbers."""
    made = floating(x, "histogram")
    return made.astype(made.dtype.computed, copy=False).reshape(x.size)


def _places(edges: Tensor, flat: Tensor) -> Tensor:
    """Which bin each element is in; -1 and the number of bins outside, -1 of NaN."""
    last = edges.shape[0] - 1
    place = searching.searchsorted(edges, flat, side="right") - 1
    place = logic.where(logic.equal(flat, edges[last]), last - 1, place)
    return logic.where(logic.isnan(flat), -1, place)


def _added(x: Tensor, weights: Any, shared: bool) -> Tensor:
    """What each element counts, flat; as it is added up, where sums are only `shared` out."""
    if weights is None:
        return x.executor.ones(x.size, dtypes.i64)
    added = beside(x, weights)[1]
    if added.shape != x.shape:
        raise ShapeError(f"histogram: weights of shape {x.shape} are needed, got {added.shape}")
    return (added.astype(accumulator(added.dtype), copy=False) if shared else added).reshape(x.size)


def _edges(flat: Tensor, bins: Any, range: Any, given: DType, weights: Any) -> Tensor:
    """Edges for elements that were of a dtype; `bins` as histogram takes them."""
    if not isinstance(bins, (int, np.integer, str)):
        return _known_edges(flat, bins)
    if isinstance(bins, str) and bins not in RULES:
        raise ValueError(
            f"histogram: bins must be a number, edges or one of {', '.join(RULES)}, got {bins!r}"
        )
    if isinstance(bins, str) and weights is not None:
        raise TypeError(f"histogram: the rule {bins!r} does not know weights")
    if not isinstance(bins, str) and bins < 1:
        raise ValueError(f"histogram: at least one bin is needed, got {bins}")
    if range is not None:
        low, high = (
            float(number(x, "histogram: an end of the range")) for x in pair(range, "histogram: range")
        )
    elif flat.size:
        low, high = float(reduce.min_(flat)), float(reduce.max_(flat))
    else:
        low, high = 0.0, 1.0
    if not (np.isfinite(low) and np.isfinite(high)) or low > high:
        raise ValueError(f"histogram: the range must be finite and rise, got ({low}, {high})")
    if low == high:
        low, high = low - 0.5, high + 0.5
    count = _count(flat, bins, low, high, given) if isinstance(bins, str) else int(bins)
    dtype = flat.dtype if flat.dtype.name in ("f32", "f64") else dtypes.f32
    return creation.linspace(flat.executor, low, high, count + 1, dtype=dtype.name)


def _known_edges(flat: Tensor, bins: Any) -> Tensor:
    edges = floating(beside(flat, bins)[1], "histogram: bins").astype(flat.dtype, copy=False)
    if edges.ndim != 1 or edges.shape[0] < 2:
        raise ShapeError(f"histogram: edges must be a vector of two at least, got shape {edges.shape}")
    if not unknown(bins) and np.any(np.diff(on_host(bins, "histogram: bins")) < 0):
        raise ValueError("histogram: edges must rise throughout")
    return edges


def _count(flat: Tensor, rule: str, low: float, high: float, given: DType) -> int:
    """How many bins a rule wants between two numbers; it looks at what lies there."""
    inside = flat[logic.logical_and(logic.greater_equal(flat, low), logic.less_equal(flat, high))]
    if not inside.size:
        return 1
    x = inside.astype(exact(inside), copy=False)
    width = RULES[rule](x, float(reduce.max_(x) - reduce.min_(x)))
    if given.is_integer and width < 1:
        width = 1.0
    return math.ceil((high - low) / width) if width else 1


# Widths of bins, from the elements and the distance between the smallest and the largest.
# Freedman and Diaconis (1981), Doane (1976), Scott (1979), Stone (1984), Terrell and Scott (1985), Sturges (1926).


def _sqrt(x: Tensor, extent: float) -> float:
    return extent / math.sqrt(x.size)


def _sturges(x: Tensor, extent: float) -> float:
    return extent / (math.log2(x.size) + 1)


def _rice(x: Tensor, extent: float) -> float:
    return extent / (2 * x.size ** (1 / 3))


def _scott(x: Tensor, extent: float) -> float:
    return (24 * math.sqrt(math.pi) / x.size) ** (1 / 3) * float(reduce.std(x))


def _freedman_diaconis(x: Tensor, extent: float) -> float:
    upper, lower = percentile(x, [75, 25]).tolist()
    return 2 * (upper - lower) * x.size ** (-1 / 3)


def _doane(x: Tensor, extent: float) -> float:
    n = x.size
    deviation = float(reduce.std(x)) if n > 2 else 0.0
    if deviation <= 0:
        return 0.0
    spread = math.sqrt(6 * (n - 2) / ((n + 1) * (n + 3)))
    skewness = float(reduce.mean(((x - reduce.mean(x)) / deviation) ** 3))
    return extent / (1 + math.log2(n) + math.log2(1 + abs(skewness) / spread))


def _stone(x: Tensor, extent: float) -> float:
    """The number of bins up to max(100, sqrt(n)) with the smallest loss by leaving one out."""
    n = x.size
    if n <= 1 or extent == 0:
        return 0.0
    losses = []
    for bins in fixed_range(1, max(100, math.isqrt(n)) + 1):
        share = histogram(x, bins)[0].astype(x.dtype) / n
        losses.append((2 - (n + 1) * reduce.sum_(share * share)) / (extent / bins))
    best = int(np.argmin(movement.stack(losses).to_numpy()))
    return extent / (best + 1)


def _auto(x: Tensor, extent: float) -> float:
    return min(max(_freedman_diaconis(x, extent), _sqrt(x, extent) / 2), _sturges(x, extent))


RULES: dict[str, Callable[[Tensor, float], float]] = {
    "auto": _auto, "fd": _freedman_diaconis, "doane": _doane, "scott": _scott, "stone": _stone, "rice": _rice,
    "sturges": _sturges, "sqrt": _sqrt,
}  # fmt: skip
