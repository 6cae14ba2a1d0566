"""Tensors from the host to a device and back, over one memory where both can address it; and between two devices."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree

from hologram.foundation.errors import InteropError
from hologram.frontend.tensor import Tensor
from hologram_torch.device.devices import devices
from hologram_torch.tensors.dtypes import host_tensor
from hologram_torch.tensors.memory import hologram_tensor, is_ours, torch_tensor


def shared(x: torch.Tensor, device: torch.device) -> torch.Tensor:
    """The tensor on a device: over the same memory where that can be, else a copy. Not differentiable."""
    if x.device == device:
        return x
    if device.type == "hologram" and x.device.type == "cpu":
        executor = devices.executor(device.index or 0)
        if executor.limits.host_resident and x.numel():
            try:
                return torch_tensor(executor.from_dlpack(x.detach(), copy=False))
            except InteropError:  # memory that the executor cannot take as it lies
                pass
    elif device.type == "cpu" and is_ours(x):
        own = hologram_tensor(x)
        if own.executor.limits.host_resident and x.numel():
            own.executor.synchronize()
            return host_tensor(own.to_numpy(copy=False))
    return x.detach().to(device)


def across(source: Tensor, target: Tensor) -> None:
    """Copies from one of our devices to another, past the host where one driver has both."""
    whole = all(x.layout.is_contiguous and x.layout.size == x.buffer.size for x in (source, target))
    kinds = {x.dtype for x in (source, target, source.buffer, target.buffer)}
    if whole and source.shape == target.shape and len(kinds) == 1:
        target.buffer.copy_from(source.buffer)
    else:
        target.executor.copy(source.to_device(target.executor), target)


class Moved(torch.autograd.Function):
    """`shared`, whose derivative takes cotangents back."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, device: torch.device) -> torch.Tensor:
        ctx.origin = x.device
        return shared(x, device)

    @staticmethod
    def backward(ctx: Any, *cotangents: torch.Tensor) -> Any:
        return Moved.apply(cotangents[0], ctx.origin), None


def moved(x: torch.Tensor, device: torch.device) -> torch.Tensor:
    """The tensor on a device, itself where it is there."""
    if x.device == device:
        return x
    return Moved.apply(x, device)  # pyright: ignore[reportReturnType]


def computed_on(device: torch.device, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a function gives for tensors moved to a device; its tensors come back to where the first argument was."""
    leaves = pytree.tree_leaves((args, kwargs))
    tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
    home = tensors[0].device if tensors else device
    there = pytree.tree_map_only(torch.Tensor, lambda x: moved(x, device), (args, kwargs))
    results = function(*there[0], **there[1])
    return pytree.tree_map_only(torch.Tensor, lambda x: moved(x, home), results)
