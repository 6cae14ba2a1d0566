"""GPU buffers: allocation, and the ways between host and device.

Where the adapter lets storage buffers be mapped and shares its memory with the host, transfers are one memcpy
into the buffer itself. Elsewhere reads go through one staging buffer that is kept, writes through the queue.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from hologram.backends.webgpu.encoder import Encoder
from hologram.backends.webgpu.native.library import (
    COPY_DST,
    COPY_SRC,
    MAP_MODE_READ,
    MAP_MODE_WRITE,
    MAP_READ,
    MAP_WRITE,
    STORAGE,
)
from hologram.foundation.errors import BufferFreed, OutOfMemory
from hologram.machine.limits import ALIGNMENT

WORD = 4  # what WebGPU's own copies are multiples of
# Transfers through staging memory are cut into pieces of this size, so that staging stays small.
PIECE_BYTES = 32 << 20
FETCHED_BYTES = 1024  # that go through buffers which are kept for it
# More queue writes in flight than this can exhaust wgpu's staging and corrupt early data (tracel-ai/cubecl#1120).
MAX_PENDING_WRITES = 48


class Memory:
    """A GPU buffer. `nbytes` were asked for, `size` are there; `handle` is None once it is released."""

    __slots__ = ("__weakref__", "groups", "handle", "nbytes", "serial", "size")
    _serials = itertools.count()

    def __init__(self, handle: Any, nbytes: int, size: int) -> None:
        self.handle = handle
        self.serial = next(self._serials)  # unlike id(), never used twice
        self.nbytes = nbytes
        self.size = size
        self.groups: set[tuple] = set()  # keys of the cached bind groups that see it

    @property
    def live(self) -> Any:
        if self.handle is None:
            raise BufferFreed("webgpu: the memory was released")
        return self.handle


class Transfers:
    """Allocates buffers of one device and moves bytes in and out; callers hold the encoder's lock."""

    def __init__(self, encoder: Encoder, max_buffer_bytes: int, mappable: bool) -> None:
        self.encoder = encoder
        self.lib, self.ffi = encoder.lib, encoder.ffi
        self.max_buffer_bytes = max_buffer_bytes
        self.mappable = mappable
        self.usage = STORAGE | COPY_SRC | COPY_DST | (MAP_READ | MAP_WRITE if mappable else 0)
        self.staging: Any = None
        self.staging_size = 0
        self.piece_bytes = PIECE_BYTES
        self.fetched: list[Any] = []  # buffers that a few bytes at a time were fetched to

    def allocate(self, nbytes: int) -> Memory:
        # Whole alignments, so that any copy can be whole words.
        size = max(ALIGNMENT, -(-nbytes // ALIGNMENT) * ALIGNMENT)
        if nbytes > self.max_buffer_bytes:
            name = self.encoder.device.adapter.name
            raise OutOfMemory(
                f"webgpu: a buffer of {name} holds at most {self.max_buffer_bytes} bytes, {nbytes} were asked for"
            )
        memory = Memory(self._create(size, self.usage), nbytes, size)
        # WebGPU clears what was never written when it is first bound, and does not see where offsets lead: all at once.
        self.lib.wgpuCommandEncoderClearBuffer(self.encoder.copies(), memory.handle, 0, size)
        return memory

    def release(self, memory: Memory) -> None:
        handle, memory.handle = memory.handle, None
        if handle is not None:
            self.lib.wgpuBufferDestroy(handle)  # now: bind groups that see it may live on

    def write(self, memory: Memory, offset: int, data: memoryview) -> None:
        """Copies bytes in; without mapping, `offset` and the length must be multiples of 4."""
        self.encoder.flush()
        # While the GPU works, the queue takes the bytes without a wait; a copy more than mapping, and whole words only.
        if self.mappable and ((offset | len(data)) % WORD or self.encoder.idle()):
            self._write_mapped(memory, offset, data)
        else:
            self._write_queued(memory, offset, data)

    def read(self, memory: Memory, offset: int, out: memoryview) -> None:
        """Waits for all launches, then copies bytes out; any offset and length."""
        target = self.ffi.from_buffer(out, require_writable=True)
        for start, size in _pieces(offset, len(out), None if self.mappable else self.piece_bytes):
            first, last = start // 8 * 8, -(-(start + size) // 4) * 4
            if self.mappable:
                self.encoder.flush()
                buffer, base = memory.live, first
            else:
                buffer, base = self._stage(memory.live, first, last - first), 0
            with self.encoder.mapped(buffer, MAP_MODE_READ, base, last - first) as address:
                at = self.ffi.cast("char *", address) + (start - first)
                self.ffi.memmove(target + (start - offset), at, size)
        self.encoder.check()

    def fetch(self, memory: Memory, offset: int, nbytes: int) -> Callable[[], bytes]:
        """Copies at most FETCHED_BYTES to a buffer of their own; see hologram.machine.device.Device."""
        first, last = offset // WORD * WORD, -(-(offset + nbytes) // WORD) * WORD
        size = last - first
        apart = self.fetched.pop() if self.fetched else None
        apart = apart or self._create(FETCHED_BYTES + ALIGNMENT, MAP_READ | COPY_DST)
        commands = self.encoder.copies()
        self.lib.wgpuCommandEncoderCopyBufferToBuffer(commands, memory.live, first, apart, 0, size)
        self.encoder.flush()

        def landing() -> bytes:
            with self.encoder.mapped(apart, MAP_MODE_READ, 0, size, alone=True) as address:
                data = bytes(self.ffi.buffer(self.ffi.cast("char *", address) + (offset - first), nbytes))
            self.encoder.check()
            self.fetched.append(apart)
            return data

        return landing

    def close(self) -> None:
        self.staging = None
        self.fetched.clear()

    def _create(self, size: int, usage: int) -> Any:
        descriptor = self.ffi.new("WGPUBufferDescriptor *")
        descriptor.size = size
        descriptor.usage = usage
        handle = self.lib.wgpuDeviceCreateBuffer(self.encoder.device.handle, descriptor)
        handle = self.encoder.owned(handle, self.lib.wgpuBufferRelease)
        try:
            self.encoder.check()
        except OutOfMemory as error:
            raise OutOfMemory(f"webgpu: no room for a buffer of {size} bytes: {error}") from error
        return handle

    def _write_mapped(self, memory: Memory, offset: int, data: memoryview) -> None:
        first, last = offset // 8 * 8, -(-(offset + len(data)) // 4) * 4
        with self.encoder.mapped(memory.live, MAP_MODE_WRITE, first, last - first) as address:
            at = self.ffi.cast("char *", address) + (offset - first)
            self.ffi.memmove(at, self.ffi.from_buffer(data), len(data))
        self.encoder.check()

    def _write_queued(self, memory: Memory, offset: int, data: memoryview) -> None:
        queue = self.encoder.device.queue
        source = self.ffi.from_buffer(data)
        for start, size in _pieces(offset, len(data), self.piece_bytes):
            if self.encoder.writes >= MAX_PENDING_WRITES:
                self.encoder.wait()
            self.lib.wgpuQueueWriteBuffer(queue, memory.live, start, source + (start - offset), size)
            self.encoder.writes += 1
            self.encoder.unsubmitted = True
        self.encoder.check()

    def _stage(self, source: Any, offset: int, size: int) -> Any:
        """The staging buffer, with a copy of the range on its way into it."""
        if self.staging_size < size:
            self.staging = None
            self.staging_size = min(self.piece_bytes + ALIGNMENT, max(1 << 16, 1 << (size - 1).bit_length()))
            self.staging = self._create(self.staging_size, MAP_READ | COPY_DST)
        commands = self.encoder.copies()
        self.lib.wgpuCommandEncoderCopyBufferToBuffer(commands, source, offset, self.staging, 0, size)
        self.encoder.flush()
        return self.staging


def _pieces(offset: int, nbytes: int, most: int | None) -> Iterator[tuple[int, int]]:
    """Starts and sizes that cover a range; every inner start is a multiple of 8 away from `offset`."""
    step = most or max(nbytes, 1)
    for start in range(0, nbytes, step):
        yield offset + start, min(step, nbytes - start)
