"""`torch.hologram.memory`: what memory of a device is held, as torch.cuda.memory tells it, and as a profile sees it.

PyTorch's profiler is told of memory by allocators in C++. While one with `profile_memory=True` runs, it is told at each
launch how much more, or less, a device's tensors hold than at the launch before: what an operator allocates is its own,
and what was freed in between too.
"""

from __future__ import annotations

import ctypes
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch._C._autograd import DeviceType  # pyright: ignore

from hologram.frontend.executor import Executor
from hologram.machine.kernel import Launch
from hologram.runtime.launches.observer import Subject
from hologram.runtime.memory.blocks import Block
from hologram_torch.device.devices import devices
from hologram_torch.reach import expect, reach

__all__ = ["Growth", "dump_snapshot", "snapshot"]

_kind: Any = DeviceType.PrivateUse1
# c10::reportMemoryUsageToProfiler(address, bytes, bytes allocated, bytes reserved, device), where names are GCC's.
REPORT = "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"


def _report() -> Any:
    expect(sys.platform == "linux", f"the name is GCC's, and this is {sys.platform}")
    found = ctypes.CDLL(str(Path(torch.__file__).parent / "lib/libc10.so"))[REPORT]
    found.argtypes = ctypes.c_void_p, ctypes.c_int64, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_uint16
    found.restype = None
    return found


class Growth:
    """Watches the launches of a device, and tells PyTorch's profiler how its memory changes; see Observer."""

    report = staticmethod(
        reach("memory-reports", f"{REPORT} of libc10.so", "profiles tell nothing of memory", _report, None)
    )

    def __init__(self, executor: Executor, index: int) -> None:
        self._executor = executor
        self._device = int(_kind) | index << 8  # c10::Device, two bytes
        self._allocated = executor.memory_stats()["allocated"]

    def begin(self) -> None:
        self._executor.bound.watch(self)

    def end(self) -> None:
        self._executor.bound.unwatch(self)
        self.tell()

    def observed(self, subject: Subject, launch: Launch) -> Launch:
        def run() -> None:
            self.tell()
            launch()

        return run

    def tell(self) -> None:
        """Reports what changed since the last time."""
        stats = self._executor.memory_stats()
        grown = stats["allocated"] - self._allocated
        self._allocated = stats["allocated"]
        if grown and self.report is not None:
            self.report(None, grown, stats["allocated"], stats["reserved"], self._device)


def snapshot(device: Any = None) -> dict[str, list[Any]]:
    """The memory that devices, or one, gave and the blocks it is cut into, in the form of torch.cuda.memory._snapshot.

    A segment is memory that a device gave at once. Its `address` and those of its `blocks` are places, which are no
    addresses on most GPUs; sizes are bytes, and one block holds all small tensors. Nothing records what was allocated
    before: `device_traces` are empty.
    """
    chosen = (
        [devices.index_of(device)] if device is not None else sorted(map(devices.number, devices.opened()))
    )
    segments = [segment for index in chosen for segment in _segments(index)]
    return {"segments": segments, "device_traces": [[] for _ in range(devices.count)]}


def _segments(index: int) -> Iterator[dict[str, Any]]:
    """What a device gave, in the order of places; it stays while blocks are read."""
    cut: dict[int, list[tuple[Block, bool]]] = {}
    for block, held in devices.executor(index).pool.blocks():
        cut.setdefault(id(block.chunk), []).append((block, held))
    for blocks in sorted(cut.values(), key=lambda blocks: blocks[0][0].chunk.place):
        chunk = blocks[0][0].chunk
        held = sum(block.nbytes for block, is_held in blocks if is_held)
        yield {
            "device": index, "address": chunk.place, "total_size": chunk.nbytes,
            "allocated_size": held, "active_size": held, "requested_size": held,
            "stream": 0, "segment_type": "large" if len(blocks) == 1 else "small",
            "segment_pool_id": (0, 0), "is_expandable": False, "frames": [],
            "blocks": [_told(block, is_held) for block, is_held in sorted(blocks, key=lambda each: each[0].place)],
        }  # fmt: skip


def _told(block: Block, held: bool) -> dict[str, Any]:
    state = "active_allocated" if held else "inactive"
    size = block.nbytes
    return {"address": block.place, "size": size, "requested_size": size, "state": state, "frames": []}


def dump_snapshot(filename: str = "dump_snapshot.pickle") -> None:
    """Writes a snapshot to a file, for pytorch.org's viewer of memory."""
    with open(filename, "wb") as file:
        pickle.dump(snapshot(), file)


_snapshot, _dump_snapshot = snapshot, dump_snapshot  # by torch.cuda.memory's names
