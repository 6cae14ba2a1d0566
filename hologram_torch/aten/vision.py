"""torchvision's operators on boxes. They are declared here and found once torchvision, which nothing here imports, is.

Boxes are rows (x1, y1, x2, y2), regions rows (number of the image, x1, y1, x2, y2), as torchvision has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from hologram_torch.kernels.registry import KEY

BLOCK = 1024  # boxes that are compared with one another at once

library = torch.library.Library("torchvision", "IMPL")


def _implements(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        library.impl(name, function, KEY)
        return function

    return declare


def _overlapping(a: torch.Tensor, b: torch.Tensor, threshold: float) -> torch.Tensor:
    """Whether boxes a (n, 4) and b (m, 4) overlap by more of what they cover together: (n, m)."""
    low, high = torch.maximum(a[:, None, :2], b[:, :2]), torch.minimum(a[:, None, 2:], b[:, 2:])
    common = (high - low).clamp(min=0).prod(dim=2)
    sizes = [(x[:, 2] - x[:, 0]) * (x[:, 3] - x[:, 1]) for x in (a, b)]
    return common / (sizes[0][:, None] + sizes[1] - common) > threshold


@_implements("nms")
def nms(dets: torch.Tensor, scores: torch.Tensor, iou_threshold: float) -> torch.Tensor:
    """The positions of boxes that no better one overlaps too much, the best first.

    A block of boxes is compared on the device, and gone through on the host; what it keeps drops boxes behind it.
    """
    if dets.ndim != 2 or dets.shape[1] != 4:
        raise RuntimeError(f"hologram, nms: boxes should be (n, 4), got {tuple(dets.shape)}")
    if scores.ndim != 1 or scores.shape[0] != dets.shape[0]:
        raise RuntimeError(
            f"hologram, nms: boxes and scores should be as many, got {dets.shape[0]} and {tuple(scores.shape)}"
        )
    order = torch.argsort(scores, descending=True, stable=True)
    boxes = dets[order]
    if boxes.dtype in (torch.float16, torch.bfloat16):
        boxes = boxes.float()
    kept = []
    while order.shape[0]:
        block, rest = boxes[:BLOCK], boxes[BLOCK:]
        drops = _overlapping(block, block, iou_threshold).cpu().numpy()
        alive = np.ones(len(drops), bool)
        for k in range(len(drops)):
            if alive[k]:
                alive[k + 1 :] &= ~drops[k, k + 1 :]
        chosen = torch.from_numpy(np.flatnonzero(alive)).to(order.device)
        kept.append(order[chosen])
        order = order[BLOCK:]
        if order.shape[0]:
            left = ~_overlapping(block[chosen], rest, iou_threshold).any(dim=0)
            boxes, order = rest[left], order[left]
    return torch.cat(kept) if kept else order


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


def _corners(
    rois: torch.Tensor,
    scale: float,
    sizes: tuple[int, int],
    ratio: int,
    aligned: bool,
    extents: tuple[int, int],
) -> Corners:
    """Positions in the flat images, and weights in the mean, of what each bin (regions, height, width) reads."""
    half = 0.5 if aligned else 0.0
    begin, end = rois[:, 1:3] * scale - half, rois[:, 3:5] * scale - half
    length = end - begin if aligned else (end - begin).clamp(min=1)
    found = [_axis(begin[:, 1 - k], length[:, 1 - k], sizes[k], ratio, extents[k]) for k in range(2)]
    share = 1 / (found[0][0] * found[1][0]).clamp(min=1)
    image = (rois[:, 0].long() * (extents[0] * extents[1]))[:, None, None]
    for i in range(len(found[0][2])):
        for j in range(len(found[1][2])):
            for row, by_row in found[0][1]:
                for column, by_column in found[1][1]:
                    place = image + row[:, :, None, i] * extents[1] + column[:, None, :, j]
                    yield place, by_row[:, :, None, i] * by_column[:, None, :, j] * share[:, None, None]


def _regions(name: str, rois: torch.Tensor) -> torch.Tensor:
    if rois.ndim != 2 or rois.shape[1] != 5:
        raise RuntimeError(f"hologram, {name}: rois must be (n, 5), got {tuple(rois.shape)}")
    return rois.float() if rois.dtype in (torch.float16, torch.bfloat16) else rois


@_implements("roi_align")
def roi_align(
    input: torch.Tensor, rois: torch.Tensor, spatial_scale: float, pooled_height: int, pooled_width: int,
    sampling_ratio: int, aligned: bool,
) -> torch.Tensor:  # fmt: skip
    """Means of samples between pixels (He et al., Mask R-CNN, 2017): (regions, channels, height, width)."""
    rois = _regions("roi_align", rois)
    channels, *extents = input.shape[1:]
    pixels = input.movedim(1, 3).reshape(-1, channels).to(rois.dtype)
    sizes = (pooled_height, pooled_width)
    found = pixels.new_zeros(rois.shape[0], *sizes, channels)
    if rois.shape[0]:
        for place, weight in _corners(
            rois, spatial_scale, sizes, sampling_ratio, aligned, (extents[0], extents[1])
        ):
            found += pixels[place] * weight[..., None]
    return found.movedim(3, 1).to(input.dtype).contiguous()


@_implements("_roi_align_backward")
def roi_align_backward(
    grad: torch.Tensor, rois: torch.Tensor, spatial_scale: float, pooled_height: int, pooled_width: int,
    batch_size: int, channels: int, height: int, width: int, sampling_ratio: int, aligned: bool,
) -> torch.Tensor:  # fmt: skip
    rois = _regions("roi_align", rois)
    slope = grad.movedim(1, 3).to(rois.dtype)
    found = slope.new_zeros(batch_size * height * width, channels)
    if rois.shape[0]:
        sizes, extents = (pooled_height, pooled_width), (height, width)
        for place, weight in _corners(rois, spatial_scale, sizes, sampling_ratio, aligned, extents):
            found.index_add_(0, place.reshape(-1), (slope * weight[..., None]).reshape(-1, channels))
    return found.reshape(batch_size, height, width, channels).movedim(3, 1).to(grad.dtype).contiguous()
