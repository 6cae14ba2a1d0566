"""Memory that others were given, for as long as they hold it and what they enqueued uses it."""

from __future__ import annotations

from typing import Any

from hologram.runtime.memory.blocks import Block
from hologram.runtime.memory.memory_pool import Pool


class SharedBlock:
    """The right to a block whose memory others were given: they hold it too, the last to go gives the block back.

    `queues` are those of other libraries that were handed the memory: what they hold then may use it still, so the
    pool gives the block to others behind that; see Pool.take_back. A lease may end anywhere, also where its end is told
    by code of others under their locks: so it takes none, and asks the device for nothing.
    """

    __slots__ = ("__weakref__", "block", "pool", "queues")

    def __init__(self, block: Block, pool: Pool) -> None:
        self.block = block
        self.pool = pool
        self.queues: list[Any] = []

    def hand_over(self, queue: Any) -> None:
        """Notes a queue that will use the memory."""
        if queue not in self.queues:
            self.queues.append(queue)

    def __del__(self) -> None:
        if self.queues and not self.pool.closed:
            self.pool.returned.append((self.block, self.queues))
        else:
            self.block.pool.recycle(self.block)
