"""Images sampled at the points of a grid, along two or three axes (ATen/native/GridSampler.h)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import hologram as hg
from hologram.foundation import dtypes
from hologram.frontend.tensor import Tensor
from hologram_torch.kernels.fused import fused, pulled
from hologram_torch.kernels.registry import implements

LINEAR, NEAREST, CUBIC = 0, 1, 2  # ATen's numbers
ZEROS, BORDER, REFLECTION = 0, 1, 2
A = -0.75  # of Keys' kernel

Taps = list[tuple[Tensor, Tensor | None]]  # positions along an axis, with weights


def _pixels(x: Tensor, length: int, aligned: bool) -> Tensor:
    """From [-1, 1] to positions."""
    return (x + 1.0) * (0.5 * (length - 1)) if aligned else ((x + 1.0) * length - 1.0) * 0.5


def _reflected(x: Tensor, low: float, high: float) -> Tensor:
    """Positions thrown back at twice their bounds."""
    span = (high - low) / 2.0
    if span == 0:
        return x * 0.0
    low = low / 2.0
    away = hg.where(hg.less(x, low), low - x, x - low)  # no magnitude, whose derivative at NaN is NaN
    over = away - hg.stop_gradient(hg.floor(away / span)) * span
    even = hg.equal(hg.remainder(hg.floor(away / span), 2.0), 0.0)
    return hg.where(even, over + low, span - over + low)


def _within(x: Tensor, length: int, padding: int, aligned: bool, axes: int) -> Tensor:
    """Positions as the padding has them. NaN is, as on PyTorch's CPU, the first of an image, the last of a volume."""
    if padding == REFLECTION:
        low, high = (0, 2 * (length - 1)) if aligned else (-1, 2 * length - 1)
        x = _reflected(x, low, high)
    if padding in (BORDER, REFLECTION):
        inside = hg.logical_and(hg.greater(x, 0.0), hg.less(x, length - 1.0))
        last = hg.greater(x, 0.0) if axes == 2 else hg.logical_not(hg.less_equal(x, 0.0))
        edge = hg.where(last, length - 1.0, 0.0)
        x = hg.where(inside, x, edge)
    return x


def _cubic(part: Tensor) -> list[Tensor]:
    def near(t: Tensor) -> Tensor:
        return ((A + 2) * t - (A + 3)) * t * t + 1

    def far(t: Tensor) -> Tensor:
        return ((A * t - 5 * A) * t + 8 * A) * t - 4 * A

    return [far(part + 1.0), near(part), near(1.0 - part), far(2.0 - part)]


def taps(place: Tensor, mode: int) -> Taps:
    """What is read near a position along an axis."""
    if mode == NEAREST:
        return [(hg.round(place), None)]
    first = hg.stop_gradient(hg.floor(place))
    part = place - first
    weights = _cubic(part) if mode == CUBIC else [1.0 - part, part]
    start = -1 if mode == CUBIC else 0
    return [(first + float(start + k), w) for k, w in enumerate(weights)]


def interpolated(x: Tensor, along: Sequence[Taps]) -> Tensor:
    """Sums of what is read of x (N, C, ..., H, W), 0 outside, for taps (N, ...) along each axis: (N, C, ...)."""
    lengths, points = x.shape[2:], along[0][0][0].shape
    computed = x.dtype.computed
    rows = x.reshape(*x.shape[:2], math.prod(lengths))
    count = math.prod(points[1:])
    total: Any = None
    for chosen in itertools.product(*along):
        flat: Any = 0
        inside: Any = None
        weight: Any = None
        for (place, factor), length in zip(chosen, lengths, strict=True):
            place = hg.stop_gradient(place)
            here = hg.logical_and(hg.greater_equal(place, 0.0), hg.less_equal(place, length - 1.0))
            inside = here if inside is None else hg.logical_and(inside, here)
            flat = flat * length + hg.where(here, place, 0.0).astype(dtypes.i32)
            weight = weight if factor is None else factor if weight is None else weight * factor
        index = hg.where(inside, flat, 0).reshape(x.shape[0], 1, count).expand((*x.shape[:2], count))
        pixels = hg.gather(rows, index, dim=2).astype(computed, copy=False)
        # Ahead of the weight: one that is NaN must not reach the pixel that stands for those outside on the way back.
        pixels = hg.where(inside.reshape(x.shape[0], 1, count), pixels, 0.0)
        if weight is not None:
            # As on PyTorch's CPU, NaN in images alone.
            weight = weight if len(along) == 2 else hg.where(inside, weight, 0.0)
            pixels = pixels * weight.reshape(x.shape[0], 1, count)
        total = pixels if total is None else total + pixels
    return total.reshape(*x.shape[:2], *points[1:])


def sampled(x: Tensor, grid: Tensor, mode: int, padding: int, aligned: bool) -> Tensor:
    """x (N, C, ..., H, W) at points (N, ..., 2 or 3), whose first coordinate is of the last axis."""
    axes = grid.shape[-1]
    points = grid.astype(x.dtype.computed, copy=False)
    along = []
    for k, length in enumerate(x.shape[2:]):
        place = _pixels(points.select(points.ndim - 1, axes - 1 - k), length, aligned)
        place = place if mode == CUBIC else _within(place, length, padding, aligned, axes)
        pairs = taps(place, mode)
        if mode == CUBIC:
            pairs = [(_within(p, length, padding, aligned, axes), w) for p, w in pairs]
        along.append(pairs)
    return interpolated(x, along).astype(x.dtype, copy=False)


_compiled = fused(sampled)


@implements("grid_sampler_2d", "grid_sampler_3d")
def grid_sampler(
    x: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    if not x.size or not grid.size:
        return x.executor.full((*x.shape[:2], *grid.shape[1:-1]), 0, x.dtype)
    return _compiled(x, grid, interpolation_mode, padding_mode, align_corners)


@fused
def _pulled(
    cotangent: Tensor, x: Tensor, grid: Tensor, mode: int, padding: int, aligned: bool, wanted: list[bool]
) -> list[Any]:
    return pulled(lambda x, grid: sampled(x, grid, mode, padding, aligned), (x, grid), wanted, cotangent)


@implements("grid_sampler_2d_backward", "grid_sampler_3d_backward", inferred=False)
def grid_sampler_backward(
    cotangent: Tensor, x: Tensor, grid: Tensor, mode: int, padding: int, aligned: bool, wanted: list[bool]
) -> Any:
    """The cotangents of images and grid, of those that are wanted."""
    if not cotangent.size:
        zeros = (v.executor.full(v.shape, 0, v.dtype) for v in (x, grid))
        return tuple(v if w else None for v, w in zip(zeros, wanted, strict=True))
    return tuple(_pulled(cotangent, x, grid, mode, padding, aligned, list(wanted)))
