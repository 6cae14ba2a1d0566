"""Convolutions along one to three axes, and their derivatives."""

from __future__ import annotations

import math
from typing import Any

import hologram as hg
from hologram.frontend.tensor import Tensor
from hologram_torch.kernels import tables
from hologram_torch.kernels.fused import fused, pulled
from hologram_torch.kernels.registry import implements
from hologram_torch.kernels.results import as_images

DIRECT = {1: (hg.conv1d, hg.conv_transpose1d), 2: (hg.conv2d, hg.conv_transpose2d)}  # by the number of axes


def deep(x: Tensor, weight: Tensor, stride: Any, padding: Any, dilation: Any, groups: int) -> Tensor:
    """The convolution of x (N, C, D, H, W): the sum over the kernel's depth of convolutions of slices."""
    taps, last = weight.shape[2], x.shape[2] + 2 * padding[0]
    depth = (last - dilation[0] * (taps - 1) - 1) // stride[0] + 1
    x = hg.pad(x, padding=((0, 0), (0, 0), (padding[0], padding[0]), (0, 0), (0, 0))).permute((0, 2, 1, 3, 4))
    total: Any = None
    for tap in range(taps):
        first = tap * dilation[0]
        part = x.slice(1, first, first + (depth - 1) * stride[0] + 1, stride[0])
        term = hg.conv2d(
            part.reshape(-1, *x.shape[2:]),
            weight.select(2, tap),
            stride=stride[1:],
            padding=padding[1:],
            dilation=dilation[1:],
            groups=groups,
        )
        total = term if total is None else total + term
    return total.reshape(x.shape[0], depth, *total.shape[1:]).permute((0, 2, 1, 3, 4))


def deep_transposed(
    x: Tensor, weight: Tensor, stride: Any, padding: Any, dilation: Any, output_padding: Any, groups: int
) -> Tensor:
    """The transpose: every slice of x, through every tap of the kernel's depth, adds to a slice of the result."""
    count, taps = x.shape[2], weight.shape[2]
    apart = (count - 1) * stride[0] + 1  # places of the slices, with those between them
    beyond = dilation[0] * (taps - 1)
    slices = x.permute((0, 2, 1, 3, 4)).reshape(-1, x.shape[1], *x.shape[3:])
    total: Any = None
    for tap in range(taps):
        term = hg.conv_transpose2d(
            slices,
            weight.select(2, tap),
            stride=stride[1:],
            padding=padding[1:],
            output_padding=output_padding[1:],
            dilation=dilation[1:],
            groups=groups,
        )
        rest = ((0, 0), (0, 0), (0, 0))
        term = term.reshape(x.shape[0], count, 1, *term.shape[1:])
        term = hg.pad(term, padding=((0, 0), (0, 0), (0, stride[0] - 1), *rest))
        term = term.reshape(x.shape[0], count * stride[0], *term.shape[3:]).narrow(1, 0, apart)
        first = tap * dilation[0]
        term = hg.pad(term, padding=((0, 0), (first, beyond - first + output_padding[0]), *rest))
        total = term if total is None else total + term
    depth = total.shape[1] - 2 * padding[0]
    return total.narrow(1, padding[0], depth).permute((0, 2, 1, 3, 4))


def convolved(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Tensor:
    """x convolved with weight, or the transpose of that, plus bias."""
    axes = x.ndim - 2
    stride, padding, dilation, output_padding = (
        tables.per_axis(v, axes) for v in (stride, padding, dilation, output_padding)
    )
    if axes in DIRECT:
        settings = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        if transposed:
            return DIRECT[axes][1](x, weight, bias, output_padding=output_padding, **settings)
        return DIRECT[axes][0](x, weight, bias, **settings)
    # For the sum over the depth.
    wide, kernel = (v.astype(v.dtype.computed, copy=False) for v in (x, weight))
    if transposed:
        result = deep_transposed(wide, kernel, stride, padding, dilation, output_padding, groups)
    else:
        result = deep(wide, kernel, stride, padding, dilation, groups)
    result = result if bias is None else result + bias.reshape(-1, 1, 1, 1)
    return result.astype(x.dtype, copy=False)


def placed(result: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    """A result as PyTorch's CPU and CUDA lay it out: in channels_last where x or weight is, but not volumes in f64."""
    return as_images(result, *(() if x.ndim == 5 and x.dtype is hg.f64 else (x, weight)))


@fused
def _compiled(x: Tensor, weight: Tensor, *others: Any) -> Tensor:
    return placed(convolved(x, weight, *others), x, weight)


def _alike(x: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    for name, other in (("weight", weight), ("bias", bias)):
        if other is not None and other.dtype is not x.dtype:
            raise RuntimeError(
                f"hologram, convolution: Input type ({x.dtype}) and {name} type ({other.dtype}) should be the same"
            )


@implements("convolution_overrideable", inferred=False, asked="convolution")
def convolution(x: Tensor, weight: Tensor, bias: Tensor | None, *settings: Any) -> Tensor:
    """PyTorch's entry for devices that are not its own; it has checked shapes."""
    _alike(x, weight, bias)
    if x.ndim - 2 not in DIRECT:
        return _compiled(x, weight, bias, *settings)
    return placed(convolved(x, weight, bias, *settings), x, weight)


@fused
def _pulled(cotangent: Tensor, x: Tensor, weight: Tensor, settings: Any, wanted: Any) -> Any:
    grown = pulled(
        lambda x, weight: convolved(x, weight, None, *settings), (x, weight), wanted[:2], cotangent
    )
    grown = [v if v is None else placed(v, x, weight) for v in grown]
    return [*grown, hg.sum(cotangent, axis=(0, *range(2, x.ndim))) if wanted[2] else None]


@implements("convolution_backward_overrideable", inferred=False)
def convolution_backward(cotangent: Tensor, x: Tensor, weight: Tensor, *rest: Any, **named: Any) -> Any:
    """The cotangents of input, weight and bias, of those that are wanted."""
    *settings, wanted = (*rest, *named.values())
    if not math.prod(cotangent.shape):
        zeros = (v.executor.full(v.shape, 0, v.dtype) for v in (x, weight))
        bias = x.executor.full((cotangent.shape[1],), 0, x.dtype)
        return tuple(v if w else None for v, w in zip((*zeros, bias), wanted, strict=True))
    return _pulled(cotangent, x, weight, settings, wanted)
