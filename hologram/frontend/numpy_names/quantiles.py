"""Medians, quantiles and percentiles, by all of NumPy's methods, with weights, and without NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from hologram.foundation.errors import ShapeError, UnsupportedDType
from hologram.frontend.array_api.creation import asarray
from hologram.frontend.numpy_names.operands import beside, exact, inexact, on_host, rows, written
from hologram.frontend.tensor import Tensor
from hologram.machine.axes import normalize_axis
from hologram.opset import indexing, logic, movement, reduce, rounding, scan, sort
from hologram.opset import math as arithmetic
from hologram.runtime.dispatch import deferred


class Method(NamedTuple):
    """Where a quantile of a share q lies among n elements in order, and how far from the one below to that above.

    The place is a number, counted from 0; the weight follows from its fraction, its whole part and how to choose. So
    one formula serves numbers and tensors. `picks`: whether the weight is 0 or 1, so that no dtype is left.
    """

    place: Callable[[Any, float], Any]
    weight: Callable[[Any, Any, Any], Any]
    picks: bool = False


def _continuous(alpha: float, beta: float) -> Method:
    """An estimate of Hyndman and Fan's (1996), by its parameters."""
    return Method(lambda n, q: n * q + (alpha + q * (1 - alpha - beta)) - 1, lambda part, whole, where: part)


METHODS = {
    "linear": Method(lambda n, q: (n - 1) * q, lambda part, whole, where: part),
    "lower": Method(lambda n, q: (n - 1) * q, lambda part, whole, where: part * 0, True),
    "higher": Method(lambda n, q: (n - 1) * q, lambda part, whole, where: where(part == 0, 0.0, 1.0), True),
    "nearest": Method(
        lambda n, q: (n - 1) * q,  # of two that are equally near, the one at an even place
        lambda part, whole, where: where(part == 0.5, whole % 2, where(part < 0.5, 0.0, 1.0)), True,
    ),
    "midpoint": Method(lambda n, q: (n - 1) * q, lambda part, whole, where: where(part == 0, 0.0, 0.5)),
    "inverted_cdf": Method(lambda n, q: n * q - 1, lambda part, whole, where: where(part == 0, 0.0, 1.0), True),
    "averaged_inverted_cdf": Method(lambda n, q: n * q - 1, lambda part, whole, where: where(part == 0, 0.5, 1.0)),
    "closest_observation": Method(
        lambda n, q: n * q - 1.5,
        lambda part, whole, where: where((part == 0) & (whole % 2 == 1), 0.0, 1.0), True,
    ),
    "interpolated_inverted_cdf": _continuous(0.0, 1.0),
    "hazen": _continuous(0.5, 0.5),
    "weibull": _continuous(0.0, 0.0),
    "median_unbiased": _continuous(1 / 3, 1 / 3),
    "normal_unbiased": _continuous(0.375, 0.375),
}  # fmt: skip


def quantile(a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False,
             method: str = "linear", keepdims: bool = False, *, weights: Any = None) -> Tensor:  # fmt: skip
    """The values below which a share q (in [0, 1]) of the elements lies, along axes; NaN where there is any.

    `q` is a number or an array of some, whose axes come first. `method` is one of NumPy's; those that pick an element
    keep the dtype. `weights`, of a's shape or along the axis, need the method "inverted_cdf". `out` is written to;
    `overwrite_input` allows NumPy to spend a, which is never done here.
    """
    found = _quantile("quantile", a, on_host(q, "quantile: q"), axis, method, keepdims, weights)
    return written(found, out, "quantile")


def percentile(a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False,
               method: str = "linear", keepdims: bool = False, *, weights: Any = None) -> Tensor:  # fmt: skip
    """Quantiles by percent: see quantile."""
    share = np.asarray(on_host(q, "percentile: q")) / 100
    found = _quantile("percentile", a, share, axis, method, keepdims, weights)
    return written(found, out, "percentile")


def median(
    a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False
) -> Tensor:
    """The middle element in order, or the mean of both, along axes; NaN where there is any, or nothing."""
    x = inexact(a)
    found = _of_nothing(x, axis, keepdims, "median")
    if found is None:
        found = _quantile("median", x, np.asarray(0.5), axis, "linear", keepdims, None)
    return written(found, out, "median")


def nanquantile(a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False,
                method: str = "linear", keepdims: bool = False, *, weights: Any = None) -> Tensor:  # fmt: skip
    """Quantiles of what is not NaN, NaN where nothing is: see quantile."""
    found = _nanquantile("nanquantile", a, on_host(q, "nanquantile: q"), axis, method, keepdims, weights)
    return written(found, out, "nanquantile")


def nanpercentile(a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False,
                  method: str = "linear", keepdims: bool = False, *, weights: Any = None) -> Tensor:  # fmt: skip
    """Percentiles of what is not NaN: see nanquantile."""
    share = np.asarray(on_host(q, "nanpercentile: q")) / 100
    found = _nanquantile("nanpercentile", a, share, axis, method, keepdims, weights)
    return written(found, out, "nanpercentile")


def nanmedian(
    a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False
) -> Tensor:
    """The median of what is not NaN; NaN where nothing is."""
    found = _nanquantile("nanmedian", inexact(a), np.asarray(0.5), axis, "linear", keepdims, None)
    return written(found, out, "nanmedian")


def _of_nothing(x: Tensor, axis: Any, keepdims: bool, who: str) -> Tensor | None:
    """NaN for each row, where rows have no element; else None."""
    flat, kept = rows(x, axis, who)
    if flat.shape[-1]:
        return None
    return x.executor.full(kept if keepdims else flat.shape[:-1], float("nan"), x.dtype)


def _checked(who: str, a: Any, q: np.ndarray, method: str, weights: Any) -> tuple[Tensor, np.ndarray]:
    """The elements, of the dtype that the result has, and the shares."""
    if method not in METHODS:
        raise ValueError(f"{who}: method must be one of {', '.join(METHODS)}, got {method!r}")
    if weights is not None and method != "inverted_cdf":
        raise ValueError(f"{who}: weights need the method 'inverted_cdf', got {method!r}")
    x = asarray(a) if METHODS[method].picks else inexact(a)
    if x.dtype.is_complex and not who.endswith("median"):
        raise UnsupportedDType(f"{who}: real numbers are needed, got {x.dtype}")
    q = q.astype(np.float64)
    if not np.all((q >= 0) & (q <= 1)):
        raise ValueError(f"{who}: shares must lie in {'[0, 100]' if 'percent' in who else '[0, 1]'}")
    return x, q


def _quantile(
    who: str, a: Any, q: np.ndarray, axis: Any, method: str, keepdims: bool, weights: Any
) -> Tensor:
    x, q = _checked(who, a, q, method, weights)
    flat, kept = rows(x, axis, who)
    n = flat.shape[-1]
    if not n:
        raise ShapeError(f"{who}: a row without elements has none, got shape {x.shape}")
    if weights is None:
        ordered = sort.sort(flat, axis=-1)
        found = [_between(ordered, n, float(share), method) for share in q.reshape(-1)]
    else:
        ordered, running = _weighed(who, x, flat, axis, weights)
        found = [_at_share(ordered, running, float(share)) for share in q.reshape(-1)]
    if x.dtype.is_inexact:
        last = ordered[..., n - 1]
        found = [logic.where(logic.isnan(last), last, value) for value in found]
    return _joined(found, q.shape, x, kept if keepdims else flat.shape[:-1])


def _between(ordered: Tensor, n: int, share: float, method: str) -> Tensor:
    """A quantile of rows of n elements in order."""
    place = METHODS[method].place(n, share)
    below = int(np.floor(place))
    weight = float(METHODS[method].weight(place - below, below, lambda yes, x, y: x if yes else y))
    low, high = (min(max(k, 0), n - 1) for k in (below, below + 1))
    if low == high or weight in (0.0, 1.0):
        return ordered[..., high if weight == 1.0 else low]
    return sort.mixed(ordered[..., low], ordered[..., high], weight)


def _weighed(who: str, x: Tensor, flat: Tensor, axis: Any, weights: Any) -> tuple[Tensor, Tensor]:
    """Rows in order, and the share of the weights up to each element; what is NaN has none."""
    w = beside(x, weights)[1]
    if w.shape != x.shape:
        along = axis if isinstance(axis, (tuple, list)) else (axis,)
        if axis is None or w.shape != tuple(x.shape[normalize_axis(k, x.ndim, who)] for k in along):
            raise ShapeError(f"{who}: weights must have shape {x.shape} or lie along axis, got {w.shape}")
        places = [normalize_axis(k, x.ndim, who) for k in along]
        order = sorted(range(len(places)), key=places.__getitem__)
        w = w.permute(tuple(order)).reshape([n if k in places else 1 for k, n in enumerate(x.shape)])
        w = w.expand(x.shape)
    w = rows(w, axis, who)[0].astype(exact(x), copy=False)
    if x.dtype.is_float:
        w = logic.where(logic.isnan(flat), 0.0, w)
    if not deferred() and bool(reduce.any_(logic.less(w, 0.0))):
        raise ValueError(f"{who}: weights must not be negative")
    order = sort.argsort(flat, axis=-1)
    running = scan.cumsum(indexing.gather(w, order, dim=-1), axis=-1)
    return indexing.gather(flat, order, dim=-1), running / running[..., -1:]


def _at_share(ordered: Tensor, running: Tensor, share: float) -> Tensor:
    """The first element where the running share is not below, and not 0."""
    below = logic.logical_or(logic.less(running, share), logic.less_equal(running, 0.0))
    place = arithmetic.minimum(reduce.sum_(below, axis=-1, keepdims=True), ordered.shape[-1] - 1)
    return indexing.gather(ordered, place, dim=-1)[..., 0]


def _nanquantile(
    who: str, a: Any, q: np.ndarray, axis: Any, method: str, keepdims: bool, weights: Any
) -> Tensor:
    x, q = _checked(who, a, q, method, weights)
    if not x.dtype.is_inexact:
        return _quantile(who, x, q, axis, method, keepdims, weights)
    flat, kept = rows(x, axis, who)
    each = kept if keepdims else flat.shape[:-1]
    if not flat.shape[-1]:
        return _joined([x.executor.full(each, float("nan"), x.dtype)] * q.size, q.shape, x, each)
    if weights is not None:
        ordered, running = _weighed(who, x, flat, axis, weights)
        found = [_at_share(ordered, running, float(share)) for share in q.reshape(-1)]
        return _joined(found, q.shape, x, each)
    ordered = sort.sort(flat, axis=-1)  # NaN last
    count = reduce.sum_(logic.logical_not(logic.isnan(flat)), axis=-1, keepdims=True)
    last = arithmetic.maximum(count - 1, 0)
    count = count.astype(exact(x), copy=False)  # where that is f32: up to 2^24 elements of a row
    found = []
    for share in q.reshape(-1):
        place = METHODS[method].place(count, float(share))
        below = rounding.floor(place)
        weight = METHODS[method].weight(place - below, below, logic.where).astype(x.dtype.part, copy=False)
        low = arithmetic.minimum(arithmetic.maximum(below.astype("i64"), 0), last)
        high = arithmetic.minimum(arithmetic.maximum(below.astype("i64") + 1, 0), last)
        first, then = (indexing.gather(ordered, k, dim=-1) for k in (low, high))
        value = logic.where(logic.equal(weight, 1.0), then, sort.mixed(first, then, weight))
        found.append(logic.where(logic.equal(weight, 0.0), first, value)[..., 0])
    return _joined(found, q.shape, x, each)


def _joined(found: list[Tensor], shape: tuple[int, ...], x: Tensor, each: tuple[int, ...]) -> Tensor:
    """One result, or an array of some, of a shape that comes first."""
    if not found:
        return x.executor.empty((*shape, *each), x.dtype)
    return (movement.stack(found, axis=0) if shape else found[0]).reshape((*shape, *each))
