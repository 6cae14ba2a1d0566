"""Boxes that overlap: rows (x1, y1, x2, y2)."""

from __future__ import annotations

import numpy as np
import torch

from hologram_torch.aten.vision import implements

BLOCK = 1024  # boxes that are compared with one another at once


def _overlapping(a: torch.Tensor, b: torch.Tensor, threshold: float) -> torch.Tensor:
    """Whether boxes a (n, 4) and b (m, 4) overlap by more of what they cover together: (n, m)."""
    low, high = torch.maximum(a[:, None, :2], b[:, :2]), torch.minimum(a[:, None, 2:], b[:, 2:])
    common = (high - low).clamp(min=0).prod(dim=2)
    sizes = [(x[:, 2] - x[:, 0]) * (x[:, 3] - x[:, 1]) for x in (a, b)]
    return common / (sizes[0][:, None] + sizes[1] - common) > threshold


@implements("nms")
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
