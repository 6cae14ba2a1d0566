"""What torch.accelerator asks C++, which has no streams, no allocator and one device only of a device in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hologram_torch import module
from hologram_torch.device.streams import current_stream_of


def exchanged(index: int) -> int:
    """Makes another device the current one of this thread; the one before."""
    before = module.current_device()
    if index >= 0:
        module.set_device(index)
    return before


def device_stats(index: int) -> dict[str, Any]:
    """Bytes as PyTorch's own allocators count them, by pool and moment."""
    stats = module.memory_stats(index)
    return {
        "allocated_bytes": {"all": {"current": stats["allocated"], "peak": stats["peak"]}},
        "reserved_bytes": {"all": {"current": stats["reserved"]}},
    }


ANSWERS: dict[str, Callable[..., Any]] = {  # functions of torch._C
    "_accelerator_getDeviceIndex": module.current_device,
    "_accelerator_setDeviceIndex": module.set_device,
    "_accelerator_exchangeDevice": exchanged,
    "_accelerator_maybeExchangeDevice": exchanged,
    "_accelerator_synchronizeDevice": module.synchronize,
    "_accelerator_getDeviceCapability": module.get_device_capability,
    "_accelerator_isAllocatorInitialized": lambda: True,
    "_accelerator_emptyCache": module.empty_cache,
    "_accelerator_emptyHostCache": lambda: None,
    "_accelerator_getDeviceStats": device_stats,
    "_accelerator_resetPeakStats": module.reset_peak_memory_stats,
    "_accelerator_resetAccumulatedStats": lambda index: None,  # nothing is accumulated
    "_accelerator_getMemoryInfo": module.mem_get_info,
    "_accelerator_getStream": current_stream_of,
    "_accelerator_setStream": module.set_stream,
}
