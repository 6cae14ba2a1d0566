"""DLPack: to other libraries a tensor of the device is memory of the host, or of CUDA, as hologram's own tensors are.

PyTorch gives capsules that say "another kind of device", which nobody takes. So `np.from_dlpack`, `hg.from_dlpack` and
`torch.from_dlpack` share the memory of a device that computes in the host's, and get one copy on the host of others.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from hologram_torch.tensors.memory import hologram_tensor

_export = torch.Tensor.__dlpack__
_device = torch.Tensor.__dlpack_device__


@functools.wraps(_export)
def exported(
    self: torch.Tensor,
    *,
    stream: Any = -1,
    max_version: tuple[int, int] | None = None,
    dl_device: Any = None,
    copy: bool | None = None,
) -> Any:
    """A capsule; BufferError for a tensor that requires gradients, as PyTorch's."""
    if self.device.type != "hologram" or self.requires_grad:  # PyTorch words the refusal
        return _export(self, stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)
    own = hologram_tensor(self)
    return own.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)


@functools.wraps(_device)
def device_of(self: torch.Tensor) -> Any:
    """DLPack's type and number of where the memory is."""
    return hologram_tensor(self).__dlpack_device__() if self.device.type == "hologram" else _device(self)


def settle() -> None:
    """Has tensors answer so."""
    changed: Any = torch.Tensor
    changed.__dlpack__ = exported
    changed.__dlpack_device__ = device_of
