"""Convolutions whose taps lie where offsets move them (Dai et al., Deformable Convolutional Networks, 2017), each
weighed by a mask (Zhu et al., Deformable ConvNets v2, 2019).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

import numpy as np
import torch

import hologram as hg
from hologram.foundation.frozen import frozen
from hologram.frontend.tensor import Tensor
from hologram_torch.aten.neural.grids import LINEAR, interpolated, taps
from hologram_torch.aten.vision import implements, refuse_but_floats
from hologram_torch.kernels.fused import fused
from hologram_torch.tensors.memory import hologram_tensor, torch_tensor

COLUMNS = 1 << 26  # elements read for the taps of images that are gone through at once

Pair = tuple[int, int]  # along rows and columns


@frozen
class Settings:
    """How a kernel goes over images."""

    stride: Pair
    padding: Pair
    dilation: Pair
    groups: int
    offset_groups: int
    masked: bool

    def places(self, taps: Sequence[int], results: Sequence[int]) -> list[np.ndarray]:
        """The row of each tap of each result before it is moved, and the column: (taps, results) along both."""
        both = []
        for k in range(2):
            starts = np.arange(results[k]) * self.stride[k] - self.padding[k]
            place = np.arange(taps[k])[:, None] * self.dilation[k] + starts
            across = np.expand_dims(place, (1, 3) if k == 0 else (0, 2))
            both.append(np.broadcast_to(across, (*taps, *results)).reshape(math.prod(taps), *results))
        return both


@fused
def _convolved(x: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, settings: Settings) -> Tensor:
    images, channels = x.shape[:2]
    kernel, results = weight.shape[2:], offset.shape[2:]
    number, groups = math.prod(kernel), settings.offset_groups
    moved = offset.astype(x.dtype.computed, copy=False).reshape(images * groups, number, 2, *results)
    along = [
        taps(moved.select(2, k) + x.executor.tensor(place.astype(moved.dtype.numpy)), LINEAR)
        for k, place in enumerate(settings.places(kernel, results))
    ]
    columns = interpolated(x.reshape(images * groups, channels // groups, *x.shape[2:]), along)
    if settings.masked:
        columns = columns * mask.reshape(images * groups, 1, number, *results).astype(
            columns.dtype, copy=False
        )
    columns = columns.astype(x.dtype, copy=False)
    columns = columns.reshape(images, settings.groups, -1, math.prod(results))
    result = hg.einsum("goi,ngil->ngol", weight.reshape(settings.groups, -1, columns.shape[2]), columns)
    return result.reshape(images, weight.shape[0], *results).astype(x.dtype, copy=False)


@fused
def _pulled(
    cotangent: Tensor, x: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, settings: Settings
) -> list[Tensor]:
    operands = (x, weight, offset, mask) if settings.masked else (x, weight, offset)

    def forward(*moving: Tensor) -> Tensor:
        return _convolved(*(moving if settings.masked else (*moving, mask)), settings)

    return list(hg.vjp(forward, *operands)[1](cotangent))


def _refuse(
    x: torch.Tensor, weight: torch.Tensor, offset: torch.Tensor, mask: torch.Tensor, settings: Settings
) -> None:
    who = "hologram, deform_conv2d"
    refuse_but_floats("deform_conv2d", input=x, weight=weight, offset=offset, mask=mask)
    for operand, given in {"input": x, "weight": weight, "offset": offset}.items():
        if given.ndim != 4:
            raise RuntimeError(f"{who}: {operand} must have 4 axes, got shape {tuple(given.shape)}")
    if min(*weight.shape[2:], *settings.stride, *settings.dilation) < 1 or min(settings.padding) < 0:
        raise RuntimeError(f"{who}: kernel, stride and dilation must be positive, got {settings}")
    channels, groups, number = x.shape[1], settings.offset_groups, math.prod(weight.shape[2:])
    if (
        weight.shape[1] * settings.groups != channels
        or weight.shape[0] % settings.groups
        or channels % groups
    ):
        raise RuntimeError(
            f"{who}: channels must be shared out evenly by {settings.groups} groups and {groups} of offsets, "
            f"got {tuple(x.shape)} and weights {tuple(weight.shape)}"
        )
    results = tuple(
        (x.shape[2 + k] + 2 * settings.padding[k] - settings.dilation[k] * (weight.shape[2 + k] - 1) - 1)
        // settings.stride[k] + 1
        for k in range(2)
    )  # fmt: skip
    if min(results) < 1:
        raise RuntimeError(f"{who}: the kernel must fit into the padded images, results would be {results}")
    for operand, given, each in (("offset", offset, 2), ("mask", mask, 1))[: 1 + settings.masked]:
        wanted = (x.shape[0], each * groups * number, *results)
        if given.shape != wanted:
            raise RuntimeError(f"{who}: {operand} must be {wanted}, got {tuple(given.shape)}")


def _parts(
    weight: torch.Tensor, offset: torch.Tensor, settings: Settings, *by_image: torch.Tensor
) -> Iterator[Any]:
    """What there is for each image, cut where the columns of more images would not fit."""
    each = weight[0].numel() * settings.groups * math.prod(offset.shape[2:])
    return zip(*(x.split(max(COLUMNS // each, 1)) for x in by_image), strict=True)


def _joined(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))


@implements("deform_conv2d")
def deform_conv2d(
    input: torch.Tensor, weight: torch.Tensor, offset: torch.Tensor, mask: torch.Tensor, bias: torch.Tensor,
    stride_h: int, stride_w: int, pad_h: int, pad_w: int, dilation_h: int, dilation_w: int,
    groups: int, offset_groups: int, use_mask: bool,
) -> torch.Tensor:  # fmt: skip
    """The convolution of images (n, channels, height, width) by taps that offsets (n, 2 taps, ...) move."""
    settings = Settings(
        (stride_h, stride_w), (pad_h, pad_w), (dilation_h, dilation_w), groups, offset_groups, use_mask
    )
    _refuse(input, weight, offset, mask, settings)
    if not input.shape[0] or not weight.shape[0]:
        return input.new_zeros(input.shape[0], weight.shape[0], *offset.shape[2:])
    by_image = (input, offset, mask if use_mask else offset)
    parts = [
        torch_tensor(_convolved(*map(hologram_tensor, (x, weight, moved, weighed)), settings))
        for x, moved, weighed in _parts(weight, offset, settings, *by_image)
    ]
    return (_joined(parts) + bias[:, None, None]).to(input.dtype)


@implements("_deform_conv2d_backward")
def deform_conv2d_backward(
    grad: torch.Tensor, input: torch.Tensor, weight: torch.Tensor, offset: torch.Tensor, mask: torch.Tensor,
    bias: torch.Tensor, stride_h: int, stride_w: int, pad_h: int, pad_w: int, dilation_h: int, dilation_w: int,
    groups: int, offset_groups: int, use_mask: bool,
) -> tuple[torch.Tensor, ...]:  # fmt: skip
    """The cotangents of images, weights, offsets, mask and bias."""
    settings = Settings(
        (stride_h, stride_w), (pad_h, pad_w), (dilation_h, dilation_w), groups, offset_groups, use_mask
    )
    _refuse(input, weight, offset, mask, settings)
    if not grad.numel():
        return tuple(torch.zeros_like(x) for x in (input, weight, offset, mask, bias))
    by_image = (grad, input, offset, mask if use_mask else offset)
    parts = []
    for slope, x, moved, weighed in _parts(weight, offset, settings, *by_image):
        operands = map(hologram_tensor, (slope, x, weight, moved, weighed))
        parts.append([torch_tensor(v) for v in _pulled(*operands, settings)])
    images, weights, offsets, *masks = zip(*parts, strict=True)
    return (
        _joined(images),
        reduce(torch.add, weights),
        _joined(offsets),
        _joined(masks[0]) if masks else torch.zeros_like(mask),
        grad.sum(dim=(0, 2, 3)).to(bias.dtype),
    )
