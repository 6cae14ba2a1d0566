"""`torch.hologram`: the device's counterpart of torch.cuda."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from hologram.frontend.executor import Executor
from hologram_torch.devices import devices
from hologram_torch.dtypes import TORCH_DTYPES
from hologram_torch.fallback import Fallback, fallbacks
from hologram_torch.generator import get_rng_state, manual_seed, set_rng_state
from hologram_torch.generator import manual_seed as manual_seed_all
from hologram_torch.watch import unread

__all__ = [
    "Fallback",
    "current_device",
    "device",
    "device_count",
    "empty_cache",
    "executor",
    "fallbacks",
    "get_device_name",
    "get_rng_state",
    "is_available",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_peak_memory_stats",
    "set_backend",
    "set_device",
    "set_rng_state",
    "synchronize",
]


def is_available() -> bool:
    """Whether there is a device: the CPU always is one."""
    return True


_initialized = True  # asked by checkpoints, which then keep the state of random numbers


def is_initialized() -> bool:
    return True


def init() -> None:
    """Nothing is left to do."""


def device_count() -> int:
    """How many devices all backends have together."""
    return len(devices.places)


def current_device() -> int:
    """The number of the device that `torch.device("hologram")` means in this thread."""
    return devices.current


def set_device(device: Any) -> None:
    """Makes a device the current one of this thread."""
    devices.current = index_of(device)


@contextmanager
def device(device: Any) -> Iterator[None]:
    """A context in which a device is the current one."""
    before = devices.current
    devices.current = before if device is None else index_of(device)
    try:
        yield
    finally:
        devices.current = before


def set_backend(backend: str) -> None:
    """Makes a backend's device number 0: 'cpu', 'webgpu', 'metal', 'cuda'.

    Before the first tensor on the device, else RuntimeError; BackendUnavailable with the reason where it is not here.
    """
    devices.choose(backend)


def get_device_name(device: Any = None) -> str:
    """Backend and name of a device, e.g. "webgpu: AMD Radeon 780M"."""
    info = devices.info(index_of(device))
    return f"{info.backend}: {info.name}"


def get_device_properties(device: Any = None) -> Any:
    """hologram's record of a device: backend, name, driver, limits."""
    return devices.info(index_of(device))


def get_device_capability(device: Any = None) -> dict[str, Any]:
    """The dtypes that a device has."""
    return {"supported_dtypes": {TORCH_DTYPES[d] for d in devices.info(index_of(device)).limits.dtypes}}


def executor(device: Any = None) -> Executor:
    """The hg.Executor that computes for a device."""
    return devices.executor(index_of(device))


def index_of(device: Any) -> int:
    """The number that a device, a name or a number stands for; the current one for None."""
    if device is None:
        return devices.current
    if isinstance(device, int):
        return device
    found = torch.device(device)
    if found.type != "hologram":
        raise ValueError(f"torch.hologram: a device of hologram is needed, got {found}")
    return devices.current if found.index is None else found.index


# Order.


def synchronize(device: Any = None) -> None:
    """Waits until everything asked of a device is done."""
    executor = devices.executor(index_of(device))
    executor.synchronize()
    unread.read(executor)


def current_stream(device: Any = None) -> torch.Stream:
    """The only stream: everything runs in order."""
    return torch.Stream(device=torch.device("hologram", index_of(device)))


# Memory.


def memory_stats(device: Any = None) -> dict[str, int]:
    """Bytes allocated, reserved and at most allocated; see Executor.memory_stats."""
    return devices.executor(index_of(device)).memory_stats()


def memory_allocated(device: Any = None) -> int:
    """Bytes that tensors hold."""
    return memory_stats(device)["allocated"]


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that tensors ever held."""
    return memory_stats(device)["peak"]


def reset_peak_memory_stats(device: Any = None) -> None:
    """Has max_memory_allocated begin anew, with what tensors hold now."""
    devices.executor(index_of(device)).reset_peak()


def memory_reserved(device: Any = None) -> int:
    """Bytes held from the device, cached ones included."""
    return memory_stats(device)["reserved"]


def empty_cache() -> None:
    """Hands cached memory of every device back."""
    for opened in devices.opened():
        opened.empty_cache()


# What torch.amp asks for.


def get_amp_supported_dtype() -> list[torch.dtype]:
    return [torch.float16, torch.bfloat16]


def _is_in_bad_fork() -> bool:
    return any(ex is not None and not ex.usable and not ex.closed for ex in devices._executors)


def _lazy_init() -> None:
    pass


def itself() -> types.ModuleType:
    """This module."""
    return sys.modules[__name__]
