"""A device of NumPy memory, hidden or open to the host, and an executor of buffers on it."""

from __future__ import annotations

from typing import Any

import numpy as np

from hologram.atlas.program import Launchable
from hologram.foundation import dtypes
from hologram.foundation.errors import OutOfMemory, UnsupportedDType
from hologram.machine.device import Device, DeviceInfo
from hologram.machine.kernel import Kernel
from hologram.machine.limits import Limits
from hologram.runtime.engine import Engine


def limits(**changes: Any) -> Limits:
    values: dict[str, Any] = {
        "dtypes": frozenset(dtypes.ALL),
        "max_buffer_bytes": 1 << 32,
        "max_binding_bytes": 1 << 32,
        "max_bindings": 64,
        "max_workgroups": 65535,
        "max_workgroup_threads": 1024,
        "shared_bytes": 1 << 15,
        "subgroup": 1,
        "unified_memory": True,
        "parallelism": 1,
        "software": True,
    }
    return Limits(**(values | changes))


class MemoryDevice(Device):
    """Memory is arrays of bytes. `visible`: the host addresses them; `resident`: and views may be kept."""

    def __init__(self, visible: bool = True, resident: bool = True, room: int = 1 << 30) -> None:
        own = limits(host_resident=resident and visible, unified_memory=visible)
        self.info = DeviceInfo("memory", 0, "memory", "numpy", own)
        self.visible = visible
        self.room = room
        self.live: dict[int, int] = {}  # id of memory: bytes
        self.copies = 0
        self.synchronized = 0

    def allocate(self, nbytes: int) -> np.ndarray:
        if sum(self.live.values()) + nbytes > self.room:
            raise OutOfMemory(f"memory: {nbytes} bytes are too many")
        memory = np.empty(nbytes, np.uint8)
        self.live[id(memory)] = nbytes
        return memory

    def release(self, memory: np.ndarray) -> None:
        del self.live[id(memory)]

    def write(self, memory: np.ndarray, offset: int, data: memoryview) -> None:
        self.copies += 1
        memory[offset : offset + data.nbytes] = np.frombuffer(data, np.uint8)

    def read(self, memory: np.ndarray, offset: int, out: memoryview) -> None:
        self.copies += 1
        np.frombuffer(out, np.uint8)[:] = memory[offset : offset + out.nbytes]

    def copy(self, source: Any, source_offset: int, target: Any, target_offset: int, nbytes: int) -> None:
        target[target_offset : target_offset + nbytes] = source[source_offset : source_offset + nbytes]

    def fill(self, memory: np.ndarray, offset: int, nbytes: int, pattern: bytes) -> None:
        memory[offset : offset + nbytes] = np.frombuffer(pattern * (nbytes // len(pattern)), np.uint8)

    def host_view(self, memory: np.ndarray, offset: int, nbytes: int) -> memoryview | None:
        return memory[offset : offset + nbytes].data if self.visible else None

    def compile(self, kernel: Launchable) -> Kernel:
        raise UnsupportedDType("memory: this device holds memory only")

    def give_up(self, kernel: Launchable) -> None:
        pass

    def source(self, kernel: Launchable, grid: Any, scalars: Any = ()) -> str:
        raise UnsupportedDType("memory: this device holds memory only")

    def synchronize(self) -> None:
        self.synchronized += 1


class AdoptingDevice(MemoryDevice):
    """A device that computes on the host's memory as it is."""

    def adopt(self, data: memoryview) -> np.ndarray:
        memory = np.frombuffer(data, np.uint8)
        self.live[id(memory)] = memory.nbytes
        return memory


class MemoryExecutor(Engine):
    """An executor on any device."""

    device: Any

    def __init__(self, device: Any = None) -> None:
        device = device or MemoryDevice()
        super().__init__(device)
