"""What torch.accelerator asks C++, which has no streams, no allocator and one device only of a device in Python."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

import torch

import hologram_autoload
from hologram_torch.door import door
from hologram_torch.loading import NAME, is_it, whole
from hologram_torch.reach import expect

# PyTorch's own accelerator makes way for an import of ours: its C++ knows one.
TAKEN = hologram_autoload.theirs()


@cache
def on_gpu() -> bool:
    """Whether a tensor of the device would be on a GPU, or where HOLOGRAM_DEVICE says; opens none."""
    return import_module("hologram_torch.device.devices").devices.on_gpu


def current() -> torch.device | None:
    """The device where it is asked for, is in use, or is a GPU; no machine's CPU is an accelerator unless told."""
    wanted = whole.loaded or TAKEN or hologram_autoload.asked() or on_gpu()
    return torch.device(NAME) if wanted else None


def checked(check: bool = False) -> torch.device:
    """As `current`; the CPU for none, or RuntimeError where that is to be told, in PyTorch's words."""
    found = current()
    if found is None and check:
        raise RuntimeError("Cannot access accelerator device when none is available.")
    return torch.device("cpu") if found is None else found


def is_meant(device: Any) -> bool:
    """Whether streams and events of what is given are the device's: numbers and None mean the accelerator."""
    return current() is not None if device is None or isinstance(device, int) else is_it(device)


def pins(device: Any) -> bool:
    """Whether memory is pinned for the device; RuntimeError in PyTorch's words where there is none to pin it for."""
    return checked(check=True).type == NAME if device is None else is_it(device)


def exchanged(index: int) -> int:
    """Makes another device the current one of this thread; the one before."""
    before = door.current_device()
    if index >= 0:
        door.set_device(index)
    return before


def device_stats(index: int) -> dict[str, Any]:
    """Bytes as PyTorch's own allocators count them, by pool and moment."""
    stats = door.memory_stats(index)
    return {
        "allocated_bytes": {"all": {"current": stats["allocated"], "peak": stats["peak"]}},
        "reserved_bytes": {"all": {"current": stats["reserved"]}},
    }


def _of_module(name: str) -> Callable[..., Any]:
    """A function of torch.hologram where that is the accelerator."""

    def answer(*args: Any) -> Any:
        checked(True)
        return getattr(door, name)(*args)

    return answer


ANSWERS: dict[str, Callable[..., Any]] = {  # functions of torch._C
    "_accelerator_getAccelerator": current,
    "_get_accelerator": checked,
    "_accelerator_getDeviceIndex": _of_module("current_device"),
    "_accelerator_setDeviceIndex": _of_module("set_device"),
    "_accelerator_exchangeDevice": exchanged,
    "_accelerator_maybeExchangeDevice": exchanged,
    "_accelerator_synchronizeDevice": _of_module("synchronize"),
    "_accelerator_getDeviceCapability": _of_module("get_device_capability"),
    "_accelerator_isAllocatorInitialized": lambda: whole.loaded,
    "_accelerator_emptyCache": _of_module("empty_cache"),
    "_accelerator_emptyHostCache": lambda: None,
    "_accelerator_getDeviceStats": device_stats,
    "_accelerator_resetPeakStats": _of_module("reset_peak_memory_stats"),
    "_accelerator_resetAccumulatedStats": lambda index: None,  # nothing is accumulated
    "_accelerator_getMemoryInfo": _of_module("mem_get_info"),
    "_accelerator_getStream": _of_module("current_stream"),
    "_accelerator_setStream": _of_module("set_stream"),
}


def settle() -> None:
    """Has torch.accelerator ask here."""
    expect(hasattr(torch._C, "_accelerator_getAccelerator"), "torch._C has no such function")
    for name, answer in ANSWERS.items():
        setattr(torch._C, name, answer)
