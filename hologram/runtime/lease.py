"""Memory that others were given, for as long as they hold it and what they enqueued uses it."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any
from weakref import WeakSet

from hologram.device import Device
from hologram.errors import HologramError
from hologram.runtime.memory_pool import Block


class Lease:
    """The right to a block whose memory others were given: they hold it too, the last to go gives the block back.

    `queues` are those of other libraries that were handed the memory: what they hold then may use it still, so what
    comes to the device's own queue afterwards waits for that.
    """

    __slots__ = ("__weakref__", "block", "device", "queues")

    def __init__(self, block: Block, device: Device) -> None:
        self.block = block
        self.device = device
        self.queues: list[Any] = []

    def hand_over(self, queue: Any) -> None:
        """Notes a queue that will use the memory."""
        with _handing:
            if queue not in self.queues:
                self.queues.append(queue)
                _handed.add(self)

    def __del__(self) -> None:
        for queue in self.queues:
            with suppress(HologramError):  # a lost or closed device reuses no memory
                self.device.follow(queue)
        self.block.pool.recycle(self.block)


_handing = threading.Lock()
_handed: WeakSet[Lease] = WeakSet()  # those that queues of others were noted for


def forget(queue: Any) -> None:
    """Says that a queue has ended and holds nothing: what is given back later must not ask for it."""
    with _handing:
        for lease in list(_handed):
            if queue in lease.queues:
                lease.queues.remove(queue)
