"""Means of samples between the pixels of regions: rows (number of the image, x1, y1, x2, y2)."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from hologram.foundation.frozen import frozen
from hologram_torch.aten.vision import implements, refuse_but_floats

Corners = Iterator[tuple[torch.Tensor, torch.Tensor]]


def _axis(
    start: torch.Tensor, length: torch.Tensor, bins: int, ratio: int, extent: int
) -> tuple[torch.Tensor, list[tuple[torch.Tensor, torch.Tensor]], torch.Tensor]:
    """Along one axis: how many samples count, neighbours before and behind, (regions, bins, samples), and weights."""
    step = length / bins
    counts = torch.full_like(start, ratio) if ratio > 0 else torch.ceil(step).clamp(min=0)
    most = ratio if ratio > 0 else int(counts.max().item()) if counts.numel() else 0
    number = torch.arange(most, device=start.device, dtype=start.dtype)
    parts = torch.arange(bins, device=start.device, dtype=start.dtype)
    place = start[:, None, None] + parts[:, None] * step[:, None, None]
    place = place + (number + 0.5) * (step / counts.clamp(min=1))[:, None, None]
    here = (place >= -1) & (place <= extent) & (number < counts[:, None, None])
    place = place.clamp(min=0)
    before = place.floor().clamp(max=extent - 1)
    behind = (before + 1).clamp(max=extent - 1)
    share = torch.where(before >= extent - 1, 0, place - before)
    sides = [(before.long(), (1 - share) * here), (behind.long(), share * here)]
    return counts, sides, number


def _span(rois: torch.Tensor, scale: float, aligned: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Where regions begin, and how long they are, along columns and rows."""
    half = 0.5 if aligned else 0.0
    begin, end = rois[:, 1:3] * scale - half, rois[:, 3:5] * scale - half
    return begin, end - begin if aligned else (end - begin).clamp(min=1)


@frozen
class Settings:
    """How regions are sampled."""

    scale: float
    sizes: tuple[int, int]
    ratio: int
    aligned: bool
    shape: tuple[int, ...]  # of the images
    apart: bool = False  # whether each bin has channels of its own

    @property
    def own(self) -> int:
        """The bins among whose channels each reads its own."""
        return math.prod(self.sizes) if self.apart else 1

    def pixels(self, x: torch.Tensor) -> torch.Tensor:
        """Images as rows of the channels that are read together: one for each pixel, and there each bin of its own."""
        images, channels, height, width = self.shape
        split = x.reshape(images, channels // self.own, self.own, height, width)
        return split.permute(0, 3, 4, 2, 1).reshape(-1, channels // self.own)

    def images(self, pixels: torch.Tensor) -> torch.Tensor:
        images, channels, height, width = self.shape
        split = pixels.reshape(images, height, width, self.own, channels // self.own)
        return split.permute(0, 4, 3, 1, 2).reshape(self.shape)

    def corners(self, rois: torch.Tensor) -> Corners:
        """The rows of pixels, and weights in the mean, of what each bin (regions, height, width) reads."""
        begin, length = _span(rois, self.scale, self.aligned)
        height, width = self.shape[2:]
        rows, columns = (
            _axis(begin[:, 1 - k], length[:, 1 - k], self.sizes[k], self.ratio, self.shape[2 + k])
            for k in range(2)
        )
        share = (1 / (rows[0] * columns[0]).clamp(min=1))[:, None, None]
        image = (rois[:, 0].long() * (height * width))[:, None, None]
        own = torch.arange(self.own, device=rois.device).reshape(self.sizes) if self.apart else None
        for i in range(len(rows[2])):
            for j in range(len(columns[2])):
                for row, by_row in rows[1]:
                    for column, by_column in columns[1]:
                        place = image + row[:, :, None, i] * width + column[:, None, :, j]
                        place = place if own is None else place * self.own + own
                        yield place, by_row[:, :, None, i] * by_column[:, None, :, j] * share


def _means(x: torch.Tensor, rois: torch.Tensor, settings: Settings) -> torch.Tensor:
    pixels = settings.pixels(x).to(rois.dtype)
    means = pixels.new_zeros(rois.shape[0], *settings.sizes, pixels.shape[1])
    if means.numel():
        for place, weight in settings.corners(rois):
            means += pixels[place] * weight[..., None]
    return means.movedim(3, 1).to(x.dtype).contiguous()


def _returned(grad: torch.Tensor, rois: torch.Tensor, settings: Settings) -> torch.Tensor:
    """The cotangents of images."""
    slope = grad.movedim(1, 3).to(rois.dtype)
    images, channels, height, width = settings.shape
    pixels = slope.new_zeros(images * height * width * settings.own, channels // settings.own)
    if grad.numel():
        for place, weight in settings.corners(rois):
            rows = (slope * weight[..., None]).reshape(-1, pixels.shape[1])
            pixels.index_add_(0, place.reshape(-1), rows)
    return settings.images(pixels).to(grad.dtype).contiguous()


def regions(name: str, rois: torch.Tensor, **given: torch.Tensor) -> torch.Tensor:
    """The regions in the dtype to compute in; refuses what are none, and operands of other dtypes than floats."""
    refuse_but_floats(name, rois=rois, **given)
    if rois.ndim != 2 or rois.shape[1] != 5:
        raise RuntimeError(f"hologram, {name}: rois must be (n, 5), got {tuple(rois.shape)}")
    for operand, x in given.items():
        if x.ndim != 4:
            raise RuntimeError(f"hologram, {name}: {operand} must have 4 axes, got shape {tuple(x.shape)}")
    return rois.float() if rois.dtype in (torch.float16, torch.bfloat16) else rois


@implements("roi_align")
def roi_align(
    input: torch.Tensor, rois: torch.Tensor, spatial_scale: float, pooled_height: int, pooled_width: int,
    sampling_ratio: int, aligned: bool,
) -> torch.Tensor:  # fmt: skip
    """Means of samples between pixels (He et al., Mask R-CNN, 2017): (regions, channels, height, width)."""
    rois = regions("roi_align", rois, input=input)
    sizes = (pooled_height, pooled_width)
    return _means(input, rois, Settings(spatial_scale, sizes, sampling_ratio, aligned, tuple(input.shape)))


@implements("_roi_align_backward")
def roi_align_backward(
    grad: torch.Tensor, rois: torch.Tensor, spatial_scale: float, pooled_height: int, pooled_width: int,
    batch_size: int, channels: int, height: int, width: int, sampling_ratio: int, aligned: bool,
) -> torch.Tensor:  # fmt: skip
    rois = regions("roi_align", rois, grad=grad)
    shape, sizes = (batch_size, channels, height, width), (pooled_height, pooled_width)
    return _returned(grad, rois, Settings(spatial_scale, sizes, sampling_ratio, aligned, shape))


def channels_apart(name: str, x: torch.Tensor, regions: int, sizes: tuple[int, int]) -> torch.Tensor:
    """The channel of the images that each element of a result is of: (regions, channels, height, width)."""
    channels, bins = x.shape[1], math.prod(sizes)
    if channels % bins:
        raise RuntimeError(f"hologram, {name}: channels must be a multiple of {bins} bins, got {channels}")
    numbers = torch.arange(channels, dtype=torch.int32, device=x.device)
    return numbers.reshape(1, channels // bins, *sizes).repeat(regions, 1, 1, 1)


@implements("ps_roi_align")
def ps_roi_align(
    input: torch.Tensor, rois: torch.Tensor, spatial_scale: float, pooled_height: int, pooled_width: int,
    sampling_ratio: int,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Aligned means of channels that are each bin's own (Li et al., Light-Head R-CNN, 2017), and which they are."""
    rois = regions("ps_roi_align", rois, input=input)
    sizes = (pooled_height, pooled_width)
    mapping = channels_apart("ps_roi_align", input, rois.shape[0], sizes)
    settings = Settings(spatial_scale, sizes, sampling_ratio, True, tuple(input.shape), apart=True)
    means = _means(input, rois, settings)
    if sampling_ratio <= 0:  # unlike roi_align, torchvision divides here where there are no samples, by 0
        length = _span(rois, spatial_scale, True)[1]
        counts = torch.ceil(torch.stack([length[:, 0] / pooled_width, length[:, 1] / pooled_height]))
        means = means.masked_fill((counts == 0).any(dim=0)[:, None, None, None], math.nan)
    return means, mapping


@implements("_ps_roi_align_backward")
def ps_roi_align_backward(
    grad: torch.Tensor, rois: torch.Tensor, channel_mapping: torch.Tensor, spatial_scale: float,
    pooled_height: int, pooled_width: int, sampling_ratio: int,
    batch_size: int, channels: int, height: int, width: int,
) -> torch.Tensor:  # fmt: skip
    rois = regions("ps_roi_align", rois, grad=grad)
    shape, sizes = (batch_size, channels, height, width), (pooled_height, pooled_width)
    return _returned(grad, rois, Settings(spatial_scale, sizes, sampling_ratio, True, shape, apart=True))
