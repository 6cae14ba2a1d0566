"""Normalisations, with the statistics that PyTorch keeps of them for the way back."""

from __future__ import annotations

from typing import Any

import torch

import hologram as hg
from hologram.frontend.tensor import Tensor
from hologram_torch.kernels.fused import fused
from hologram_torch.kernels.registry import implements
from hologram_torch.kernels.results import as_images, write
from hologram_torch.tensors.formats import is_channels_last


def standardised(x: Tensor, axes: tuple[int, ...], eps: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """x less its mean over its standard deviation along axes; the mean, the variance, and 1 over that deviation."""
    wide = x.astype(x.dtype.computed, copy=False)
    mean = hg.mean(wide, axis=axes, keepdims=True)
    centred = wide - mean
    variance = hg.mean(centred * centred, axis=axes, keepdims=True)
    inverse = hg.rsqrt(variance + eps)
    return centred * inverse, mean, variance, inverse


def scaled(y: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """y * weight + bias, of those that there are."""
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


@implements("native_layer_norm", by_class=True)
@fused
def layer_norm(x: Tensor, normalized_shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    """Over the last axes."""
    y, mean, _, inverse = standardised(x, tuple(range(-len(normalized_shape), 0)), eps)
    return scaled(y, weight, bias), mean, inverse


# Statistics are f32 for these dtypes, as on other devices of PyTorch's; its CPU has them in the input's.
HALVES = frozenset((torch.float16, torch.bfloat16))


@implements("native_layer_norm_backward", by_class=True, wider=HALVES)
@fused
def layer_norm_backward(
    cotangent: Tensor,
    x: Tensor,
    normalized_shape: Any,
    mean: Tensor,
    inverse: Tensor,
    weight: Any,
    bias: Any,
    wanted: Any,
) -> Any:
    """To the input, the weight and the bias, of which are wanted; d x = (g - mean(g) - y mean(g y)) / deviation."""
    outer = tuple(range(x.ndim - len(normalized_shape)))
    axes = tuple(range(-len(normalized_shape), 0))
    wide = x.dtype.computed
    cotangent = cotangent.astype(wide, copy=False)
    y = (x.astype(wide, copy=False) - mean) * inverse
    g = cotangent if weight is None else cotangent * weight.astype(wide, copy=False)

    def averaged(v: Tensor) -> Tensor:
        return hg.mean(v, axis=axes, keepdims=True)

    def summed(v: Tensor, like: Tensor) -> Tensor:
        return (hg.sum(v, axis=outer) if outer else v).astype(like.dtype, copy=False)

    return (
        (inverse * (g - averaged(g) - y * averaged(g * y))).astype(x.dtype, copy=False)
        if wanted[0]
        else None,
        summed(cotangent * y, weight) if wanted[1] and weight is not None else None,
        summed(cotangent, bias if bias is not None else x) if wanted[2] and bias is not None else None,
    )


@implements("native_group_norm")
@fused
def group_norm(
    x: Tensor, weight: Any, bias: Any, batch: int, channels: int, size: int, groups: int, eps: float
) -> Any:
    """Over the channels of a group and all places."""
    split = x.reshape(batch, groups, channels // groups, size)
    y, mean, _, inverse = standardised(split, (2, 3), eps)
    weight, bias = (v if v is None else v.reshape(groups, channels // groups, 1) for v in (weight, bias))
    return scaled(y, weight, bias).reshape(x.shape), *(v.reshape(batch, groups) for v in (mean, inverse))


@implements("native_group_norm_backward")
@fused
def group_norm_backward(
    cotangent: Tensor,
    x: Tensor,
    mean: Tensor,
    inverse: Tensor,
    weight: Any,
    batch: int,
    channels: int,
    size: int,
    groups: int,
    wanted: Any,
) -> Any:
    """To the input, the weight and the bias, of which are wanted, by two sums for each channel."""
    wide, share, places = x.dtype.computed, channels // groups, x.shape[2:]
    # Images in channels_last are read, and written, in the order in which they lie.
    last = is_channels_last(x.shape, x.layout.strides)
    ones = (1,) * len(places)
    along_places = tuple(range(1, 1 + len(places)) if last else range(3, 3 + len(places)))
    axis_of_share = x.ndim if last else 2

    def split(v: Tensor) -> Tensor:
        v = v.astype(wide, copy=False)
        if last:
            return v.permute(0, *range(2, x.ndim), 1).reshape(batch, *places, groups, share)
        return v.reshape(batch, groups, share, *places)

    def of_groups(v: Tensor) -> Tensor:
        v = v.astype(wide, copy=False)
        return v.reshape(batch, *ones, groups, 1) if last else v.reshape(batch, groups, 1, *ones)

    mean, inverse = of_groups(mean), of_groups(inverse)
    g = split(cotangent)
    y = (split(x) - mean) * inverse
    along, sums = (hg.sum(v, axis=along_places, keepdims=True) for v in (g * y, g))
    gain = None
    if weight is not None:
        gain = weight.astype(wide, copy=False).reshape(groups, share, *(() if last else ones))

    def averaged(v: Tensor) -> Tensor:
        return hg.sum(scaled(v, gain, None), axis=axis_of_share, keepdims=True) * (1.0 / max(share * size, 1))

    def of_channels(v: Tensor) -> Tensor:
        return hg.sum(v.reshape(batch, channels), axis=0).astype(x.dtype, copy=False)

    def joined(v: Tensor) -> Tensor:
        v = v.astype(x.dtype, copy=False)
        if last:
            return v.reshape(batch, *places, channels).permute(0, x.ndim - 1, *range(1, x.ndim - 1))
        return v.reshape(x.shape)

    slope = inverse * (scaled(g, gain, None) - averaged(sums) - y * averaged(along)) if wanted[0] else None
    return (
        None if slope is None else joined(slope),
        of_channels(along) if wanted[1] else None,
        of_channels(sums) if wanted[2] else None,
    )


def by_channel(v: Tensor | None, ndim: int) -> Tensor | None:
    return v if v is None else v.reshape(-1, *(1,) * (ndim - 2))


def moved(running: Tensor | None, new: Tensor, momentum: float) -> Tensor | None:
    """A running statistic, a step towards a new one."""
    return running if running is None else momentum * new.reshape(-1) + (1.0 - momentum) * running


@fused
def _trained(x: Tensor, weight: Any, bias: Any, running: Any, momentum: float, eps: float) -> Any:
    y, mean, variance, inverse = standardised(x, (0, *range(2, x.ndim)), eps)
    y = scaled(y, *(by_channel(v, x.ndim) for v in (weight, bias))).astype(x.dtype, copy=False)
    count = x.size // max(x.shape[1], 1)
    unbiased = variance * (count / max(count - 1, 1))
    following = [moved(r, new, momentum) for r, new in zip(running, (mean, unbiased), strict=True)]
    return as_images(y, x), mean.reshape(-1), inverse.reshape(-1), following


@fused
def _applied(x: Tensor, weight: Any, bias: Any, mean: Tensor, variance: Tensor, eps: float) -> Tensor:
    wide = x.astype(x.dtype.computed, copy=False)
    parts: list[Any] = [by_channel(v, x.ndim) for v in (mean, variance, weight, bias)]
    y = scaled((wide - parts[0]) * hg.rsqrt(parts[1] + eps), *parts[2:])
    return as_images(y.astype(x.dtype, copy=False), x)


@implements("_native_batch_norm_legit_functional", inferred=False)
def batch_norm_functional(
    x: Tensor, weight: Any, bias: Any, mean: Any, variance: Any, training: bool, momentum: float, eps: float
) -> Any:
    """Over the batch, whose statistics the running ones then follow, or by the running ones; their next values last."""
    if not training:
        nothing = x.executor.empty((0,), x.dtype.computed)
        return _applied(x, weight, bias, mean, variance, eps), nothing, nothing.clone(), mean, variance
    y, own, inverse, following = _trained(x, weight, bias, [mean, variance], momentum, eps)
    return y, own, inverse, *following


@implements("native_batch_norm", "_native_batch_norm_legit", inferred=False)
def batch_norm(x: Tensor, weight: Any, bias: Any, mean: Any, variance: Any, *settings: Any) -> Any:
    """The same, with the running statistics where they are."""
    *results, next_mean, next_variance = batch_norm_functional(x, weight, bias, mean, variance, *settings)
    for new, old in ((next_mean, mean), (next_variance, variance)):
        if new is not old:
            write(new, old)
    return tuple(results)


@implements("_native_batch_norm_legit.no_stats", inferred=False)
def batch_norm_alone(x: Tensor, weight: Any, bias: Any, *settings: Any) -> Any:
    """Over the batch, without running statistics."""
    return batch_norm(x, weight, bias, None, None, *settings)


@implements("_batch_norm_with_update", inferred=False)
def batch_norm_with_update(
    x: Tensor, weight: Any, bias: Any, running_mean: Any, running_var: Any, momentum: float, eps: float
) -> Any:
    """In training, with a reserve that holds nothing here."""
    results = batch_norm(x, weight, bias, running_mean, running_var, True, momentum, eps)
    return *results, x.executor.empty((0,), hg.u8)
