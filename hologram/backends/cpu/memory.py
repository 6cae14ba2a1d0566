"""Host memory: blocks aligned for vectors, and big ones to huge pages, which NumPy asks the system for."""

from __future__ import annotations

import ctypes

import numpy as np

from hologram.foundation.errors import OutOfMemory
from hologram.foundation.frozen import frozen

ALIGNMENT = 64
HUGE = 2 << 20  # bytes; from twice this on, a block starts at a huge page's border


@frozen(slots=True, eq=False)
class Memory:
    """A block of bytes."""

    bytes: np.ndarray  # uint8
    address: int
    nbytes: int


def allocate(nbytes: int) -> Memory:
    """At least `nbytes` bytes, contents undefined; raises OutOfMemory."""
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
