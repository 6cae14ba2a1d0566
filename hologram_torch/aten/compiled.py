"""Operators that PyTorch's own decompositions write in terms of others, compiled: what they write runs as few launches.

Backward operators of activations and losses are nearly all of them. Those of operations that hologram declares come
from the declarations' derivatives.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import hologram as hg
from hologram.foundation.dtypes import DType
from hologram.frontend.tensor import Tensor
from hologram_torch.kernels.fused import decomposition, fused, told
from hologram_torch.kernels.promotion import Promotion
from hologram_torch.kernels.registry import add, implements

MEAN = 1  # ATen's number of a reduction
SAME = Promotion.DEFAULT
BY_DECOMPOSITION = """
_log_softmax_backward_data _softmax_backward_data elu_backward glu glu_backward hardshrink hardsigmoid
hardsigmoid_backward hardswish hardswish_backward hardtanh_backward leaky_relu_backward log_sigmoid_backward
log_sigmoid_forward logit mish _prelu_kernel _prelu_kernel_backward rrelu_with_noise_backward
sigmoid_backward softplus_backward softshrink tanh_backward threshold
binary_cross_entropy_backward binary_cross_entropy_with_logits smooth_l1_loss soft_margin_loss
soft_margin_loss_backward native_batch_norm_backward
batch_norm_backward channel_shuffle pixel_shuffle pixel_unshuffle
lerp.Tensor
"""

for _name in BY_DECOMPOSITION.split():
    add(_name, decomposition(_name))


def derivative(function: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel that takes the cotangent of an operation's result to its operand's."""

    def backward(cotangent: Any, x: Any, *settings: Any, **named: Any) -> Any:
        _, pullback = hg.vjp(lambda x: function(x, *settings, **named), x)
        return pullback(cotangent.astype(x.dtype, copy=False))[0]

    return fused(backward)


# Settings come in the order of ATen's.
add(
    "gelu_backward",
    derivative(lambda x, approximate="none": hg.gelu(x, approximate=approximate)),
    by_class=True,
)
add("silu_backward", derivative(hg.silu), by_class=True)


@implements("_safe_softmax", by_class=True)
@fused
def safe_softmax(x: Any, dim: int, dtype: Any = None) -> Any:
    """Softmax, but 0 where all of a row is -inf."""
    x = x if dtype is None else x.astype(dtype, copy=False)
    if not x.size:
        return x
    largest = hg.max(x, axis=dim, keepdims=True)
    return hg.where(hg.equal(largest, -math.inf), 0.0, hg.softmax(x, dim=dim))


@implements("threshold_backward", by_class=True)
@fused
def threshold_backward(cotangent: Any, x: Any, threshold: Any) -> Any:
    """The cotangent where x is beyond the threshold, and where it is NaN."""
    return hg.where(hg.less_equal(x, threshold), 0, cotangent)


@implements("lerp.Scalar")
@told
def lerp(start: Any, end: Any, weight: Any) -> Any:
    """start + weight (end - start), from the end that is nearer."""
    wide = start.dtype.computed
    first, last = (x.astype(wide, copy=False) for x in (start, end))
    between = last - first
    near = hg.less(abs(weight) + hg.zeros_like(first.real), 0.5)  # decided where the number is read
    result = hg.where(near, first + between * weight, last - between * (1 - weight))
    return result.astype(start.dtype, copy=False)


def _wide(*operands: Any) -> tuple[DType, list[Any]]:
    """The dtype of tensors that were brought to one, and operands in what it is computed in; numbers stay numbers."""
    dtype = next(x.dtype for x in operands if isinstance(x, Tensor))
    return dtype, [x.astype(dtype.computed, copy=False) if isinstance(x, Tensor) else x for x in operands]


@implements("addcmul", promotes=SAME)
@told
def addcmul(x: Any, y: Any, z: Any, value: Any = 1) -> Any:
    """x + value y z."""
    dtype, (first, second, third) = _wide(x, y, z)
    return (first + second * value * third).astype(dtype, copy=False)


@implements("addcdiv", promotes=SAME)
@told
def addcdiv(x: Any, y: Any, z: Any, value: Any = 1) -> Any:
    """x + value y / z."""
    dtype, (first, second, third) = _wide(x, y, z)
    return (first + hg.divide(second * value, third)).astype(dtype, copy=False)


@implements("native_dropout_backward")
@told
def native_dropout_backward(cotangent: Any, kept: Any, scale: float) -> Any:
    """The cotangent of what was kept, times what it was scaled by."""
    return cotangent * (kept.astype(cotangent.dtype) * scale)


@implements("elu")
@fused
def elu(x: Any, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Any:
    """scale * x above 0, scale * alpha * (exp(x * input_scale) - 1) elsewhere."""
    wide = x.astype(x.dtype.computed, copy=False)
    return hg.where(hg.greater(wide, 0.0), wide * scale, hg.expm1(wide * input_scale) * (alpha * scale))


@implements("hardshrink_backward", "softshrink_backward")
@fused
def shrink_backward(cotangent: Any, x: Any, lambd: Any) -> Any:
    """The cotangent, but between -lambd and lambd."""
    inside = hg.logical_and(hg.greater_equal(x, -lambd), hg.less_equal(x, lambd))
    return hg.where(inside, 0.0, cotangent)


def _halves(x: Any, dim: int) -> tuple[Any, Any]:
    count = x.shape[dim] // 2
    return x.narrow(dim, 0, count), x.narrow(dim, count, count)


@implements("glu_jvp")
@fused
def glu_jvp(result: Any, x: Any, tangent: Any, dim: int) -> Any:
    """The tangent of a gated linear unit: of its first half by the gate, of its second by the gate's slope."""
    (first, second), (da, db) = (_halves(v, dim) for v in (x, tangent))
    gate = hg.sigmoid(second)
    return gate * (da + first * (1.0 - gate) * db)


@implements("glu_backward_jvp")
@fused
def glu_backward_jvp(slope: Any, cotangent: Any, x: Any, dcotangent: Any, tangent: Any, dim: int) -> Any:
    """The tangent of what takes a gated linear unit's cotangent back."""
    (first, second), (da, db) = (_halves(v, dim) for v in (x, tangent))
    gate = hg.sigmoid(second)
    steep = gate * (1.0 - gate)
    bent = da * steep + first * (1.0 - 2.0 * gate) * steep * db
    parts = (dcotangent * gate + cotangent * steep * db, dcotangent * first * steep + cotangent * bent)
    return hg.concat(parts, axis=dim)


@implements("logit_backward")
@fused
def logit_backward(cotangent: Any, x: Any, eps: Any = None) -> Any:
    """cotangent / (x (1 - x)); 0 where x was clamped to [eps, 1 - eps], NaN outside of [0, 1] without eps."""
    wide, low = x.astype(x.dtype.computed, copy=False), 0.0 if eps is None else eps
    outside = hg.logical_or(hg.less(wide, low), hg.greater(wide, 1.0 - low))
    slope = hg.where(outside, float("nan") if eps is None else 0.0, cotangent / (wide * (1.0 - wide)))
    return slope.astype(x.dtype, copy=False)


@implements("mse_loss_backward")
@fused
def mse_loss_backward(cotangent: Any, x: Any, target: Any, reduction: int) -> Any:
    """The cotangent times twice the difference; a mean's is divided by the size."""
    difference = x.astype(x.dtype.computed, copy=False) - target
    share = 2.0 / max(x.size, 1) if reduction == MEAN else 2.0
    return (cotangent * difference * share).astype(x.dtype, copy=False)


@implements("smooth_l1_loss_backward")
@fused
def smooth_l1_loss_backward(cotangent: Any, x: Any, target: Any, reduction: int, beta: float) -> Any:
    """The cotangent times the difference over beta, which is kept within -1 and 1; a mean's is divided by the size."""
    difference = x.astype(x.dtype.computed, copy=False) - target
    slope = hg.where(hg.greater_equal(difference, beta), 1.0, difference / beta if beta else difference)
    slope = hg.where(hg.less_equal(difference, -beta), -1.0, slope)
    share = 1.0 / max(x.size, 1) if reduction == MEAN else 1.0
    return (cotangent * slope * share).astype(x.dtype, copy=False)
