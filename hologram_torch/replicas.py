"""Copies of tensors on several devices, which `torch.nn.DataParallel` makes and joins.

PyTorch has these functions in C++, for CUDA and in builds with CUDA only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

Tensors = Sequence[torch.Tensor]


def _at(index: int) -> torch.device:
    return torch.device("cpu") if index < 0 else torch.device("hologram", index)


def scatter(
    tensor: torch.Tensor, devices: Sequence[int], sizes: Sequence[int] | None, dim: int, streams: Any = None
) -> tuple[torch.Tensor, ...]:
    """A piece of a tensor on each device, of these sizes along an axis or as equal as can be."""
    pieces = tensor.chunk(len(devices), dim) if sizes is None else tensor.split(list(sizes), dim)
    return tuple(piece.to(_at(k)) for piece, k in zip(pieces, devices, strict=False))


def gather(tensors: Tensors, dim: int, destination: int | None) -> torch.Tensor:
    """Tensors of several devices joined on one; -1 is the host, None the current device."""
    device = _at(torch.accelerator.current_device_index() if destination is None else destination)
    return torch.cat([x.to(device) for x in tensors], dim)


def broadcast(tensor: torch.Tensor, devices: Sequence[int]) -> list[torch.Tensor]:
    """A tensor on each device; where it is, itself."""
    return [tensor.to(_at(k)) for k in devices]


def broadcast_coalesced(tensors: Tensors, devices: Sequence[int], nbytes: int) -> list[list[torch.Tensor]]:
    """For each device all of the tensors."""
    return [[x.to(_at(k)) for x in tensors] for k in devices]


def scatter_into(
    tensor: torch.Tensor, out: Tensors, dim: int, streams: Any = None
) -> tuple[torch.Tensor, ...]:
    """As scatter, into tensors that are there."""
    pieces = tensor.split([x.shape[dim] for x in out], dim)
    return tuple(x.copy_(piece) for x, piece in zip(out, pieces, strict=True))


def gather_into(tensors: Tensors, out: torch.Tensor, dim: int) -> torch.Tensor:
    """As gather, into a tensor that is there."""
    return out.copy_(torch.cat([x.to(out.device) for x in tensors], dim))


def broadcast_into(tensor: torch.Tensor, out: Tensors) -> list[torch.Tensor]:
    """As broadcast, into tensors that are there."""
    return [x.copy_(tensor) for x in out]


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "_scatter": scatter,
    "_scatter_out": scatter_into,
    "_gather": gather,
    "_gather_out": gather_into,
    "_broadcast": broadcast,
    "_broadcast_out": broadcast_into,
    "_broadcast_coalesced": broadcast_coalesced,
}


def _either(ours: Callable[..., Any], theirs: Callable[..., Any] | None) -> Callable[..., Any]:
    """Ours where a tensor of the device, or of the host in a program that has no other, is among the arguments."""

    def chosen(first: Any, *rest: Any) -> Any:
        tensor = first if isinstance(first, torch.Tensor) else first[0]
        devices: Any = torch.accelerator.current_accelerator()
        kind = tensor.device.type if tensor.device.type != "cpu" else devices and devices.type
        return (ours if kind == "hologram" or theirs is None else theirs)(first, *rest)

    return chosen


def settle() -> None:
    """Has `torch.nn.parallel` take the device."""
    for name, ours in FUNCTIONS.items():
        setattr(torch._C, name, _either(ours, getattr(torch._C, name, None)))
