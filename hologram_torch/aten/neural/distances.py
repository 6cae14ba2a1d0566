"""Distances between all rows of matrices."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import hologram as hg
from hologram_torch.aten.reductions import norm
from hologram_torch.kernels.fused import fused
from hologram_torch.kernels.registry import implements, override
from hologram_torch.reach import reach

AUTOGRAD = "AutogradPrivateUse1"


@fused
def _apart(x: Any, y: Any, p: float) -> Any:
    wide, others = (v.astype(x.dtype.computed, copy=False) for v in (x, y))
    return norm(hg.subtract(wide.unsqueeze(-2), others.unsqueeze(-3)), p, (-1,), False)


@implements("_cdist_forward")
def cdist(x: Any, y: Any, p: float, compute_mode: int | None) -> Any:
    """From every row of the first to every row of the second."""
    if not x.shape[-1]:
        lead = hg.broadcast_arrays(x[..., :1, :], y[..., :1, :])[0].shape[:-2]
        return x.executor.zeros((*lead, x.shape[-2], y.shape[-2]), x.dtype)
    return _apart(x, y, float(p))


def _cdist_of_parts(x: torch.Tensor, y: torch.Tensor, p: float) -> torch.Tensor:
    """The same as operators that have derivatives of their own."""
    apart = x.unsqueeze(-2) - y.unsqueeze(-3)
    if p == 0:
        return (apart != 0).sum(-1).to(apart.dtype)
    if p != math.inf:
        return torch.linalg.vector_norm(apart, p, -1)
    size = apart.abs()
    most = size.detach().amax(-1)
    slopes = torch.where(size == most.unsqueeze(-1), size - size.detach(), 0.0)  # of all that are the largest
    return most + slopes.sum(-1)


_with_derivative = torch.library.get_kernel("aten::_cdist_forward", AUTOGRAD)


def _stack() -> Callable[[], Any]:
    from torch._C._functorch import peek_interpreter_stack

    return peek_interpreter_stack


# The innermost transform, or None where there is none.
_innermost = reach(
    "transform-stack",
    "torch._C._functorch.peek_interpreter_stack",
    "torch.cdist with derivatives is several operators, slower",
    _stack,
    lambda: True,
)


def _cdist_of_transforms(
    keys: Any, x: torch.Tensor, y: torch.Tensor, p: float, compute_mode: int | None
) -> torch.Tensor:
    """In transforms of torch.func by parts: PyTorch's rule for batches of cotangents adds them up."""
    if _innermost() is None or not x.shape[-1]:
        return _with_derivative.call_boxed(keys, x, y, p, compute_mode)
    return _cdist_of_parts(x, y, p)


override("_cdist_forward", _cdist_of_transforms, AUTOGRAD)


@implements("_pdist_forward", inferred=False)
def pdist(x: Any, p: float = 2.0) -> Any:
    """From every row to those behind it, in a row."""
    n = x.shape[0]
    count = n * (n - 1) // 2
    if not count or not x.shape[1]:
        return x.executor.zeros((count,), x.dtype)
    numbers = hg.arange(x.executor, 0, n * n)
    first, second = hg.floor_divide(numbers, n), hg.remainder(numbers, n)
    behind = hg.greater(second, first)
    place = hg.where(behind, hg.cumsum(behind, axis=0) - 1, count)
    rows, others = (
        hg.scatter(x.executor.zeros(count + 1, "i64"), place, number, dim=0)[:count]
        for number in (first, second)
    )
    wide = x.astype(x.dtype.computed, copy=False)
    apart = hg.subtract(hg.index_select(wide, rows, axis=0), hg.index_select(wide, others, axis=0))
    return norm(apart, float(p), (-1,), False).astype(x.dtype, copy=False)


def _slope(apart: Any, distance: Any, p: float) -> Any:
    """The derivative of a distance by the difference; 0 where that is 0."""
    size, sign = hg.abs(apart), hg.sign(apart)
    if p == 0.0:
        return apart * 0.0
    if p == 1.0:
        return sign
    if p == math.inf:
        return hg.where(hg.equal(size, distance), sign, 0.0)
    known = hg.logical_and(hg.not_equal(distance, 0.0), hg.not_equal(size, 0.0))
    safe, base = (hg.where(known, v, 1.0) for v in (distance, size))
    return hg.where(known, sign * hg.pow(base / safe, p - 1.0), 0.0)


@implements("_cdist_backward", inferred=False)
@fused
def cdist_backward(cotangent: Any, x: Any, y: Any, p: float, distance: Any) -> Any:
    """The cotangents of the first operand's rows."""
    apart = x.unsqueeze(-2) - y.unsqueeze(-3)
    slope = _slope(apart, distance.unsqueeze(-1), float(p))
    return hg.sum(slope * cotangent.unsqueeze(-1), axis=-2)


@implements("_pdist_backward", inferred=False)
@fused
def pdist_backward(cotangent: Any, x: Any, p: float, distance: Any) -> Any:
    """The cotangents of all rows, each of which is in many pairs."""
    n = x.shape[0]
    rows, others = (x.executor.tensor(v) for v in np.triu_indices(n, 1))
    apart = hg.index_select(x, rows, axis=0) - hg.index_select(x, others, axis=0)
    each = _slope(apart, distance.unsqueeze(-1), float(p)) * cotangent.unsqueeze(-1)
    zeros = x.executor.full((), 0, x.dtype).expand(x.shape)
    for index, value in ((rows, each), (others, -each)):
        zeros = hg.scatter_add(zeros, index.unsqueeze(1).expand(each.shape), value, dim=0)
    return zeros
