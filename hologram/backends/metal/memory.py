"""Memory that the host and the GPU share: Metal buffers of shared storage, and the host's own pages as such."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np

from hologram.backends.metal.queue import Queue
from hologram.foundation.errors import BufferFreed, OutOfMemory
from hologram.machine.limits import ALIGNMENT

# Arrays that share no page with others: macOS's malloc gives whole pages from here on.
LARGE_BYTES = 128 << 10


class Memory:
    """Bytes of a Metal buffer. `nbytes` were asked for, `size` are there; `buffer` is None once it is released."""

    __slots__ = ("__weakref__", "address", "buffer", "nbytes", "owner", "serial", "size", "views")

    def __init__(self, buffer: Any, address: int, nbytes: int, size: int, owner: Any = None):
        self.buffer = buffer
        self.address = address  # on the host, of the first byte
        self.nbytes = nbytes
        self.size = size
        self.owner = owner  # whose bytes these are; None: the buffer's own
        self.serial = 0  # of the last batch that uses it
        self.views: dict[int, tuple[int, int]] = {}  # the first byte and the end of what others see

    @property
    def live(self) -> Any:
        if self.buffer is None:
            raise BufferFreed("metal: the memory was released")
        return self.buffer

    def seen(self, offset: int, nbytes: int) -> bool:
        """Whether others may read and write some of these bytes whenever no call of ours runs."""
        if self.owner is not None:
            return True
        if not self.views:
            return False
        return any(first < offset + nbytes and offset < end for first, end in self.views.copy().values())


class View:
    """Bytes of a memory that others hold a view of, noted with the memory and the queue until the view is gone.

    No lock is taken: a finalizer may run anywhere. To note and to strike out are one step of a dictionary each.
    """

    __slots__ = ("memory", "queue")

    def __init__(self, queue: Queue, memory: Memory, offset: int, nbytes: int) -> None:
        self.queue = queue
        self.memory = memory
        memory.views[id(self)] = offset, offset + nbytes
        queue.views[id(self)] = memory

    def __del__(self) -> None:
        del self.memory.views[id(self)], self.queue.views[id(self)]


class Heap:
    """Allocates memory of one device; callers hold the queue's lock."""

    def __init__(self, queue: Queue, max_buffer_bytes: int) -> None:
        self.queue = queue
        self.max_buffer_bytes = max_buffer_bytes
        metal = queue.framework.metal
        # Of the queue's order takes care its fence.
        self.options = metal.MTLResourceStorageModeShared | metal.MTLResourceHazardTrackingModeUntracked

    def allocate(self, nbytes: int) -> Memory:
        """New memory; raises OutOfMemory."""
        backend, device = self.queue.backend, self.queue.device
        if nbytes > self.max_buffer_bytes:
            raise OutOfMemory(
                f"{backend}: a buffer of {self.queue.name} holds at most {self.max_buffer_bytes} bytes, "
                f"{nbytes} were asked for"
            )
        # Whole alignments: the last vector of a buffer is loaded whole.
        size = max(ALIGNMENT, -(-nbytes // ALIGNMENT) * ALIGNMENT)
        self._require_room(size)
        buffer = device.newBufferWithLength_options_(size, self.options)
        if buffer is None:
            raise OutOfMemory(f"{backend}: {self.queue.name} has no room for a buffer of {size} bytes")
        return Memory(buffer, _address(buffer, size), nbytes, size)

    def _require_room(self, nbytes: int) -> None:
        """Raises OutOfMemory where Metal would go on past its working set, until a batch fails for it."""
        device = self.queue.device
        used, room = int(device.currentAllocatedSize()), int(device.recommendedMaxWorkingSetSize())
        if used + nbytes > room:
            raise OutOfMemory(
                f"{self.queue.backend}: no room for {nbytes} bytes: {used} of the {room} that {self.queue.name} "
                "works on are allocated"
            )

    def adopt(self, data: memoryview) -> Memory | None:
        """The host's own bytes as memory; None where they are not whole pages of their own, or Metal refuses these.

        Raises OutOfMemory: they are of the working set like any others.

        Apple's documents want a region of virtual memory as vm_allocate and mmap give it: not what malloc cuts from
        pages that other objects have a share of. A large array that begins at a page has all of its last one.
        """
        block = np.frombuffer(data, np.uint8)
        address, nbytes = block.ctypes.data, block.size
        length = -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
        if address % mmap.PAGESIZE or nbytes < LARGE_BYTES or length > self.max_buffer_bytes:
            return None
        self._require_room(length)
        pages = (ctypes.c_char * length).from_address(address)
        buffer = self.queue.device.newBufferWithBytesNoCopy_length_options_deallocator_(
            pages, length, self.options, None
        )
        if buffer is None:
            return None
        return Memory(buffer, address, nbytes, nbytes, block)


def view(queue: Queue, memory: Memory, offset: int, nbytes: int) -> memoryview:
    """Bytes of the memory itself, which the view keeps alive."""
    array = (ctypes.c_ubyte * nbytes).from_address(memory.address + offset)
    noted = View(queue, memory, offset, nbytes)
    array.keeps = memory.live, memory.owner, noted  # type: ignore[attr-defined]
    return memoryview(array).cast("B")


def _address(buffer: Any, size: int) -> int:
    return np.frombuffer(buffer.contents().as_buffer(size), np.uint8).ctypes.data
