"""Functions of NumPy's that are a few operations, under NumPy's names and arguments: for `np.dot(tensor, array)`.

They are no functions of `hg`, where the array API's names and PyTorch's stand; some (split) say something else there.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from hologram.foundation.errors import ShapeError
from hologram.foundation.sizes import fixed_range
from hologram.machine.axes import integers, normalize_axis, whole
from hologram.machine.strided import Strided
from hologram.opset import contraction, logic, matmul, movement


def _beside(*arrays: Any) -> list[Any]:
    """All of them as tensors, where the first tensor among them is."""
    known: Any = next(x for x in arrays if isinstance(x, Strided))
    dtype = known.dtype if known.dtype.is_float else None
    return [
        x
        if isinstance(x, Strided)
        else known.executor.tensor(x, dtype=dtype if isinstance(x, float) else None)
        for x in arrays
    ]


# Shapes.


def ravel(a: Any) -> Any:
    return a.reshape(-1)


def swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    order = list(range(a.ndim))
    first, second = (normalize_axis(axis, a.ndim, "np.swapaxes") for axis in (axis1, axis2))
    order[first], order[second] = second, first
    return a.permute(tuple(order))


def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """The diagonals of matrices, along the last axis."""
    first, second = (normalize_axis(axis, a.ndim, "np.diagonal") for axis in (axis1, axis2))
    if first == second:
        raise ValueError(f"np.diagonal: two axes are needed, got {axis1} and {axis2}")
    x = a.permute((*(k for k in range(a.ndim) if k not in (first, second)), first, second))
    rows, columns = x.shape[-2:]
    offset = whole(offset, "np.diagonal: offset")
    length = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    start = max(offset, 0) + columns * max(-offset, 0)
    flat = x.reshape(*x.shape[:-2], rows * columns)
    return flat[..., start : start + length * (columns + 1) : columns + 1][..., :length]


def atleast_2d(a: Any) -> Any:
    return a if a.ndim > 1 else a.reshape(1, -1)


def hstack(tup: Sequence[Any]) -> Any:
    flat = [x if x.ndim else x.reshape(1) for x in _beside(*tup)]
    return movement.concat(flat, axis=0 if flat[0].ndim == 1 else 1)


def vstack(tup: Sequence[Any]) -> Any:
    return movement.concat([atleast_2d(x) for x in _beside(*tup)], axis=0)


def column_stack(tup: Sequence[Any]) -> Any:
    return movement.concat([x if x.ndim > 1 else x.reshape(-1, 1) for x in tup], axis=1)


def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Parts of equal sizes, or those between places."""
    x = ary
    k = normalize_axis(axis, x.ndim, "np.split")
    if isinstance(indices_or_sections, (tuple, list)):
        places = [0, *integers(indices_or_sections, "np.split: a place"), x.shape[k]]
        return [x.slice(k, begin, end) for begin, end in pairwise(places)]
    sections = whole(indices_or_sections, "np.split: the number of parts")
    if sections < 1 or x.shape[k] % sections:
        raise ValueError(f"np.split: {x.shape[k]} elements cannot be split into {sections} equal parts")
    size = x.shape[k] // sections
    return [x.slice(k, part * size, (part + 1) * size) for part in fixed_range(sections)]


# Products.


def outer(a: Any, b: Any) -> Any:
    x, y = _beside(a, b)
    return ravel(x)[:, None] * ravel(y)[None, :]


def inner(a: Any, b: Any) -> Any:
    x, y = _beside(a, b)
    if not (x.ndim and y.ndim):
        return x * y
    return contraction.tensordot(x, y, axes=((x.ndim - 1,), (y.ndim - 1,)))


def dot(a: Any, b: Any) -> Any:
    """Sums over the last axis of a and the last but one of b."""
    x, y = _beside(a, b)
    if not (x.ndim and y.ndim):
        return x * y
    if x.ndim <= 2 and y.ndim <= 2:
        return matmul.matmul(x, y)
    return contraction.tensordot(x, y, axes=((x.ndim - 1,), (max(y.ndim - 2, 0),)))


def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    return diagonal(a, offset, axis1, axis2).sum(axis=-1)


# Comparisons.


def isclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    """Whether |a - b| <= atol + rtol |b|; infinities are close to themselves."""
    x, y = _beside(a, b)
    finite = logic.isfinite(y)
    near = ((x - y).abs() <= atol + rtol * y.abs()) & finite
    close = logic.where(finite, near, x == y)
    return close | (logic.isnan(x) & logic.isnan(y)) if equal_nan else close


def allclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    return bool(isclose(a, b, rtol, atol, equal_nan).all().item())


def array_equal(a1: Any, a2: Any) -> bool:
    x, y = _beside(a1, a2)
    return x.shape == y.shape and bool((x == y).all().item())


# Statistics.


def average(a: Any, axis: Any = None, weights: Any = None) -> Any:
    """The mean, or the sum of a times weights divided by theirs."""
    if weights is None:
        return a.mean(axis=axis)
    x, w = _beside(a, weights)
    if w.shape != x.shape:
        if w.ndim != 1 or not isinstance(axis, int) or w.shape[0] != x.shape[axis]:
            raise ShapeError(
                f"np.average: weights must have shape {x.shape} or lie along axis, got {w.shape}"
            )
        w = w.reshape(*(-1 if k == axis % x.ndim else 1 for k in range(x.ndim)))
    return (x * w).sum(axis=axis) / w.expand(x.shape).sum(axis=axis)


def ptp(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return a.max(axis=axis, keepdims=keepdims) - a.min(axis=axis, keepdims=keepdims)


def nansum(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return logic.where(logic.isnan(a), 0.0, a).sum(axis=axis, keepdims=keepdims)


def nanmean(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    there = logic.logical_not(logic.isnan(a)).astype(a.dtype)
    return nansum(a, axis, keepdims) / there.sum(axis=axis, keepdims=keepdims)
