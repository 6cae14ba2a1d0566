"""torchvision, and the schemas of its operators where it was built for another PyTorch than this, or is not there."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch

SCHEMAS = {
    "nms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "roi_align": "(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
    "int sampling_ratio, bool aligned) -> Tensor",
    "_roi_align_backward": "(Tensor grad, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
    "SymInt batch_size, SymInt channels, SymInt height, SymInt width, int sampling_ratio, bool aligned) -> Tensor",
}


def declare(*names: str) -> None:
    """Gives torchvision's operators schemas where they have none."""
    for name in names:
        if not hasattr(torch.ops.torchvision, name):
            torch.library.define(f"torchvision::{name}", SCHEMAS[name])


def torchvision() -> Any:
    """The package; where it was built for another PyTorch than this, without its kernels for boxes."""
    try:
        return pytest.importorskip("torchvision")
    except RuntimeError:
        for name in [name for name in sys.modules if name.startswith("torchvision")]:
            del sys.modules[name]
        declare("nms", "qnms")
        return pytest.importorskip("torchvision")
