"""The ways between the host and device memory: through pieces of pinned memory, in turn.

The host fills one piece while the device empties another, and a write returns before the device has it. What takes long
goes by a stream of its own, to and from memory of the device that stands between, which the stream of launches copies
at the speed of memory: so the bus is at work while kernels run, whatever memory they use, and nothing else has to know
which memory a launch has bound.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hologram.backends.cuda.context import Context
from hologram.foundation.errors import OutOfMemory

PIECE_BYTES = 8 << 20  # of pinned memory; a guess: to be measured on a card
PIECES = 3
FETCHED_BYTES = 1024  # of pinned memory that is kept for what is fetched
SMALL_BYTES, SMALL_PIECES = (
    64 << 10,
    32,
)  # of one allocation, for small writes, which may wait behind many launches
APART_BYTES = 1 << 20  # from so many on, a transfer goes by its own stream; a guess


@dataclass
class Piece:
    """Pinned memory, and memory of the device for what goes by the other stream.

    `event` is behind the last copy that used the pinned memory, `passed` behind the last of the launches' stream that
    used the device's.
    """

    event: Any
    passed: Any
    address: int = 0
    size: int = 0
    between: int = 0
    between_size: int = 0


class Fetched:
    """Bytes on their way to pinned memory, which goes back to those that are used again, read or not.

    The next copy to that comes behind this one.
    """

    def __init__(self, staging: Staging, piece: Piece, nbytes: int) -> None:
        self.staging, self.piece, self.nbytes = staging, piece, nbytes

    def __call__(self) -> bytes:
        """The bytes, once they are there."""
        self.staging.context.call(self.staging.driver.cuEventSynchronize, self.piece.event)
        return ctypes.string_at(self.piece.address, self.nbytes)

    def __del__(self) -> None:
        self.staging.fetched.append(self.piece)


class Staging:
    """Moves bytes of one device; callers hold `Context.transferring`, so that others enqueue while it waits.

    The context's own lock is held for what is allocated. `allocate` gives memory in the order of launches.
    """

    def __init__(self, context: Context, allocate: Callable[[int], Any]) -> None:
        self.context = context
        self.driver = context.driver
        self._allocate = allocate
        self.piece_bytes, self.apart_bytes = PIECE_BYTES, APART_BYTES
        self._small: list[Piece] = []
        self.fetched: list[Piece] = []
        self._pieces: list[Piece] = []
        self._turns = itertools.count(), itertools.count()

    @cached_property
    def stream(self) -> Any:
        """That of long transfers."""
        driver, context = self.driver, self.context
        with context.lock:
            stream = context.call(driver.cuStreamCreate, driver.CUstream_flags.CU_STREAM_NON_BLOCKING)
            context.own(driver.cuStreamDestroy, stream)
            return stream

    def write(self, target: int, data: memoryview) -> None:
        """Copies bytes to an address; returns when `data` may change, which the device may not have yet."""
        origin, driver, main = _address(data), self.driver, self.context.stream
        for start, size in _pieces(len(data), self.piece_bytes):
            piece = self._piece(size)
            ctypes.memmove(piece.address, origin + start, size)
            if self._apart(piece, len(data), size):
                self._behind(self.stream, piece.passed)
                self._to_device(piece, piece.between, size, self.stream)
                self._behind(main, piece.event)
                self.context.call(driver.cuMemcpyDtoDAsync, target + start, piece.between, size, main)
                self._mark(piece.passed, main)
            else:
                self._to_device(piece, target + start, size, main)

    def read(self, source: int, out: memoryview) -> None:
        """Copies bytes from an address, behind all launches; one piece is filled while another is emptied."""
        target, driver, main = _address(out), self.driver, self.context.stream
        under_way: list[tuple[Piece, int, int]] = []
        for start, size in _pieces(len(out), self.piece_bytes):
            if len(under_way) == PIECES - 1:
                self._land(*under_way.pop(0), target)
            piece = self._piece(size)
            if self._apart(piece, len(out), size):
                self.context.call(driver.cuMemcpyDtoDAsync, piece.between, source + start, size, main)
                self._mark(piece.passed, main)
                self._behind(self.stream, piece.passed)
                self._to_host(piece, piece.between, size, self.stream)
            else:
                self._to_host(piece, source + start, size, main)
            under_way.append((piece, start, size))
        for landing in under_way:
            self._land(*landing, target)

    def fetch(self, source: int, nbytes: int) -> Fetched:
        """Begins to copy at most FETCHED_BYTES from an address."""
        piece = self.fetched.pop() if self.fetched else None
        piece = piece or Piece(self.event(), None, self._pinned(FETCHED_BYTES), FETCHED_BYTES)
        fetched = Fetched(self, piece, nbytes)
        self._to_host(piece, source, nbytes, self.context.stream)
        return fetched

    def _to_device(self, piece: Piece, target: int, size: int, stream: Any) -> None:
        self.context.call(self.driver.cuMemcpyHtoDAsync, target, piece.address, size, stream)
        self._mark(piece.event, stream)

    def _to_host(self, piece: Piece, source: int, size: int, stream: Any) -> None:
        self.context.call(self.driver.cuMemcpyDtoHAsync, piece.address, source, size, stream)
        self._mark(piece.event, stream)

    def _land(self, piece: Piece, start: int, size: int, target: int) -> None:
        self.context.call(self.driver.cuEventSynchronize, piece.event)
        ctypes.memmove(target + start, piece.address, size)

    def _mark(self, event: Any, stream: Any) -> None:
        self.context.call(self.driver.cuEventRecord, event, stream)

    def _behind(self, stream: Any, event: Any) -> None:
        """Has a stream wait for an event, as last recorded."""
        self.context.call(self.driver.cuStreamWaitEvent, stream, event, 0)

    def _apart(self, piece: Piece, nbytes: int, size: int) -> bool:
        """Whether a transfer of so many bytes goes by its own stream; then the piece has room for `size` between."""
        if nbytes < self.apart_bytes:
            return False
        if piece.between_size < size:
            with self.context.lock:
                if piece.between_size:
                    self.context.give_back((self.driver.cuMemFreeAsync.__name__, piece.between))
                    piece.between_size = 0
                try:
                    memory = self._allocate(max(size, min(nbytes, self.piece_bytes)))
                except OutOfMemory:
                    return False
            piece.between, piece.between_size = memory.address, memory.size
            self._mark(piece.passed, self.context.stream)  # from there on it may be used
        return True

    def _piece(self, size: int) -> Piece:
        """The next piece, with room for `size` bytes, once the device is done with its pinned memory."""
        small = size <= SMALL_BYTES
        pieces, most = (self._small, SMALL_PIECES) if small else (self._pieces, PIECES)
        place = next(self._turns[small]) % most
        if place >= len(pieces):
            pieces.append(Piece(self.event(), self.event()))
            place = len(pieces) - 1
        piece = pieces[place]
        self.context.call(self.driver.cuEventSynchronize, piece.event)
        if piece.size < size:
            if small:
                piece.address, piece.size = self._slots + place * SMALL_BYTES, SMALL_BYTES
                return piece
            if piece.size:
                with self.context.lock:
                    self.context.give_back((self.driver.cuMemFreeHost.__name__, piece.address))
                piece.size = 0
            larger = 1 << (size - 1).bit_length()
            piece.address, piece.size = self._pinned(larger), larger
        return piece

    @cached_property
    def _slots(self) -> int:
        """Where the small pieces lie."""
        return self._pinned(SMALL_BYTES * SMALL_PIECES)

    def _pinned(self, nbytes: int) -> int:
        with self.context.lock:
            address = int(self.context.call(self.driver.cuMemHostAlloc, nbytes, 0))
            self.context.own(self.driver.cuMemFreeHost, address)
            return address

    def event(self) -> Any:
        """A new event, which the context owns."""
        driver, context = self.driver, self.context
        with context.lock:
            event = context.call(driver.cuEventCreate, driver.CUevent_flags.CU_EVENT_DISABLE_TIMING)
            context.own(driver.cuEventDestroy, event)
            return event


def _address(data: memoryview) -> int:
    return np.frombuffer(data, np.uint8).ctypes.data


def _pieces(nbytes: int, most: int) -> Iterator[tuple[int, int]]:
    for start in range(0, nbytes, most):
        yield start, min(most, nbytes - start)
