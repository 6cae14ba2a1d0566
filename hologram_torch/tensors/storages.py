"""Storages on the device: made, copied and resized over Buffers, where PyTorch asks for an allocator in C++."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from hologram.foundation import dtypes
from hologram_torch.device.devices import devices

Storage = torch.UntypedStorage
_new: Any = Storage.__new__
_to = Storage.to


def _is_ours(device: Any) -> bool:
    return device is not None and torch.device(device).type == "hologram"


def new(cls: type, *args: Any, device: Any = None, **kwargs: Any) -> Any:
    """UntypedStorage(bytes, device=...): PyTorch's constructor calls the allocator that the device has not."""
    if not _is_ours(device):
        return _new(cls, *args, **({} if device is None else {"device": device}), **kwargs)
    given = args[0] if args else kwargs.get("size", 0)
    if isinstance(given, int):
        data = torch.empty(given, dtype=torch.uint8, device=_place(device))
    else:
        data = torch.tensor(list(given), dtype=torch.uint8).to(_place(device))
    return data.untyped_storage()


def _place(device: Any) -> torch.device:
    return torch.device("hologram", devices.index_of(device))


def copied(
    self: torch.UntypedStorage, device: Any = None, non_blocking: bool = False
) -> torch.UntypedStorage:
    """A copy of a storage on the device, with a Buffer of bytes: what torch.load asks for."""
    flat = torch.empty(0, dtype=torch.uint8).set_(self.cpu())
    return flat.to(_place(device)).untyped_storage()


def moved(self: torch.UntypedStorage, *, device: Any, non_blocking: bool = False) -> Any:
    """UntypedStorage.to, which would write to the address of a storage on the device."""
    if _is_ours(device):
        return copied(self, device, non_blocking)
    return _to(self, device=device, non_blocking=non_blocking)


def refused(name: str) -> Callable[..., Any]:
    """A method that works on the elements in place, through an address: NotImplementedError on the device."""
    own = getattr(Storage, name)

    def method(self: torch.UntypedStorage, *args: Any, **kwargs: Any) -> Any:
        if self.device.type == "hologram":
            raise NotImplementedError(
                f"hologram: storages on the device cannot {name}; copy to the CPU first"
            )
        return own(self, *args, **kwargs)

    return method


_size = Storage.nbytes
_resize = Storage.resize_


def nbytes(self: torch.UntypedStorage) -> int:
    """Bytes of a storage; none where it was resized to 0, which C++ cannot be told."""
    return _size(self) if self.device.type != "hologram" or hasattr(self, "payload") else 0


def resized(self: torch.UntypedStorage, size: int) -> torch.UntypedStorage:
    """Frees the memory of a storage on the device, and gives it new memory of the size it had, undefined.

    So FullyShardedDataParallel keeps gathered parameters for as long as it needs them.
    """
    if self.device.type != "hologram":
        return _resize(self, size)
    if size not in (0, _size(self)):
        raise NotImplementedError(
            f"hologram: a storage on the device is resized to 0 bytes, or back to {_size(self)}, got {size}"
        )
    own: Any = self
    if not size and hasattr(self, "payload"):
        del own.payload
    elif size and not hasattr(self, "payload"):
        own.payload = devices.executor(self.device.index or 0).empty((size,), dtypes.u8).buffer
    return self


def settle() -> None:
    """Has PyTorch's storages work on the device."""
    changed: Any = Storage
    changed.__new__ = new
    changed.to = moved
    changed.hologram = copied
    changed.is_hologram = property(lambda self: self.device.type == "hologram")
    changed.byteswap = refused("byteswap")
    changed.nbytes = changed.size = nbytes
    changed.resize_ = resized
