"""Functions that stand in for PyTorch's own, and that its tracing goes into: they are parts of what is compiled."""

from __future__ import annotations

import torch
from torch.nn.attention import flex_attention

_check = flex_attention._validate_device


def validated(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> None:
    """Refuses what FlexAttention does not do on other devices."""
    if query.device.type != "hologram":
        _check(query, key, value)
