"""Tensors of the host among arguments, where PyTorch takes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from hologram_torch.tensors.dtypes import dtype_of
from hologram_torch.tensors.memory import hologram_tensor, is_ours


def move_to_device_of(x: torch.Tensor, y: Any, is_positions: bool = False) -> Any:
    """Positions that lie on the host brought to a tensor's device, and values without axes; all else as it is."""
    if is_positions and isinstance(y, (list, tuple)):
        return [move_to_device_of(x, each, True) for each in y]
    if isinstance(y, torch.Tensor) and y.device.type == "cpu" and (is_positions or not y.ndim):
        return y.to(x.device)
    return y


def under_a_mask(args: Sequence[Any]) -> Sequence[Any]:
    """The arguments of an assignment; one value on the host, written under one mask, gets the tensor's dtype.

    PyTorch converts such a value on any device (`canDispatchToMaskedFill`), and no other.
    """
    x, positions, value, *rest = args
    named = [p for p in positions if p is not None]
    masks = [p for p in named if isinstance(p, torch.Tensor) and p.dtype in (torch.bool, torch.uint8)]
    single = isinstance(value, torch.Tensor) and value.device.type == "cpu" and value.numel() == 1
    if not single or len(named) != 1 or not masks or (rest and rest[0]):
        return args
    return (
        x,
        positions,
        torch.full((2,), value.item(), dtype=x.dtype)[0],
        *rest,
    )  # two: one alone wraps round


def on_device(args: Sequence[Any]) -> Sequence[Any]:
    """Arguments with tensors of the host that have no axes brought to the device, where it knows their dtype.

    Kernels that promote take their values as numbers.
    """
    if not any(isinstance(a, torch.Tensor) and not is_ours(a) for a in args):
        return args
    ours = next((a for a in args if is_ours(a)), None)
    if ours is None:
        return args
    supports = hologram_tensor(ours).executor.limits.dtypes
    return [
        move_to_device_of(ours, a) if isinstance(a, torch.Tensor) and dtype_of(a.dtype) in supports else a
        for a in args
    ]
