"""Order statistics, spread and how two things vary together."""

from __future__ import annotations

from typing import Any

import numpy as np

from hologram.foundation.errors import ShapeError
from hologram.frontend.array_api.creation import asarray
from hologram.frontend.linear_algebra.products import diagonal
from hologram.frontend.numpy_names.operands import beside, floating, inexact, on_host, rows
from hologram.frontend.tensor import Tensor
from hologram.machine.axes import normalize_axis
from hologram.opset import complex_numbers, indexing, logic, matmul, movement, reduce, rounding, sort
from hologram.opset import math as arithmetic
from hologram.opset.complex_numbers import conjugated

# Continuous estimates of quantiles by their parameters alpha and beta (Hyndman and Fan 1996).
WEIGHED = {
    "linear": (1.0, 1.0), "hazen": (0.5, 0.5), "weibull": (0.0, 0.0), "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (0.375, 0.375), "interpolated_inverted_cdf": (0.0, 1.0),
}  # fmt: skip
NEAREST = ("lower", "higher", "nearest", "midpoint")  # of what "linear" lies between


def quantile(a: Any, q: Any, axis: Any = None, *, method: str = "linear", keepdims: bool = False) -> Tensor:
    """The values below which a share q (in [0, 1]) of the elements lies, along axes; NaN where there is any.

    `q` is a number or an array of some, whose axes come first. `method` is one of NumPy's, but for those that jump.
    """
    return _quantile(floating(a, "quantile"), on_host(q, "quantile: q"), axis, method, keepdims, "quantile")


def percentile(a: Any, q: Any, axis: Any = None, *, method: str = "linear", keepdims: bool = False) -> Tensor:
    """Quantiles by percent: see quantile."""
    share = np.asarray(on_host(q, "percentile: q")) / 100
    return _quantile(floating(a, "percentile"), share, axis, method, keepdims, "percentile")


def median(a: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The middle element in order, or the mean of both, along axes; NaN where there is any."""
    return _quantile(floating(a, "median"), np.asarray(0.5), axis, "linear", keepdims, "median")


def _quantile(x: Tensor, q: np.ndarray, axis: Any, method: str, keepdims: bool, who: str) -> Tensor:
    if method not in (*WEIGHED, *NEAREST):
        raise ValueError(f"{who}: method must be one of {', '.join((*WEIGHED, *NEAREST))}, got {method!r}")
    q = q.astype(np.float64)
    if not np.all((q >= 0) & (q <= 1)):
        raise ValueError(f"{who}: shares must lie in {'[0, 100]' if who == 'percentile' else '[0, 1]'}")
    flat, kept = rows(x, axis, who)
    n = flat.shape[-1]
    if not n:
        raise ShapeError(f"{who}: a row without elements has none, got shape {x.shape}")
    ordered = sort.sort(flat, axis=-1)
    last = ordered[..., n - 1 : n]
    found = []
    for share in q.reshape(-1):
        low, high, weight = _between(float(share), n, method)
        first = ordered[..., low]
        value = first if low == high or not weight else _mixed(first, ordered[..., high], weight)
        value = logic.where(logic.isnan(last[..., 0]), last[..., 0], value)
        found.append(value.reshape(kept) if keepdims else value)
    return _joined(found, q.shape, x, kept if keepdims else flat.shape[:-1])


def _joined(found: list[Tensor], shape: tuple[int, ...], x: Tensor, each: tuple[int, ...]) -> Tensor:
    """One result, or an array of some, of a shape that comes first."""
    if not found:
        return x.executor.empty((*shape, *each), x.dtype)
    return movement.stack(found, axis=0).reshape((*shape, *each)) if shape else found[0]


def _between(share: float, n: int, method: str) -> tuple[int, int, float]:
    """The positions that a quantile lies between, and how far from the first."""
    alpha, beta = WEIGHED.get(method, (1.0, 1.0))
    place = n * share + (alpha + share * (1 - alpha - beta)) - 1
    place = min(max(place, 0.0), n - 1.0)
    low = int(np.floor(place))
    high = min(low + 1, n - 1)
    weight = place - low
    if method in ("lower", "higher"):
        chosen = low if method == "lower" or not weight else high
        return chosen, chosen, 0.0
    if method == "nearest":
        chosen = min(int(np.round(place)), n - 1)
        return chosen, chosen, 0.0
    return low, high, (0.5 if weight else 0.0) if method == "midpoint" else weight


def _mixed(a: Any, b: Any, weight: Any) -> Any:
    """a + (b - a) weight, exact at both ends; of equal infinities these."""
    return logic.where(logic.equal(a, b), a, a * (1.0 - weight) + b * weight)


def nanquantile(a: Any, q: Any, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """Quantiles of what is not NaN, by the method "linear": see quantile."""
    return _nanquantile(
        floating(a, "nanquantile"), on_host(q, "nanquantile: q"), axis, keepdims, "nanquantile"
    )


def nanpercentile(a: Any, q: Any, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """Percentiles of what is not NaN: see nanquantile."""
    share = np.asarray(on_host(q, "nanpercentile: q")) / 100
    return _nanquantile(floating(a, "nanpercentile"), share, axis, keepdims, "nanpercentile")


def nanmedian(a: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The median of what is not NaN; NaN where nothing is."""
    return _nanquantile(floating(a, "nanmedian"), np.asarray(0.5), axis, keepdims, "nanmedian")


def _nanquantile(x: Tensor, q: np.ndarray, axis: Any, keepdims: bool, who: str) -> Tensor:
    q = q.astype(np.float64)
    if not np.all((q >= 0) & (q <= 1)):
        raise ValueError(f"{who}: shares must lie in {'[0, 100]' if who == 'nanpercentile' else '[0, 1]'}")
    flat, kept = rows(x, axis, who)
    n = flat.shape[-1]
    if not n:
        raise ShapeError(f"{who}: a row without elements has none, got shape {x.shape}")
    ordered = sort.sort(flat, axis=-1)  # NaN last
    last = reduce.sum_(logic.logical_not(logic.isnan(flat)), axis=-1, keepdims=True) - 1
    counting = x.dtype.computed  # f32 of narrower floats: exact up to 2^24 elements of a row
    found = []
    for share in q.reshape(-1):
        place = last.astype(counting) * float(share)
        low = arithmetic.maximum(rounding.floor(place).astype("i64"), 0)
        high = arithmetic.maximum(arithmetic.minimum(low + 1, last), 0)
        weight = (place - low.astype(counting)).astype(x.dtype, copy=False)
        a, b = (indexing.gather(ordered, k, dim=-1) for k in (low, high))
        value = logic.where(logic.equal(weight, 0.0), a, _mixed(a, b, weight))[..., 0]
        found.append(value.reshape(kept) if keepdims else value)
    return _joined(found, q.shape, x, kept if keepdims else flat.shape[:-1])


def average(a: Any, axis: Any = None, weights: Any = None, *, keepdims: bool = False) -> Tensor:
    """The mean, or the sum of a times weights divided by theirs; weights lie along the axis, or have a's shape."""
    if weights is None:
        return reduce.mean(asarray(a), axis=axis, keepdims=keepdims)
    x, w = beside(a, weights)
    if w.shape != x.shape:
        along = isinstance(axis, (int, np.integer)) and -x.ndim <= axis < x.ndim
        if w.ndim != 1 or not along or w.shape[0] != x.shape[axis]:
            raise ShapeError(f"average: weights must have shape {x.shape} or lie along axis, got {w.shape}")
        axis = normalize_axis(int(axis), x.ndim, "average")
        w = w.reshape(*(-1 if k == axis else 1 for k in range(x.ndim)))
    total = reduce.sum_(w.expand(x.shape), axis=axis, keepdims=keepdims)
    return reduce.sum_(x * w, axis=axis, keepdims=keepdims) / total


def ptp(a: Any, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """The distance from the smallest element to the largest, along axes."""
    x = asarray(a)
    return reduce.max_(x, axis=axis, keepdims=keepdims) - reduce.min_(x, axis=axis, keepdims=keepdims)


def cov(
    m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None,
    fweights: Any = None, aweights: Any = None,
) -> Tensor:  # fmt: skip
    """The covariance matrix of variables, a row each (a column each unless `rowvar`).

    Sums are divided by N - ddof, which is 1 by default and 0 for `bias`. `fweights` says how often each observation
    counts, `aweights` how much.
    """
    x = _variables(m, rowvar)
    if y is not None:
        other = _variables(beside(x, y)[1], rowvar)
        if other.shape[1:] != x.shape[1:]:
            raise ShapeError(f"cov: as many observations are needed, got {x.shape[1]} and {other.shape[1]}")
        x = movement.concat([x, other], axis=0)
    less = (0 if bias else 1) if ddof is None else ddof
    weights = None
    for name, given in (("fweights", fweights), ("aweights", aweights)):
        if given is not None:
            _check_weights(name, given)
            w = floating(beside(x, given)[1], "cov").astype(x.dtype.part, copy=False)
            if w.shape != x.shape[1:]:
                raise ShapeError(f"cov: weights of shape {x.shape[1:]} are needed, got {w.shape}")
            weights = w if weights is None else weights * w
    if weights is None:
        centred = x - reduce.mean(x, axis=1, keepdims=True)
        count = x.shape[1] - less
        product = matmul.matmul(centred, conjugated(centred.mT))
        result = product / float(count) if count > 0 else product * float("nan")
    else:
        total = reduce.sum_(weights)
        centred = x - reduce.sum_(x * weights, axis=1, keepdims=True) / total
        seen = total
        if aweights is not None:
            a = floating(beside(x, aweights)[1], "cov").astype(x.dtype.part, copy=False)
            seen = total - less * reduce.sum_(weights * a) / total
        else:
            seen = total - less
        result = matmul.matmul(centred * weights, conjugated(centred.mT)) / seen
    return result.reshape(()) if result.size == 1 else result


def _check_weights(name: str, given: Any) -> None:
    """Refuses what counts nothing; elements of tensors are not waited for."""
    known = given if isinstance(given, Tensor) else np.asarray(given)
    if name == "fweights" and (
        known.dtype.is_float if isinstance(known, Tensor) else known.dtype.kind not in "iu"
    ):
        raise TypeError(f"cov: fweights must be integers, got {known.dtype}")
    if isinstance(known, np.ndarray) and np.any(known < 0):
        raise ValueError(f"cov: {name} must not be negative, got {known.min()}")


def _variables(m: Any, rowvar: bool) -> Tensor:
    x = inexact(m)
    if x.ndim > 2:
        raise ShapeError(f"cov: at most two axes are meant, got shape {x.shape}")
    if x.ndim < 2:
        return x.reshape(1, x.size)
    return x if rowvar else x.mT


def corrcoef(x: Any, y: Any = None, rowvar: bool = True) -> Tensor:
    """Pearson's coefficients: the covariance matrix, divided by both deviations."""
    c = cov(x, y, rowvar)
    if not c.ndim:
        return c / c
    deviation = arithmetic.sqrt(diagonal(c).real)
    found = c / deviation[:, None] / deviation[None, :]
    if found.dtype.is_complex:
        return complex_numbers.view_as_complex(_clipped(complex_numbers.view_as_real(found)))
    return _clipped(found)


def _clipped(x: Tensor) -> Tensor:
    return arithmetic.maximum(arithmetic.minimum(x, 1.0), -1.0)
