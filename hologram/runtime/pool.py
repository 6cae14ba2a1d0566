"""The memory pool of a device: blocks are taken, given back, and kept for the next one who asks for their size."""

from __future__ import annotations

import gc
import itertools
import threading
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from hologram.device import Device
from hologram.errors import DeviceLost, OutOfMemory
from hologram.limits import ALIGNMENT

_COARSE_BELOW = 1 << 20
_MAX_KEYS = 1024  # shapes and dtypes one block remembers before it starts anew

_tokens = itertools.count(1)
_keys = itertools.count(1)


class Home(Protocol):
    """Where a block goes when its holder is done with it."""

    def give(self, block: Block) -> None: ...


class Divided(Protocol):
    """A pool inside a block of another."""

    @property
    def allocated(self) -> int: ...
    @property
    def count(self) -> int: ...
    def free(self) -> None: ...


class Block:
    """A range of a device's memory: `nbytes` bytes (the capacity) from byte `offset` of `memory`.

    `token` is unique in the process and never used again; a block that is recycled keeps it. Bytes past what a holder
    asked for are padding: a device may write to them to reach its copy alignment.
    """

    __slots__ = ("adopted", "holder", "home", "keys", "memory", "nbytes", "offset", "token")

    def __init__(self, home: Home, memory: Any, offset: int, nbytes: int, adopted: bool = False) -> None:
        self.home = home
        self.memory = memory
        self.offset = offset
        self.nbytes = nbytes
        self.token = next(_tokens)
        self.adopted = adopted  # foreign memory: never recycled
        self.keys: dict[tuple[tuple[int, ...], str], int] = {}
        self.holder: weakref.ref[Any] | None = None

    def key(self, shape: tuple[int, ...], dtype_name: str) -> int:
        """An integer for this block seen with this shape and dtype: the same as long as the block exists."""
        found = self.keys.get((shape, dtype_name))
        if found is None:
            if len(self.keys) >= _MAX_KEYS:
                self.keys.clear()
            found = self.keys[shape, dtype_name] = next(_keys)
        return found

    def __repr__(self) -> str:
        return f"Block(token={self.token}, offset={self.offset}, nbytes={self.nbytes})"


@dataclass(frozen=True)
class PoolStats:
    """Memory in bytes: held by users, held from the device (cached blocks included), the most ever held by users."""

    allocated: int
    reserved: int
    peak: int
    count: int  # blocks held by users


def size_class(nbytes: int) -> int:
    """The capacity a request is rounded up to, so that similar requests share blocks.

    Four classes between powers of two (at most 25 % more than asked for), eight from 1 MiB on (12.5 %).
    """
    if nbytes <= ALIGNMENT:
        return ALIGNMENT
    steps = 4 if nbytes < _COARSE_BELOW else 8
    step = max(ALIGNMENT, (1 << (nbytes - 1).bit_length() - 1) // steps)
    return -(-nbytes // step) * step


class Pool:
    """Blocks of one device. Any thread may call; `give` never waits, so that finalisers may call it anywhere.

    `on_release` holds functions that are called with each block just before its memory goes back to the device (its
    `keys` are what caches were keyed by).
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self._limit = device.limits.max_buffer_bytes
        self.on_release: list[Callable[[Block], None]] = []
        self._lock = threading.RLock()
        self._cached: dict[int, list[Block]] = {}
        self._blocks: dict[int, Block] = {}  # by token: every block whose memory is ours
        self._returned: deque[Block] = deque()  # appended to without the lock
        self._leaving: deque[Block] = deque()  # no longer ours, not yet the device's
        self._allocated = self._reserved = self._peak = self._count = 0
        self._divided: tuple[Block, weakref.ref[Divided]] | None = None
        self._closed = False

    def take(self, nbytes: int) -> Block:
        """A block of at least `nbytes` bytes, contents undefined; raises OutOfMemory."""
        size = size_class(nbytes)
        if size > self._limit:
            if nbytes > self._limit:
                raise OutOfMemory(
                    f"allocate: {self.device.info.name} has buffers of at most {self._limit:,} bytes, "
                    f"asked for {nbytes:,}"
                )
            size = self._limit
        with self._lock:
            self._collect()
            cached = self._cached.get(size)
            if cached:
                block = cached.pop()
                self._lend(block)
                return block
        self._hand_back()
        memory = self._allocate(size)  # not under the lock: the device may take long, and may collect garbage
        block = Block(self, memory, 0, size)
        with self._lock:
            self._keep(block)
        return block

    def adopt(self, memory: Any, nbytes: int) -> Block:
        """A block over memory that the device has wrapped round foreign bytes; released when it is given back."""
        block = Block(self, memory, 0, nbytes, adopted=True)
        with self._lock:
            self._collect()
            self._keep(block)
        self._hand_back()
        return block

    def divide(self, block: Block, inner: Divided) -> None:
        """Hands a taken block to a pool that cuts it up: it is freed with this one, and statistics count its parts."""
        block.holder = weakref.ref(inner)
        self._divided = block, block.holder

    def give(self, block: Block) -> None:
        """Takes a block back; its holder must not touch it again."""
        self._returned.append(block)
        if self._closed:
            self.release_cached()

    def release_cached(self) -> int:
        """Hands every cached block back to the device; returns how many bytes that were."""
        with self._lock:
            self._collect()
            blocks = [block for cached in self._cached.values() for block in cached]
            self._cached.clear()
            for block in blocks:
                self._drop(block)
        self._hand_back()
        return sum(block.nbytes for block in blocks)

    def stats(self) -> PoolStats:
        """What is held now; the parts of a divided block count, not the block."""
        with self._lock:
            self._collect()
            allocated, reserved, peak, count = self._allocated, self._reserved, self._peak, self._count
            divided = self._divided
        if divided is not None:  # not under the lock: the inner pool has its own, and may be waiting for ours
            block, reference = divided
            inner = reference()
            if inner is not None and block.holder is reference:
                allocated += inner.allocated - block.nbytes
                count += inner.count - 1
        return PoolStats(allocated, reserved, peak, count)

    def close(self) -> None:
        """Frees the buffers that hold blocks, then releases everything; memory under a live view goes with the view."""
        with self._lock:
            holders = [block.holder for block in self._blocks.values() if block.holder is not None]
        for holder in holders:
            buffer = holder()
            if buffer is not None:
                buffer.free()
        self._closed = True
        self.release_cached()

    def _allocate(self, size: int) -> Any:
        try:
            return self.device.allocate(size)
        except OutOfMemory:
            gc.collect()  # buffers in reference cycles give their blocks back
            self.release_cached()
            self.device.synchronize()  # drivers keep released memory until the work that used it is done
        try:
            return self.device.allocate(size)
        except OutOfMemory as error:
            now = self.stats()
            raise OutOfMemory(
                f"allocate: {self.device.info.name} has no room for {size:,} bytes, even with its caches released: "
                f"{now.allocated:,} bytes are in use by {now.count:,} blocks. {error}"
            ) from error

    def _keep(self, block: Block) -> None:
        self._blocks[block.token] = block
        self._reserved += block.nbytes
        self._lend(block)

    def _lend(self, block: Block) -> None:
        self._count += 1
        self._allocated += block.nbytes
        self._peak = max(self._peak, self._allocated)

    def _collect(self) -> None:
        """Sorts the blocks that were given back into the cache."""
        while self._returned:
            block = self._returned.popleft()
            block.holder = None
            self._count -= 1
            self._allocated -= block.nbytes
            if block.adopted or self._closed:
                self._drop(block)
            else:
                self._cached.setdefault(block.nbytes, []).append(block)

    def _drop(self, block: Block) -> None:
        del self._blocks[block.token]
        self._reserved -= block.nbytes
        self._leaving.append(block)

    def _hand_back(self) -> None:
        """Releases what was dropped. Not under the lock: the callbacks take locks of their own."""
        if not self._leaving:
            return
        if not self._closed:
            self.device.flush()  # what was enqueued on the memory is on its way before the memory goes
        while self._leaving:
            block = self._leaving.popleft()
            for callback in self.on_release:
                callback(block)
            try:
                self.device.release(block.memory)
            except DeviceLost:
                pass  # the memory went with the device
