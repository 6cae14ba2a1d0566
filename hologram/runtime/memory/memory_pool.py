"""The memory pool of a device: blocks are taken, given back, and kept for the next one who asks for their size."""

from __future__ import annotations

import gc
import itertools
import weakref
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from hologram.foundation.errors import DeviceLost, HologramError, OutOfMemory
from hologram.machine.device import Device
from hologram.runtime.memory.addresses import Addresses
from hologram.runtime.memory.blocks import Block, BlockPool, Chunk, Divided, PoolStats, size_class

LARGE_BYTES = 1 << 20  # of blocks that serve, and make way for, other sizes
SPARE = 3  # times the size asked for that a large block may have
SPARED = 8  # all of what they have beyond that is at most so small a part of what is out
PARTS = 8  # at least, that a chunk which blocks share is cut into
PLACE_BITS = 40  # of a place: below the number of a memory, where the device has no addresses
_T = TypeVar("_T")

_numbers = itertools.count(1)


class Pool(BlockPool):
    """Blocks of one device. Any thread may call.

    Where a device has small blocks share memory (`Device.shared_bytes`), chunks of that size are cut up, and handed
    back when all their blocks are cached ones.

    `on_release` holds functions that are called with each block just before its memory goes back to the device (its
    token and `keys` are what caches were keyed by).
    """

    def __init__(self, device: Device) -> None:
        super().__init__()
        self.device = device
        self._limit = device.limits.max_buffer_bytes
        self.on_release: list[Callable[[Block], None]] = []
        self._free_lists: dict[int, list[Block]] = {}  # by size; a free list is never replaced by another
        self.foreign: list[
            Block
        ] = []  # adopted blocks that were given back: `release_foreign` lets go of them
        # Blocks that others were lent, and the queues that may use them still; see `take_back`.
        self.returned: deque[tuple[Block, list[Any]]] = deque()
        self._leaving: deque[tuple[Block, Chunk | None]] = deque()  # no longer ours, not yet the device's
        self._reserved = 0
        self._numbered: dict[int, Chunk] = {}  # where places are no addresses
        self._addresses = Addresses()  # where they are
        self._cut: Chunk | None = None  # what small blocks are cut from
        self._divided: tuple[Block, weakref.ref[Divided]] | None = None

    def free_list(self, nbytes: int) -> list[Block]:
        """Where blocks for that many bytes wait; who pops one must `issue` it."""
        size = min(size_class(nbytes), max(nbytes, self._limit))
        blocks = self._free_lists.get(size)
        if blocks is None:
            with self.lock:
                blocks = self._free_lists.setdefault(size, [])
        return blocks

    def take(self, nbytes: int) -> Block:
        """A block of at least `nbytes` bytes, contents undefined; raises OutOfMemory."""
        if nbytes > self._limit:
            raise OutOfMemory(
                f"allocate: {self.device.info.name} has buffers of at most {self._limit:,} bytes, "
                f"asked for {nbytes:,}"
            )
        if self.foreign or self.returned:
            self.release_foreign()
        free_list = self.free_list(nbytes)
        try:
            return self.issue(free_list.pop())
        except IndexError:
            pass
        self.release_foreign()
        size = min(size_class(nbytes), self._limit)
        if size >= LARGE_BYTES:
            larger = self._larger(size)
            if larger is not None:
                larger.spare = larger.nbytes - size
                self.spared += larger.spare
                return self.issue(larger)
            self._make_way(size)
        if size * PARTS > self.device.shared_bytes:
            return self._divide(self._allocate(size), size, free_list)
        with self.lock:
            if self._cut is not None and self._cut.used + size <= self._cut.nbytes:
                return self._divide(self._cut, size, free_list)
        try:
            chunk = self._allocate(min(self.device.shared_bytes, self._limit))
        except OutOfMemory:
            return self._divide(self._allocate(size), size, free_list)
        with self.lock:
            self._cut = chunk
            return self._divide(chunk, size, free_list)

    def _larger(self, size: int) -> Block | None:
        """A block that waits for a larger size, the next there is up to SPARE times as large; None where none does.

        Whoever keeps it keeps what it has beyond the size, so that is bounded for all of them.
        """
        most = size + max(self.issued_bytes // SPARED - self.spared, 0)
        for _, waiting in sorted(self._large(size + 1, min(SPARE * size, most))):
            with suppress(IndexError):  # where another thread was quicker
                return waiting.pop()
        return None

    def _make_way(self, size: int) -> None:
        """Hands back what waits for smaller sizes, the largest first, up to as many bytes as are about to be asked for.

        What waits for larger ones stays: so a program that repeats itself soon has all of its blocks.
        """
        leaving: list[Block] = []
        for _, waiting in sorted(self._large(LARGE_BYTES, size - 1), reverse=True):
            with suppress(IndexError):
                while size > 0:
                    leaving.append(waiting.pop())
                    size -= leaving[-1].nbytes
        with self.lock:
            self._clear(leaving)
        self._hand_back()

    def _large(self, least: int, most: int) -> list[tuple[int, list[Block]]]:
        """Free lists of such sizes where blocks wait."""
        return [
            (size, waiting)
            for size, waiting in tuple(self._free_lists.items())
            if least <= size <= most and waiting
        ]

    def adopt(self, memory: Any, nbytes: int) -> Block:
        """A block over memory that the device has wrapped round foreign bytes; released when it is given back."""
        chunk = self._chunk(memory, nbytes, adopted=True)
        block = self._divide(chunk, nbytes, self.foreign, adopted=True)
        self.release_foreign()
        return block

    def find(self, place: int) -> tuple[Any, int]:
        """The memory and the offset of a place."""
        chunk = self._numbered.get(place >> PLACE_BITS)
        if chunk is not None:
            return chunk.memory, place & (1 << PLACE_BITS) - 1
        with self.lock:
            chunk = self._addresses.find(place)
        return chunk.memory, place - chunk.place

    def divide(self, block: Block, inner: Divided) -> None:
        """Hands a taken block to a pool that cuts it up: it is freed with this one, and statistics count its parts."""
        block.holder = weakref.ref(inner)
        self._divided = block, block.holder

    def rejoin(self, block: Block) -> None:
        """Takes the block back from the pool that had cut it up."""
        self._divided = None
        self.recycle(block)

    def release_cached(self) -> int:
        """Hands memory of which every block is cached back to the device; returns how many bytes that were."""
        self.take_back()
        with self.lock:
            nbytes = self._clear(*self._free_lists.values())
        self.release_foreign()
        return nbytes

    def make_room(self) -> None:
        """Hands back all that nobody uses, and waits until the driver has it."""
        gc.collect()  # buffers in reference cycles give their blocks back
        self.release_cached()
        self.device.synchronize()  # drivers keep released memory until the work that used it is done

    def with_room(self, call: Callable[..., _T], *arguments: Any) -> _T:
        """A call that may ask the device for memory, once more where there was none; raises OutOfMemory."""
        try:
            return call(*arguments)
        except OutOfMemory:
            self.make_room()
        return call(*arguments)

    def take_back(self) -> None:
        """Recycles blocks that others were lent, behind all that was enqueued on them. Not under a lock."""
        while self.returned:
            try:
                block, queues = self.returned.popleft()
            except IndexError:  # another thread was quicker
                return
            try:
                self.device.follow_users(queues)
            except HologramError:  # a lost device's memory is given to nobody
                continue
            block.pool.recycle(block)

    def release_foreign(self) -> None:
        """Lets go of the adopted blocks that were given back."""
        self.take_back()
        with self.lock:
            self._clear(self.foreign)
        self._hand_back()

    def reclaim(self) -> None:
        self.release_cached()

    def stats(self) -> PoolStats:
        """What is held now; the parts of a divided block count, not the block."""
        self.take_back()
        with self.lock:
            self._clear(self.foreign)
            waiting = [(len(free_list), size) for size, free_list in self._free_lists.items()]
            count = len(self._blocks) - sum(n for n, _ in waiting)
            held = sum(block.nbytes for block in self._blocks.values())
            allocated = self.issued_bytes = held - sum(n * size for n, size in waiting)
            reserved, divided = self._reserved, self._divided
        self._hand_back()
        peak = self.peak = max(self.peak, allocated)
        if divided is not None:  # not under the lock: the inner pool has its own, and may be waiting for ours
            block, reference = divided
            inner = reference()
            if inner is not None:
                allocated += inner.allocated - block.nbytes
                count += inner.count - 1
        return PoolStats(allocated, reserved, peak, count)

    def _allocate(self, size: int) -> Chunk:
        """New memory. Not under the lock: the device may take long, and may collect garbage."""
        try:
            return self._chunk(self.with_room(self.device.allocate, size), size)
        except OutOfMemory as error:
            now = self.stats()
            raise OutOfMemory(
                f"allocate: {self.device.info.name} has no room for {size:,} bytes, even with its caches released: "
                f"{now.allocated:,} bytes are in use by {now.count:,} blocks. {error}"
            ) from error

    def _chunk(self, memory: Any, nbytes: int, adopted: bool = False) -> Chunk:
        address = self.device.place(memory)
        chunk = Chunk(memory, nbytes, next(_numbers) << PLACE_BITS if address is None else address)
        with self.lock:
            self._reserved += nbytes
            if address is None:
                self._numbered[chunk.place >> PLACE_BITS] = chunk
            else:
                self._addresses.add(chunk, adopted)
        return chunk

    def _divide(self, chunk: Chunk, nbytes: int, free_list: list[Any], adopted: bool = False) -> Block:
        """A new block, of the chunk's first bytes that are none's."""
        with self.lock:
            place = chunk.place + chunk.used
            block = Block(self, chunk.memory, chunk.used, nbytes, free_list, place, adopted)
            block.chunk = chunk
            chunk.used += nbytes
            chunk.blocks += 1
            self._blocks[block.token] = block
        return self.issue(block)

    def _clear(self, *free_lists: list[Block]) -> int:
        """Gives up chunks whose blocks are all on these lists; their bytes. Other threads take and give meanwhile."""
        waiting: list[Block] = []
        for free_list in free_lists:
            with suppress(IndexError):  # where another thread was quicker
                while free_list:
                    waiting.append(free_list.pop())
        idle = Counter(id(block.chunk) for block in waiting)
        nbytes = 0
        for block in waiting:
            chunk = block.chunk
            if idle[id(chunk)] < chunk.blocks:
                block.free_list.append(block)
                continue
            del self._blocks[block.token]
            chunk.blocks -= 1
            last = not chunk.blocks
            if last:
                self._reserved -= chunk.nbytes
                nbytes += chunk.nbytes
                self._cut = None if self._cut is chunk else self._cut
            self._leaving.append((block, chunk if last else None))
        return nbytes

    def _hand_back(self) -> None:
        """Releases what was dropped. Not under the lock: the callbacks take locks of their own."""
        if not self._leaving:
            return
        with suppress(DeviceLost):  # whose memory went with it
            if not self.closed:
                self.device.flush()  # what was enqueued on the memory is on its way before the memory goes
        while self._leaving:
            try:
                block, chunk = self._leaving.popleft()
            except IndexError:  # another thread was quicker
                break
            for callback in self.on_release:
                callback(block)
            if chunk is None:
                continue
            with self.lock:
                self._numbered.pop(chunk.place >> PLACE_BITS, None)
                self._addresses.remove(chunk)
            with suppress(DeviceLost):
                self.device.release(chunk.memory)
