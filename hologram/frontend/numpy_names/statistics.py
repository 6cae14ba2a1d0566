"""Averages, spread and how two things vary together."""

from __future__ import annotations

from typing import Any

import numpy as np

from hologram.foundation import dtypes
from hologram.foundation.errors import ShapeError, UnsupportedDType
from hologram.frontend.array_api.creation import asarray
from hologram.frontend.linear_algebra.products import diagonal
from hologram.frontend.numpy_names.operands import beside, floating, inexact, widened, written
from hologram.frontend.tensor import Tensor
from hologram.machine.axes import normalize_axis
from hologram.opset import complex_numbers, matmul, movement, reduce
from hologram.opset import math as arithmetic
from hologram.opset.complex_numbers import conjugated
from hologram.opset.forms.accumulator import accumulated
from hologram.opset.forms.types import accumulator


def average(
    a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: bool = False
) -> Any:
    """The mean, or the sum of a times weights divided by theirs; weights lie along the axis, or have a's shape.

    If `returned`, the sum of the weights comes beside it: without weights, how many elements there are.
    """
    if weights is None:
        made = asarray(a)
        found = reduce.mean(made, axis=axis, keepdims=keepdims)
        count = made.size // max(found.size, 1)
        return (found, made.executor.full(found.shape, count, found.dtype)) if returned else found
    x, w = beside(a, weights)
    if w.shape != x.shape:
        along = isinstance(axis, (int, np.integer)) and -x.ndim <= axis < x.ndim
        if w.ndim != 1 or not along or w.shape[0] != x.shape[axis]:
            raise ShapeError(f"average: weights must have shape {x.shape} or lie along axis, got {w.shape}")
        axis = normalize_axis(int(axis), x.ndim, "average")
        w = w.reshape(*(-1 if k == axis else 1 for k in range(x.ndim)))
    found, total = _weighted(x, w.expand(x.shape), axis, keepdims)
    return (found, total.astype(found.dtype, copy=False).expand(found.shape)) if returned else found


@accumulated
def _weighted(x: Tensor, w: Tensor, axis: Any, keepdims: bool) -> tuple[Tensor, Tensor]:
    """The average, and the sum of the weights."""
    x, w = (t.astype(accumulator(t.dtype), copy=False) for t in (x, w))
    total = reduce.sum_(w, axis=axis, keepdims=keepdims)
    return reduce.sum_(x * w, axis=axis, keepdims=keepdims) / total, total


def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> Tensor:
    """The distance from the smallest element to the largest, along axes."""
    x = asarray(a)
    found = reduce.max_(x, axis=axis, keepdims=keepdims) - reduce.min_(x, axis=axis, keepdims=keepdims)
    return written(found, out, "ptp")


def cov(
    m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None,
    fweights: Any = None, aweights: Any = None, *, dtype: Any = None,
) -> Tensor:  # fmt: skip
    """The covariance matrix of variables, a row each (a column each unless `rowvar`).

    It is f64 or c128 where the device has them, unless `dtype` says otherwise. Sums are divided by N - ddof, which is 1
    by default and 0 for `bias`. `fweights` says how often each observation
    counts, `aweights` how much.
    """
    x = _observed(m, y, rowvar, dtype)
    less = (0 if bias else 1) if ddof is None else ddof
    wide = x.astype(accumulator(x.dtype), copy=False)
    often, much = (_weights(n, w, wide) for n, w in (("fweights", fweights), ("aweights", aweights)))
    return _covariance(wide, often, much, less).astype(x.dtype, copy=False)


def _observed(m: Any, y: Any, rowvar: bool, dtype: Any) -> Tensor:
    """The variables as rows."""
    if dtype is not None and not dtypes.dtype(dtype).is_inexact:
        raise UnsupportedDType(f"cov: dtype must be one of floats, got {dtypes.dtype(dtype)}")
    m = widened(inexact(m)) if dtype is None else asarray(m).astype(dtype)
    x = _variables(m, rowvar)
    if y is not None:
        other = _variables(beside(x, y)[1], rowvar)
        if other.shape[1:] != x.shape[1:]:
            raise ShapeError(f"cov: as many observations are needed, got {x.shape[1]} and {other.shape[1]}")
        x = movement.concat([x, other], axis=0)
    return x


def _weights(name: str, given: Any, x: Tensor) -> Tensor | None:
    if given is None:
        return None
    _check_weights(name, given)
    w = floating(beside(x, given)[1], "cov").astype(x.dtype.part, copy=False)
    if w.shape != x.shape[1:]:
        raise ShapeError(f"cov: weights of shape {x.shape[1:]} are needed, got {w.shape}")
    return w


def _covariance(x: Tensor, often: Tensor | None, much: Tensor | None, less: float) -> Tensor:
    """Of rows whose columns count so often, and so much."""
    weights = often if much is None else much if often is None else often * much
    if weights is None:
        centred = x - reduce.mean(x, axis=1, keepdims=True)
        count = x.shape[1] - less
        product = matmul.matmul(centred, conjugated(centred.mT))
        result = product / float(count) if count > 0 else product * float("nan")
    else:
        total = reduce.sum_(weights)
        centred = x - reduce.sum_(x * weights, axis=1, keepdims=True) / total
        lost = less if much is None else less * reduce.sum_(weights * much) / total
        seen = total - lost
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


def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Tensor:
    """Pearson's coefficients: the covariance matrix, divided by both deviations."""
    return _correlation(_observed(x, y, rowvar, dtype))


@accumulated
def _correlation(x: Tensor) -> Tensor:
    c = _covariance(x, None, None, 1)
    if not c.ndim:
        return c / c
    deviation = arithmetic.sqrt(diagonal(c).real)
    found = c / deviation[:, None] / deviation[None, :]
    if found.dtype.is_complex:
        return complex_numbers.view_as_complex(_clipped(complex_numbers.view_as_real(found)))
    return _clipped(found)


def _clipped(x: Tensor) -> Tensor:
    return arithmetic.maximum(arithmetic.minimum(x, 1.0), -1.0)
