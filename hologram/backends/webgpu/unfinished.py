"""Whether the driver ended loops before they were done: a software adapter's does, see Limits.loop_turns.

Programs whose loops may take too many turns, which nobody can count without their data, end with a loop of two turns,
and say so here where that takes one. It is looked at wherever results are waited for: they are wrong.
"""

from __future__ import annotations

import numpy as np

from hologram.backends.webgpu.memory import Memory, Transfers
from hologram.foundation.errors import HologramError

CLEAR = np.array([0, 2], np.uint32)  # what is said, and how many turns the loop takes


class Unfinished:
    """The memory of one device that such programs have in common; callers hold the encoder's lock."""

    def __init__(self, transfers: Transfers, limit: int) -> None:
        self.transfers = transfers
        self.limit = limit
        self.names: dict[str, None] = {}  # of such programs
        self._memory: Memory | None = None

    def memory(self, name: str) -> Memory:
        """That memory, for a program of that name; made when the first one asks for it."""
        self.names[name] = None
        if self._memory is None:
            self._memory = self.transfers.allocate(CLEAR.nbytes)
            self.transfers.write(self._memory, 0, memoryview(CLEAR).cast("B"))
        return self._memory

    def check(self) -> None:
        """Waits for all launches; raises HologramError where one of them had its loops ended since the last time."""
        if self._memory is None:
            return
        flags = np.empty_like(CLEAR)
        self.transfers.read(self._memory, 0, memoryview(flags).cast("B"))
        if flags[0]:
            self.transfers.write(self._memory, 0, memoryview(CLEAR).cast("B"))
            adapter = self.transfers.encoder.device.adapter.name
            raise HologramError(
                f"webgpu: {adapter} ended loops before they were done, in {' or '.join(self.names)}: all loops of a "
                f"thread may take {self.limit} turns together; what was computed is wrong, split it"
            )
