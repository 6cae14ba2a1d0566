"""Memory of the emulated card: host memory with poison in it and around it."""

from __future__ import annotations

import bisect
import ctypes
from collections import deque

import numpy as np

FRESH, FREED, AROUND = 0xFF, 0xDD, 0xAB
MARGIN = 4096  # bytes of poison on each side, a multiple of every alignment
WATCHED_BYTES = 16 << 20  # of an allocation are poisoned, from its start
QUARANTINE_BYTES = 16 << 20  # of freed memory that is watched


class Misuse(AssertionError):
    """What no correct program asks of a driver."""


class Allocation:
    """Bytes between margins, of a context. `freed`: a free was enqueued; `gone`: it was executed."""

    def __init__(self, nbytes: int, kind: str, context: object = None) -> None:
        self.nbytes = nbytes
        self.kind = kind
        self.context = context
        self.freed = self.gone = False
        self._room = np.empty(nbytes + 2 * MARGIN + 256, np.uint8)
        start = -(self._room.ctypes.data + MARGIN) % 256 + MARGIN
        self.bytes = self._room[start : start + nbytes]
        self._watched = self.bytes[:WATCHED_BYTES]
        self._watched[:] = FRESH
        self._room[start - MARGIN : start] = self._room[start + nbytes : start + nbytes + MARGIN] = AROUND
        self.address: int = self.bytes.ctypes.data
        self._margins = [(self.address - MARGIN, "before"), (self.address + nbytes, "behind")]

    def check(self, who: str) -> None:
        """Raises Misuse where somebody wrote beside the allocation, or into it once it was freed."""
        for start, where in self._margins:
            if ctypes.string_at(start, MARGIN) != _MARGIN:
                raise Misuse(f"{who} wrote {where} an allocation of {self.nbytes} bytes")
        if self.gone and (self._watched != FREED).any():
            raise Misuse(f"{who}: memory of {self.nbytes} bytes was written after it was freed")

    def end(self) -> None:
        self.gone = True
        self._watched[:] = FREED


_MARGIN = bytes([AROUND]) * MARGIN


class Memory:
    """The allocations of a card, or of the host's pinned memory."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.used = 0
        self._by_address: dict[int, Allocation] = {}
        self._addresses: list[int] = []
        self._quarantine: deque[Allocation] = deque()

    def allocate(self, nbytes: int, kind: str, context: object = None) -> Allocation | None:
        """None where there is no room."""
        if self.used + nbytes > self.capacity:
            return None
        made = Allocation(nbytes, kind, context)
        self.used += nbytes
        self._by_address[made.address] = made
        bisect.insort(self._addresses, made.address)
        return made

    def at(self, address: int) -> Allocation | None:
        """The allocation that begins at an address."""
        return self._by_address.get(address)

    def around(self, address: int) -> Allocation | None:
        """The allocation that an address lies in."""
        k = bisect.bisect_right(self._addresses, address) - 1
        found = self._by_address[self._addresses[k]] if k >= 0 else None
        return found if found is not None and address < found.address + found.nbytes else None

    def free(self, allocation: Allocation) -> None:
        """Poisons it and watches it for a while."""
        allocation.check("something")
        allocation.end()
        self.used -= allocation.nbytes
        self._quarantine.append(allocation)
        while sum(a.nbytes for a in self._quarantine) > QUARANTINE_BYTES:
            self._forget(self._quarantine.popleft())

    def live(self) -> list[Allocation]:
        return [a for a in self._by_address.values() if not a.gone]

    def close(self) -> None:
        """Looks at everything that was freed once more."""
        while self._quarantine:
            self._forget(self._quarantine.popleft())

    def _forget(self, allocation: Allocation) -> None:
        allocation.check("something")
        del self._by_address[allocation.address]
        self._addresses.remove(allocation.address)
