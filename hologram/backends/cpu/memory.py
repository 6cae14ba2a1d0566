"""Host memory: blocks aligned for vectors, and big ones to huge pages, which NumPy asks the system for."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np

from hologram.foundation.errors import OutOfMemory
from hologram.foundation.frozen import frozen

ALIGNMENT = 64
WEIGHED = 1 << 20  # bytes from which on a block is asked for only where there is room for it
SPARED = 64 << 20  # bytes of the host's memory that are left to others
HUGE = 2 << 20  # bytes; from twice this on, a block starts at a huge page's border


@frozen(slots=True, eq=False)
class Memory:
    """A block of bytes."""

    bytes: np.ndarray  # uint8
    address: int
    nbytes: int


def room() -> int | None:
    """Bytes that the host has free, swap included, and the process's group may take; None where Linux does not say.

    The system gives more than it has and ends who uses it: so it is asked before.
    """
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            known = dict(line.split(":", 1) for line in file)
        free = sum(int(known[name].split()[0]) << 10 for name in ("MemAvailable", "SwapFree"))
    except (OSError, KeyError, ValueError):
        return None
    group = _group_room()
    return free if group is None else min(free, group)


def _group_room() -> int | None:
    """Bytes left to the control group, of which files' caches can be had back; None where it has no bound."""
    for folder, bound, used in (
        ("/sys/fs/cgroup", "memory.max", "memory.current"),
        ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
    ):
        try:
            most, taken = (Path(folder, name).read_text().strip() for name in (bound, used))
            entries = dict(line.split() for line in Path(folder, "memory.stat").read_text().splitlines())
            return int(most) - int(taken) + int(entries.get("inactive_file", 0))
        except (OSError, ValueError):  # no such group, or "max"
            continue
    return None


def allocate(nbytes: int) -> Memory:
    """At least `nbytes` bytes, contents undefined; raises OutOfMemory."""
    if nbytes >= WEIGHED:
        free = room()
        if free is not None and nbytes + SPARED > free:
            raise OutOfMemory(f"cpu: no room for {nbytes:,} bytes: the host has {max(free, 0):,} left")
    # No block is empty: a load that misses its buffer reads the first element instead (lane.py).
    size = max(nbytes, ALIGNMENT)
    alignment = HUGE if size >= 2 * HUGE else ALIGNMENT
    try:
        raw = np.empty(size + alignment, np.uint8)
    except (MemoryError, ValueError) as error:
        raise OutOfMemory(f"cpu: no room for {nbytes:,} bytes") from error
    start = -raw.ctypes.data % alignment
    block = raw[start : start + size]
    return Memory(block, block.ctypes.data, nbytes)


def borrowed(address: int, nbytes: int) -> Memory:
    """Memory that somebody else keeps, for as long as a launch runs."""
    size = max(nbytes, 1)
    return Memory(np.frombuffer((ctypes.c_uint8 * size).from_address(address), np.uint8), address, size)
