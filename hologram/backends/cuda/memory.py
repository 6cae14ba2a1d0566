"""Device memory, ordered by the stream of launches.

It comes from a pool of our own, which keeps nothing: what is worth keeping the runtime's pool above keeps, and what
that gives back is meant to go.
"""

from __future__ import annotations

import itertools
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from hologram.backends.cuda.context import Context, Owned
from hologram.backends.cuda.staging import Fetched, Staging
from hologram.foundation.errors import BufferFreed, OutOfMemory
from hologram.machine.limits import ALIGNMENT

WORD = 4
OVERLAPPING_BYTES = 8 << 20  # that a copy onto itself takes at a time


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


class Transfers:
    """Allocates memory of one device and moves bytes.

    Callers hold the context's lock, but for `write`, `read`, `release` and `free_released`: those hold none.
    """

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
        self.staging = Staging(context, self.allocate)
        self._reaching: weakref.WeakSet[Transfers] = weakref.WeakSet()
        self._loans = itertools.count()
        self._leaving: deque[tuple[Any, Owned]] = deque()  # loans, and events behind what used them
        self._lenders: dict[int, Any] = {}
        self._done: deque[Any] = deque()  # lenders that may have their memory back
        self._released: deque[tuple[int, Owned | None]] = deque()  # addresses, and loans

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

    def reach(self, other: Transfers) -> None:
        """Lets another device copy from and to this one's memory by itself, where the two can."""
        if other not in self._reaching:
            self._open_to(other.context.device)
            self._reaching.add(other)  # a failure is not noted: the next copy tries again

    def _open_to(self, theirs: Any) -> None:
        driver, call, ours = self.driver, self.context.call, self.context.device
        if int(theirs) == int(ours) or not call(driver.cuDeviceCanAccessPeer, theirs, ours):
            return
        access = driver.CUmemAccessDesc()
        access.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        access.location.id = int(theirs)
        access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        call(driver.cuMemPoolSetAccess, self.pool, [access], 1)

    def adopt(self, address: int, nbytes: int, owner: Any) -> Memory:
        """Memory that another library lends; `size` is rounded, as a vector that begins in it is on no other page."""
        self.settle()
        number = next(self._loans)
        self._lenders[number] = owner
        size = -(-nbytes // ALIGNMENT) * ALIGNMENT
        return Memory(address, nbytes, size, self.context.own(self._give_back, number))

    def settle(self) -> None:
        """Gives memory back to the lenders whose device is done with it; waits for nothing."""
        while self._leaving:
            event, loan = self._leaving[0]
            with self.context.current():
                (status,) = self.driver.cuEventQuery(event)
            if status == self.driver.CUresult.CUDA_ERROR_NOT_READY:
                return
            if status:
                raise self.context.failed(status, "cuEventQuery")
            self._leaving.popleft()
            self.context.give_back(loan)
            self.context.give_back((self.driver.cuEventDestroy.__name__, int(event)))

    def _give_back(self, number: int) -> tuple[int]:
        """The lender may use its memory again; as a function of the driver's it answers a status."""
        self._done.append(self._lenders.pop(number))
        return (0,)

    def let_go(self) -> None:
        """Lets lenders know: that is code of others, so that no lock may be held."""
        while self._done:
            with suppress(IndexError):  # another thread was quicker
                self._done.popleft()

    def release(self, memory: Memory) -> None:
        """Frees the memory; a transfer under way, which may use it, does so at its end. Waits for none."""
        pointer, memory.pointer = memory.pointer, None
        if pointer is not None:
            self._released.append((pointer, memory.loan))
        self.free_released()

    def free_released(self, wait: bool = False) -> None:
        """Frees what was released, behind all that was enqueued, unless a transfer is under way; with `wait` after it.

        A transfer gives its lock back before it looks: so nothing is left to nobody.
        """
        context = self.context
        while self._released and context.transferring.acquire(wait):
            try:
                with context.lock:
                    while self._released:
                        released = self._released.popleft()
                        if context.unusable is None:  # else it went with the device
                            self._free(*released)
            finally:
                context.transferring.release()
        self.let_go()

    def _free(self, pointer: int, loan: Owned | None) -> None:
        if loan is None:
            self.context.give_back((self.driver.cuMemFreeAsync.__name__, pointer))
            return
        event = self.staging.event()
        self.context.call(self.driver.cuEventRecord, event, self.context.stream)
        self._leaving.append((event, loan))
        self.settle()

    def write(self, memory: Memory, offset: int, data: memoryview) -> None:
        """See Staging.write."""
        self._move(self.staging.write, memory, offset, data)

    def read(self, memory: Memory, offset: int, out: memoryview) -> None:
        """See Staging.read."""
        self._move(self.staging.read, memory, offset, out)

    def fetch(self, memory: Memory, offset: int, nbytes: int) -> Fetched:
        """See Staging.fetch."""
        with self.context.transferring:
            return self.staging.fetch(memory.address + offset, nbytes)

    def _move(
        self, way: Callable[[int, memoryview], None], memory: Memory, offset: int, host: memoryview
    ) -> None:
        try:
            with self.context.transferring:
                way(memory.address + offset, host)
        finally:
            if self._released:
                self.free_released()

    def copy(
        self, source: Memory, source_offset: int, target: Memory, target_offset: int, nbytes: int
    ) -> None:
        """Copies within the device; ranges may overlap, those of two memories that a lender cut from one as well."""
        first, last = source.address + source_offset, target.address + target_offset
        if abs(last - first) >= nbytes:
            self._copy(first, last, nbytes)
        if abs(last - first) >= nbytes or first == last:
            return
        # By pieces through memory that stands between, from the end that nobody writes before it is read.
        starts = range(0, nbytes, OVERLAPPING_BYTES)
        between = self.allocate(min(nbytes, OVERLAPPING_BYTES))
        for start in starts if last < first else reversed(starts):
            size = min(OVERLAPPING_BYTES, nbytes - start)
            self._copy(first + start, between.address, size)
            self._copy(between.address, last + start, size)
        self._free(between.address, None)

    def _copy(self, first: int, last: int, nbytes: int) -> None:
        self.context.call(self.driver.cuMemcpyDtoDAsync, last, first, nbytes, self.context.stream)

    def fill(self, memory: Memory, offset: int, nbytes: int, pattern: bytes) -> None:
        """Repeats 1, 2 or 4 bytes, from a multiple of as many on."""
        driver, size = self.driver, len(pattern)
        set_ = {1: driver.cuMemsetD8Async, 2: driver.cuMemsetD16Async, WORD: driver.cuMemsetD32Async}[size]
        value, count = int.from_bytes(pattern, "little"), nbytes // size
        self.context.call(set_, memory.address + offset, value, count, self.context.stream)
