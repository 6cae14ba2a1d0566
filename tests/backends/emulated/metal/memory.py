"""MTLBuffer: host memory, poisoned, between surroundings that nobody may write to."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np

from tests.backends.emulated.metal.objects import require

POISON = 0xAB
SURROUNDINGS = 32 << 10  # bytes on each side: a tile that goes on past its last rows ends there
UNTRACKED = 256


class VariableList:
    """objc.varlist: memory of a length that only the caller knows."""

    def __init__(self, buffer: Buffer) -> None:
        self._buffer = buffer

    def as_buffer(self, count: int) -> memoryview:
        require(count <= self._buffer.nbytes, f"{count} bytes of a buffer of {self._buffer.nbytes} are read")
        return memoryview((ctypes.c_ubyte * count).from_address(self._buffer.start)).cast("B")


class Buffer:
    """Of `nbytes` bytes, or over the host's pages at an address."""

    def __init__(self, nbytes: int, options: int, pages: Any = None) -> None:
        require(nbytes > 0, "a buffer has at least one byte")
        self.nbytes = nbytes
        self.tracked = not options & UNTRACKED
        self._room = None
        if pages is None:
            room = np.full(nbytes + 2 * SURROUNDINGS + mmap.PAGESIZE, POISON, np.uint8)
            skipped = -room.ctypes.data % mmap.PAGESIZE  # so that the surroundings begin at a page
            self._room = room[skipped : skipped + nbytes + 2 * SURROUNDINGS]
            self.start = self._room.ctypes.data + SURROUNDINGS
        else:
            self.start = ctypes.addressof(pages)
            whole = not self.start % mmap.PAGESIZE and not nbytes % mmap.PAGESIZE
            require(
                whole, f"newBufferWithBytesNoCopy: whole pages are needed, got {nbytes} at {self.start:#x}"
            )
            require(len(pages) >= nbytes, f"newBufferWithBytesNoCopy: {len(pages)} bytes are not {nbytes}")

    def length(self) -> int:
        return self.nbytes

    def contents(self) -> VariableList:
        return VariableList(self)

    def gpuAddress(self) -> int:
        return self.start

    def check_surroundings(self, who: str) -> None:
        if self._room is not None:
            around = (self._room[:SURROUNDINGS], self._room[-SURROUNDINGS:])
            require(all((a == POISON).all() for a in around), f"{who} wrote outside of a buffer")
