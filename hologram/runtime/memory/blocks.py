"""Blocks of a device's memory: their sizes, where they wait, and what counts those that are out."""

from __future__ import annotations

import itertools
import threading
import weakref
from typing import Any, Protocol

from hologram.foundation.frozen import frozen
from hologram.machine.limits import ALIGNMENT

_COARSE_BELOW = 1 << 18
_tokens = itertools.count(1)


def storage_bytes(nbytes: int) -> int:
    """Bytes of memory behind an array: whole words, at least one, so that packed elements can be stored by word."""
    return max(4, -(-nbytes // 4) * 4)


class BlockPool:
    """Where blocks come from, and go when their holders are done with them.

    `issued_bytes` counts the bytes that are out, `peak` the most there ever were. Both are written without a lock:
    exact as long as threads take turns (the GIL), and put right whenever statistics are asked for.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.issued_bytes = self.peak = 0
        self.spared = 0  # of these, what blocks have beyond the size that was asked for
        self.closed = False
        self._blocks: dict[Any, Block] = {}  # every one whose memory is ours

    def issue(self, block: Block) -> Block:
        """Counts a block that was taken from its free list."""
        issued_bytes = self.issued_bytes = self.issued_bytes + block.nbytes
        if issued_bytes > self.peak:
            self.peak = issued_bytes
        return block

    def recycle(self, block: Block) -> None:
        """Takes a block back; its holder must not touch it again. Never waits: finalisers may call it anywhere."""
        self.issued_bytes -= block.nbytes
        if block.spare:
            self.forget_spare(block)
        block.free_list.append(block)
        if self.closed:
            self.reclaim()

    def forget_spare(self, block: Block) -> None:
        """Counts no more what a block that comes back has beyond the size that was asked for."""
        self.spared -= block.spare
        block.spare = 0

    def holders(self) -> list[Any]:
        """Who was given blocks, and may still hold them."""
        holders = [block.holder() for block in tuple(self._blocks.values()) if block.holder is not None]
        return [holder for holder in holders if holder is not None]

    def blocks(self) -> list[tuple[Block, bool]]:
        """Every block, and whether it is out; other threads take and give meanwhile."""
        blocks = tuple(self._blocks.values())
        free_lists = {id(block.free_list): block.free_list for block in blocks}
        waiting = {block.token for free_list in free_lists.values() for block in tuple(free_list)}
        return [(block, block.token not in waiting) for block in blocks]

    def close(self) -> None:
        """Frees what holds blocks, then reclaims everything; memory under a live view goes with the view."""
        with self.lock:
            holders = self.holders()
        for holder in holders:
            holder.free()
        self.closed = True
        self.reclaim()

    def reclaim(self) -> None:
        """Hands back what is no longer needed, after the end."""
        raise NotImplementedError


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
    asked for are padding: a device may write to them to reach its copy alignment. `place` is what launches are told
    of where it lies: an address, or the number of a memory and an offset (see Pool.find). `free_list` is where it waits
    while nobody holds it: lists are popped and appended to by any thread, without a lock.
    """

    __slots__ = (
        "adopted",
        "chunk",
        "free_list",
        "holder",
        "memory",
        "nbytes",
        "offset",
        "place",
        "pool",
        "spare",
        "token",
    )

    def __init__(
        self,
        pool: BlockPool,
        memory: Any,
        offset: int,
        nbytes: int,
        free_list: list[Any],
        place: int,
        adopted: bool = False,
    ) -> None:
        self.pool = pool
        self.memory = memory
        self.offset = offset
        self.nbytes = nbytes
        self.free_list = free_list
        self.token = next(_tokens)
        self.place = place
        self.adopted = adopted  # foreign memory: never recycled
        self.spare = 0  # bytes beyond the size that was asked for, where another waited for that
        self.holder: weakref.ref[Any] | None = None  # the last: it may have let go since
        self.chunk: Any = None  # what it is a part of, where its pool cuts chunks

    def __repr__(self) -> str:
        return f"Block(token={self.token}, offset={self.offset}, nbytes={self.nbytes})"


@frozen
class PoolStats:
    """Memory in bytes: held by users, held from the device (cached blocks included), the most ever held by users."""

    allocated: int
    reserved: int
    peak: int
    count: int  # blocks held by users


def size_class(nbytes: int) -> int:
    """The capacity a request is rounded up to, so that similar requests share blocks.

    Four classes between powers of two (at most 25 % more than asked for), sixteen from 256 KiB on (6.25 %).
    """
    if nbytes <= ALIGNMENT:
        return ALIGNMENT
    steps = 4 if nbytes < _COARSE_BELOW else 16
    step = max(ALIGNMENT, (1 << (nbytes - 1).bit_length() - 1) // steps)
    return -(-nbytes // step) * step


class Chunk:
    """Memory that the device gave at once, and the blocks it is cut into: one, or many small ones."""

    __slots__ = ("blocks", "memory", "nbytes", "place", "used")

    def __init__(self, memory: Any, nbytes: int, place: int) -> None:
        self.memory = memory
        self.nbytes = nbytes
        self.place = place
        self.used = 0  # bytes, from the beginning
        self.blocks = 0
