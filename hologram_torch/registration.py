"""Makes `hologram` a device of PyTorch's, on its key for other people's devices."""

from __future__ import annotations

from typing import Any

import torch
from torch._C import _acc  # pyright: ignore
from torch._C._autograd import DeviceType  # pyright: ignore
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from hologram_torch import module
from hologram_torch.conversion import keep_parameters


class Hooks(_acc.PrivateUse1Hooks):
    """What PyTorch asks about all devices."""

    def is_available(self) -> bool:
        return True

    def has_primary_context(self, dev_id: int) -> bool:
        return True

    def is_built(self) -> bool:
        return True


class Guard(_acc.DeviceGuard):
    """What PyTorch asks about the current device."""

    def type_(self) -> Any:
        return DeviceType.PrivateUse1


_kept = (Hooks(), Guard())  # PyTorch holds no reference
_setup_privateuseone_for_python_backend("hologram", module.itself(), *_kept)


def storage_on_device(
    self: torch.UntypedStorage, device: Any = None, non_blocking: bool = False
) -> torch.UntypedStorage:
    """A copy of a storage on the device, with a Buffer of bytes: what torch.load asks for."""
    flat = torch.empty(0, dtype=torch.uint8).set_(self.cpu())
    index = module.index_of(device)
    return flat.to(torch.device("hologram", index)).untyped_storage()


def synchronize(device: Any = None, /) -> None:
    """torch.accelerator.synchronize, which asks C++ for streams that Python cannot give."""
    module.synchronize(device)


torch.accelerator.synchronize = synchronize

_to = torch.UntypedStorage.to


def storage_to(self: torch.UntypedStorage, *, device: Any, non_blocking: bool = False) -> Any:
    """UntypedStorage.to, which would write to the address of a storage on the device."""
    if torch.device(device).type == "hologram":
        return storage_on_device(self, device, non_blocking)
    return _to(self, device=device, non_blocking=non_blocking)


torch.UntypedStorage.to = storage_to
torch.UntypedStorage.hologram = storage_on_device  # pyright: ignore[reportAttributeAccessIssue]
torch.UntypedStorage.is_hologram = property(  # pyright: ignore[reportAttributeAccessIssue]
    lambda self: self.device.type == "hologram"
)
keep_parameters()
