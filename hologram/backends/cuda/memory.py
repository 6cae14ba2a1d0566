"""Device memory, ordered by the stream, and the ways between it and the host through pinned memory.

Memory comes from a pool of our own, which keeps nothing: what is worth keeping the runtime's pool above keeps, and
what that gives back is meant to go. Transfers pass through a few pieces of pinned memory, so that the host fills one
while the device empties another, and a write returns before the device has it.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from hologram.backends.cuda.context import Context, Owned
from hologram.errors import BufferFreed, OutOfMemory
from hologram.limits import ALIGNMENT

PIECE_BYTES = 8 << 20  # of pinned memory; a guess: to be measured on a card
PIECES = 3
SMALL_BYTES = 64 << 10  # the first piece's size, which small programs are content with
WORD = 4


class Memory:
    """Device memory. `nbytes` were asked for, `size` are there; `pointer` is None once it is released.

    `loan` is what memory of another library is held by.
    """

    __slots__ = ("__weakref__", "loan", "nbytes", "pointer", "size")

    def __init__(self, pointer: int, nbytes: int, size: int, loan: Owned | None = None) -> None:
        self.pointer: int | None = pointer
        self.loan = loan
        self.nbytes = nbytes
        self.size = size

    @property
    def address(self) -> int:
        if self.pointer is None:
            raise BufferFreed("cuda: the memory was released")
        return self.pointer


@dataclass
class Piece:
    """Pinned host memory, and the event behind the last copy that used it."""

    address: int
    size: int
    event: Any


class Transfers:
    """Allocates memory of one device and moves bytes; callers hold the context's lock."""

    def __init__(self, context: Context, max_buffer_bytes: int) -> None:
        self.context = context
        self.driver = driver = context.driver
        self.max_buffer_bytes = max_buffer_bytes
        properties = driver.CUmemPoolProps()
        properties.allocType = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        properties.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        properties.location.id = int(context.device)
        self.pool = context.call(driver.cuMemPoolCreate, properties)
        context.own(driver.cuMemPoolDestroy, self.pool)
        self._pieces: list[Piece] = []
        self._turn = itertools.count()
        self._loans = itertools.count()
        self._lenders: dict[int, Any] = {}

    def allocate(self, nbytes: int) -> Memory:
        if nbytes > self.max_buffer_bytes:
            raise OutOfMemory(
                f"cuda: {self.context.name} has {self.max_buffer_bytes} bytes, {nbytes} were asked for"
            )
        # Whole alignments: the last vector of a buffer is loaded whole.
        size = max(ALIGNMENT, -(-nbytes // ALIGNMENT) * ALIGNMENT)
        driver, stream = self.driver, self.context.stream
        pointer = int(self.context.call(driver.cuMemAllocFromPoolAsync, size, self.pool, stream))
        self.context.own(driver.cuMemFreeAsync, pointer, stream)
        return Memory(pointer, nbytes, size)

    def adopt(self, address: int, nbytes: int, owner: Any) -> Memory:
        """Memory that another library lends; `size` is rounded, as a vector that begins in it is on no other page."""
        number = next(self._loans)
        self._lenders[number] = owner
        size = -(-nbytes // ALIGNMENT) * ALIGNMENT
        return Memory(address, nbytes, size, self.context.own(self._give_back, number))

    def _give_back(self, number: int) -> tuple[int]:
        """The lender may use its memory again; as a function of the driver's it answers a status."""
        del self._lenders[number]
        return (0,)

    def release(self, memory: Memory) -> None:
        """Frees the memory behind all that was enqueued."""
        pointer, memory.pointer = memory.pointer, None
        if memory.loan is not None:
            if pointer is not None:
                self.context.let_go(memory.loan)
        elif pointer is not None:
            self.context.give_back((self.driver.cuMemFreeAsync.__name__, pointer))

    def write(self, memory: Memory, offset: int, data: memoryview) -> None:
        """Copies bytes in; returns when `data` may change, which the device may not have yet."""
        origin = _address(data)
        call, driver, stream = self.context.call, self.driver, self.context.stream
        for start, size in _pieces(len(data)):
            piece = self._piece(size)
            ctypes.memmove(piece.address, origin + start, size)
            call(driver.cuMemcpyHtoDAsync, memory.address + offset + start, piece.address, size, stream)
            call(driver.cuEventRecord, piece.event, stream)

    def read(self, memory: Memory, offset: int, out: memoryview) -> None:
        """Waits for all that was enqueued and copies bytes out; one piece is filled while another is emptied."""
        target = _address(out)
        call, driver, stream = self.context.call, self.driver, self.context.stream
        under_way: list[tuple[Piece, int, int]] = []
        for start, size in _pieces(len(out)):
            if len(under_way) == PIECES - 1:
                self._land(*under_way.pop(0), target)
            piece = self._piece(size)
            call(driver.cuMemcpyDtoHAsync, piece.address, memory.address + offset + start, size, stream)
            call(driver.cuEventRecord, piece.event, stream)
            under_way.append((piece, start, size))
        for landing in under_way:
            self._land(*landing, target)

    def _land(self, piece: Piece, start: int, size: int, target: int) -> None:
        self.context.call(self.driver.cuEventSynchronize, piece.event)
        ctypes.memmove(target + start, piece.address, size)

    def copy(
        self, source: Memory, source_offset: int, target: Memory, target_offset: int, nbytes: int
    ) -> None:
        """Copies within the device; ranges of one memory may overlap."""
        if source is target and abs(source_offset - target_offset) < nbytes:
            between = self.allocate(nbytes)
            self.copy(source, source_offset, between, 0, nbytes)
            self.copy(between, 0, target, target_offset, nbytes)
            self.release(between)
            return
        first, last = source.address + source_offset, target.address + target_offset
        self.context.call(self.driver.cuMemcpyDtoDAsync, last, first, nbytes, self.context.stream)

    def fill(self, memory: Memory, offset: int, nbytes: int, pattern: bytes) -> None:
        """Repeats 1, 2, 4 or 8 bytes, from a multiple of as many on."""
        call, driver, stream = self.context.call, self.driver, self.context.stream
        while len(pattern) > 1 and pattern[: len(pattern) // 2] * 2 == pattern:
            pattern = pattern[: len(pattern) // 2]
        address, count = memory.address + offset, nbytes // len(pattern)
        words = [int.from_bytes(pattern[k : k + WORD], "little") for k in range(0, len(pattern), WORD)]
        if len(pattern) > WORD:  # two words in turn: two columns of a matrix
            for k, word in enumerate(words):
                call(driver.cuMemsetD2D32Async, address + WORD * k, len(pattern), word, 1, count, stream)
            return
        set_ = {1: driver.cuMemsetD8Async, 2: driver.cuMemsetD16Async, WORD: driver.cuMemsetD32Async}
        call(set_[len(pattern)], address, words[0], count, stream)

    def _piece(self, size: int) -> Piece:
        """The next piece of pinned memory, once the device is done with it."""
        place = next(self._turn) % PIECES
        if place >= len(self._pieces):
            flags = self.driver.CUevent_flags.CU_EVENT_DISABLE_TIMING
            event = self.context.call(self.driver.cuEventCreate, flags)
            self.context.own(self.driver.cuEventDestroy, event)
            self._pieces.append(Piece(0, 0, event))
            place = len(self._pieces) - 1
        piece = self._pieces[place]
        self.context.call(self.driver.cuEventSynchronize, piece.event)
        if piece.size < size:
            if piece.size:
                self.context.give_back((self.driver.cuMemFreeHost.__name__, piece.address))
                piece.size = 0
            larger = max(SMALL_BYTES, 1 << (size - 1).bit_length())
            piece.address = int(self.context.call(self.driver.cuMemHostAlloc, larger, 0))
            piece.size = larger
            self.context.own(self.driver.cuMemFreeHost, piece.address)
        return piece


def _address(data: memoryview) -> int:
    return np.frombuffer(data, np.uint8).ctypes.data


def _pieces(nbytes: int) -> Iterator[tuple[int, int]]:
    for start in range(0, nbytes, PIECE_BYTES):
        yield start, min(PIECE_BYTES, nbytes - start)
