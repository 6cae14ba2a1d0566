"""The largest, or the mean, of the pixels in each bin of regions: rows (number of the image, x1, y1, x2, y2).

Bins are found on the host, by torchvision's own arithmetic, as a bound that is rounded otherwise is another pixel.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import reduce
from typing import Any

import numpy as np
import torch

import hologram as hg
from hologram.atlas.builder import Value
from hologram.atlas.functions import select
from hologram.foundation import dtypes
from hologram.frontend.tensor import Tensor
from hologram.machine.layout import Layout
from hologram.opset.forms.map import Indexed
from hologram.opset.tiles.updates import inside_of
from hologram_torch.aten.vision import implements
from hologram_torch.aten.vision.regions import channels_apart, regions
from hologram_torch.kernels.fused import fused
from hologram_torch.tensors.memory import hologram_tensor, torch_tensor

PLACES = 1 << 24  # of pixels, in regions that are gone through at once
LOWEST = float(np.finfo(np.float32).min)  # what a pixel has to exceed, in f64 as well

Pair = tuple[int, int]  # along rows and columns


def _largest_layouts(x: Layout, image: Layout, rows: Layout, columns: Layout) -> tuple[Layout, Layout]:
    shape = (image.shape[0], x.shape[1], rows.shape[2], columns.shape[2])
    return Layout.contiguous(x.dtype, shape), Layout.contiguous(dtypes.i32, shape)


def _largest_pixel(at: Any, x: Any, image: Any, rows: Any, columns: Any) -> tuple[Value, Value]:
    region, channel, i, j = at
    builder = region.builder
    (top, bottom), (left, right) = (
        [bounds.at(builder.constant(k, dtypes.index), region, bin).to(dtypes.index) for k in range(2)]
        for bounds, bin in ((rows, i), (columns, j))
    )
    inside, picture = inside_of(image.at(region), x.extent(0))

    def pixel(row: Value, column: Value, best: Value, place: Value) -> tuple[Value, Value]:
        value = x.at(picture, channel, row, column)
        better = inside & (value > best)
        where = (row * x.extent(3) + column).to(dtypes.i32)
        return select(better, value, best), select(better, where, place)

    def line(row: Value, *best: Value) -> tuple[Value, ...]:
        return builder.loop(left, right, lambda column, *best: pixel(row, column, *best), first=best)

    none = (builder.constant(LOWEST, x.computed), builder.constant(-1, dtypes.i32))
    best, place = builder.loop(top, bottom, line, first=none)
    return select((top < bottom) & (left < right), best, 0.0), place


# The largest pixel of each bin, and where the first of these lies, -1 for none: (regions, channels, height, width). It
# has no name outside, as nobody but torchvision asks for it.
_largest = Indexed(
    name="largest_of_regions",
    function=_largest_pixel,
    reference=lambda: None,
    samples=lambda rng, dtype: (),
    shape_of=_largest_layouts,
)


def _bounds(rois: np.ndarray, scale: float, sizes: Pair, limits: Pair, inclusive: bool) -> list[np.ndarray]:
    """The first row of each bin and the one behind its last, within limits, and the columns: (2, regions, bins)."""
    kind = rois.dtype.type
    corners = (rois[:, 1:] * kind(scale)).astype(np.float64)
    corners = np.trunc(corners + np.copysign(0.5, corners))
    both = []
    for axis, bins, limit in zip((1, 0), sizes, limits, strict=True):
        begin, end = corners[:, axis, None], corners[:, 2 + axis, None]
        step = np.maximum(end - begin + inclusive, 1).astype(kind) / kind(bins)
        part = np.arange(bins + 1, dtype=kind)
        bounds = np.stack([np.floor(part[:-1] * step), np.ceil(part[1:] * step)]) + begin
        both.append(np.clip(bounds, 0, limit).astype(np.int32))
    return both


def _rounded(count: int) -> int:
    """No less, and less than a quarter more: of the numbers that are compiled for, there should be few."""
    step = 1 << max(count.bit_length() - 3, 0)
    return -(-count // step) * step


def _blocks(
    rois: torch.Tensor, scale: float, sizes: Pair, limits: Pair, inclusive: bool, each: int = 1
) -> Iterator[tuple[slice, tuple[Tensor, ...], Pair]]:
    """Regions that are gone through at once: which, their images and bounds, and how many taps cover their bins."""
    host = rois.cpu().numpy()
    bounds = _bounds(host, scale, sizes, limits, inclusive)
    high, wide = (_rounded(max(int((b[1] - b[0]).max()), 1)) for b in bounds)
    number = max(PLACES // (math.prod(sizes) * high * wide * each), 1)
    executor = hologram_tensor(rois).executor
    for first in range(0, len(host), number):
        which = slice(first, first + number)
        image = host[which, 0].astype(np.int32)
        parts = (image, *(np.ascontiguousarray(b[:, which]) for b in bounds))
        yield which, tuple(executor.tensor(p) for p in parts), (high, wide)


def _places(rows: Tensor, columns: Tensor, taps: Pair, width: int) -> Tensor:
    """Where in its image each tap of each bin lies, -1 for those behind its end: (regions, bins, taps)."""
    row, column = (hg.arange(rows.executor, 0, n).astype("i32") for n in taps)
    count = rows.shape[1]
    first, last = (rows.select(0, k).reshape(count, -1, 1, 1, 1) for k in range(2))
    left, right = (columns.select(0, k).reshape(count, 1, -1, 1, 1) for k in range(2))
    row, column = first + row.reshape(-1, 1), left + column
    inside = hg.logical_and(hg.less(row, last), hg.less(column, right))
    return hg.where(inside, row * width + column, -1).reshape(count, -1, math.prod(taps))


@fused
def _means(x: Tensor, image: Tensor, rows: Tensor, columns: Tensor, taps: Pair) -> Tensor:
    """The mean of each bin's pixels, of channels of its own: (regions, bins, channels)."""
    images, channels, height, width = x.shape
    place = _places(rows, columns, taps, width)
    bins = place.shape[1]
    pixels = x.reshape(images, channels // bins, bins, height * width).permute(0, 3, 2, 1)
    number = image.reshape(-1, 1, 1) * (height * width) + hg.maximum(place, 0)
    number = number * bins + hg.arange(x.executor, 0, bins).astype("i32").reshape(-1, 1)
    values = hg.index_select(pixels.reshape(-1, channels // bins), number.reshape(-1), axis=0)
    inside = hg.greater_equal(place, 0).unsqueeze(3)
    values = hg.where(inside, values.reshape(*place.shape, channels // bins), 0.0)
    total = hg.sum(values.astype(x.dtype.computed, copy=False), axis=2)
    return (total / hg.maximum(hg.sum(inside, axis=2), 1)).astype(x.dtype, copy=False)


@fused
def _spread(
    cotangent: Tensor, shape: tuple[int, ...], image: Tensor, rows: Tensor, columns: Tensor, taps: Pair
) -> Tensor:
    """The cotangent of images of a shape, from one of their bins' means."""
    zeros = cotangent.executor.full((), 0, cotangent.dtype).expand(shape)
    return hg.vjp(lambda x: _means(x, image, rows, columns, taps), zeros)[1](cotangent)[0]


def _pooled(parts: list[torch.Tensor], sizes: Pair) -> torch.Tensor:
    """Results (regions, bins, channels) of blocks as one (regions, channels, height, width)."""
    return torch.cat(parts).movedim(2, 1).unflatten(2, sizes).contiguous()


@implements("roi_pool")
def roi_pool(
    input: torch.Tensor, rois: torch.Tensor, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The largest pixel of each bin (Girshick, Fast R-CNN, 2015), and where in the image; without one 0, and -1."""
    rois = regions("roi_pool", rois, input=input)
    sizes, limits = (pooled_height, pooled_width), (input.shape[2], input.shape[3])
    host = rois.cpu().numpy()
    x = hologram_tensor(input)
    bounds = _bounds(host, spatial_scale, sizes, limits, inclusive=True)
    given = (x.executor.tensor(v) for v in (host[:, 0].astype(np.int32), *bounds))
    values, places = _largest(x, *given)
    return torch_tensor(values), torch_tensor(places)


@implements("_roi_pool_backward")
def roi_pool_backward(
    grad: torch.Tensor, rois: torch.Tensor, argmax: torch.Tensor, spatial_scale: float,
    pooled_height: int, pooled_width: int, batch_size: int, channels: int, height: int, width: int,
) -> torch.Tensor:  # fmt: skip
    rois = regions("roi_pool", rois, grad=grad)
    gradient = rois.new_zeros(batch_size * channels, height * width).flatten()
    if grad.numel():
        image = rois[:, 0].long()[:, None] * channels + torch.arange(channels, device=rois.device)
        place = image[:, :, None, None] * (height * width) + argmax.clamp(min=0)
        slope = torch.where(argmax >= 0, grad, 0).to(rois.dtype)
        gradient.index_add_(0, place.flatten(), slope.flatten())
    return gradient.reshape(batch_size, channels, height, width).to(grad.dtype)


@implements("ps_roi_pool")
def ps_roi_pool(
    input: torch.Tensor, rois: torch.Tensor, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The mean of each bin's pixels, of channels of its own (Dai et al., R-FCN, 2016), and which channels they are.

    As in torchvision, the last row and column of an image are in no bin, but get their share of the way back.
    """
    rois = regions("ps_roi_pool", rois, input=input)
    sizes, limits = (pooled_height, pooled_width), (input.shape[2] - 1, input.shape[3] - 1)
    mapping = channels_apart("ps_roi_pool", input, rois.shape[0], sizes)
    if not mapping.numel():
        return torch.zeros_like(mapping, dtype=input.dtype), mapping
    x = hologram_tensor(input.to(rois.dtype))
    blocks = _blocks(rois, spatial_scale, sizes, limits, inclusive=False)
    means = [torch_tensor(_means(x, *given, taps)) for _, given, taps in blocks]
    return _pooled(means, sizes).to(input.dtype), mapping


@implements("_ps_roi_pool_backward")
def ps_roi_pool_backward(
    grad: torch.Tensor, rois: torch.Tensor, channel_mapping: torch.Tensor, spatial_scale: float,
    pooled_height: int, pooled_width: int, batch_size: int, channels: int, height: int, width: int,
) -> torch.Tensor:  # fmt: skip
    rois = regions("ps_roi_pool", rois, grad=grad)
    shape, sizes = (batch_size, channels, height, width), (pooled_height, pooled_width)
    if not grad.numel():
        return grad.new_zeros(shape)
    slopes = grad.flatten(2).movedim(1, 2).to(rois.dtype)
    blocks = _blocks(rois, spatial_scale, sizes, (height, width), inclusive=False, each=slopes.shape[2])
    parts = [_spread(hologram_tensor(slopes[which]), shape, *given, taps) for which, given, taps in blocks]
    return reduce(torch.add, map(torch_tensor, parts)).to(grad.dtype)
