"""`torch.hologram`: the device's counterpart of torch.cuda."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch

from hologram.frontend.executor import Executor
from hologram_torch import amp
from hologram_torch.device import memory
from hologram_torch.device.devices import devices
from hologram_torch.device.generator import (
    defaults,
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from hologram_torch.device.streams import (
    Stream,
    current_stream,
    default_stream,
    set_stream,
    stream,
    synchronize,
)
from hologram_torch.device.streams import TimedEvent as Event
from hologram_torch.fallback import Fallback, fallbacks, reset_fallbacks
from hologram_torch.tensors.dtypes import TORCH_DTYPES

__all__ = [
    "Event",
    "Fallback",
    "Stream",
    "amp",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "empty_cache",
    "executor",
    "fallbacks",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "is_available",
    "is_bf16_supported",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "mem_get_info",
    "memory",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "reset_fallbacks",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_backend",
    "set_device",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
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
    """How many devices the backend has that is number 0's; numbers of other backends' come after these."""
    return devices.count


def __getattr__(name: str) -> Any:
    if name == "default_generators":  # asks which devices there are
        return tuple(defaults[index] for index in range(device_count()))
    raise AttributeError(f"torch.hologram has no {name}")


def current_device() -> int:
    """The number of the device that `torch.device("hologram")` means in this thread."""
    return devices.current


def set_device(device: Any) -> None:
    """Makes a device the current one of this thread."""
    devices.current = devices.index_of(device)


@contextmanager
def device(device: Any) -> Iterator[None]:
    """A context in which a device is the current one."""
    before = devices.current
    devices.current = devices.index_of(device)
    try:
        yield
    finally:
        devices.current = before


def device_of(tensor: torch.Tensor) -> AbstractContextManager[None]:
    """A context in which a tensor's device is the current one; nothing for tensors of other devices."""
    return device(tensor.device if tensor.device.type == "hologram" else None)


def set_backend(backend: str) -> None:
    """Makes a backend's device number 0: 'cpu', 'webgpu', 'metal', 'cuda'.

    Before the first tensor on the device, else RuntimeError; BackendUnavailable with the reason where it is not here.
    """
    devices.choose(backend)


def get_device_name(device: Any = None) -> str:
    """Backend and name of a device, e.g. "webgpu: AMD Radeon 780M"."""
    info = devices.info(devices.index_of(device))
    return f"{info.backend}: {info.name}"


def get_device_properties(device: Any = None) -> Any:
    """hologram's record of a device: backend, name, driver, limits."""
    return devices.info(devices.index_of(device))


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether the current device computes with bfloat16: every device does, some by packing it."""
    return torch.bfloat16 in get_device_capability()["supported_dtypes"]


def get_device_capability(device: Any = None) -> dict[str, Any]:
    """The dtypes that a device has."""
    return {
        "supported_dtypes": {TORCH_DTYPES[d] for d in devices.info(devices.index_of(device)).limits.dtypes}
    }


def executor(device: Any = None) -> Executor:
    """The hg.Executor that computes for a device."""
    return devices.executor(devices.index_of(device))


# Memory.


def memory_stats(device: Any = None) -> dict[str, int]:
    """Bytes allocated, reserved and at most allocated, see Executor.memory_stats; also by torch.cuda's names."""
    stats = devices.executor(devices.index_of(device)).memory_stats()
    return stats | {
        "allocated_bytes.all.current": stats["allocated"],
        "allocated_bytes.all.peak": stats["peak"],
        "reserved_bytes.all.current": stats["reserved"],
    }


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """What memory_stats says, in lines."""
    stats = memory_stats(device)
    titles = {"allocated": "held by tensors", "peak": "held at most", "reserved": "held from the device"}
    lines = (f"{title:<21}{stats[key] / 2**20:12,.2f} MiB" for key, title in titles.items())
    return "\n".join((f"memory of {get_device_name(device)}", *lines))


def memory_allocated(device: Any = None) -> int:
    """Bytes that tensors hold."""
    return memory_stats(device)["allocated"]


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that tensors ever held."""
    return memory_stats(device)["peak"]


def reset_peak_memory_stats(device: Any = None) -> None:
    """Has max_memory_allocated begin anew, with what tensors hold now."""
    devices.executor(devices.index_of(device)).reset_peak()


def memory_reserved(device: Any = None) -> int:
    """Bytes held from the device, cached ones included."""
    return memory_stats(device)["reserved"]


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Bytes free and in all, of a device that computes in the host's memory; no backend says it of others."""
    index = devices.index_of(device)
    if not devices.info(index).limits.host_resident or "SC_AVPHYS_PAGES" not in os.sysconf_names:
        raise NotImplementedError(
            f"hologram: no backend says how much memory a device has, got {get_device_name(index)}"
        )
    page = os.sysconf("SC_PAGE_SIZE")
    return os.sysconf("SC_AVPHYS_PAGES") * page, os.sysconf("SC_PHYS_PAGES") * page


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
