"""FlexAttention on the device: PyTorch's own form, in operators that any device has; it asks for devices by name."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.attention import flex_attention

_check = flex_attention._validate_device


def checked(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> None:
    """What PyTorch refuses of other devices."""
    if query.device.type != "hologram":
        _check(query, key, value)


def settle() -> None:
    """Has PyTorch take the device."""
    changed: Any = flex_attention
    changed._validate_device = checked
