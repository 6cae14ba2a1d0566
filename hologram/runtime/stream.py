"""Order and time: an executor has one queue; events mark places in it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from hologram.errors import HologramError

if TYPE_CHECKING:
    from hologram.executor import Executor


class Stream:
    """The queue of an executor. Everything enqueued runs in the order of the calls."""

    def __init__(self, executor: Executor) -> None:
        self.executor = executor

    def synchronize(self) -> None:
        """Waits until everything enqueued is done."""
        self.executor.synchronize()

    def record(self) -> Event:
        """A recorded event."""
        event = Event(self.executor)
        event.record()
        return event


class Event:
    """A mark in an executor's queue. Times are of the host's clock when the work before the mark was done."""

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self._done_s: float | None = None

    def record(self) -> None:
        """Marks this place: waits for the work before it, so that times between events hold only what lies between."""
        self.executor.synchronize()
        self._done_s = time.perf_counter()

    def synchronize(self) -> None:
        """Waits until the work before the mark is done."""
        self._time()

    def elapsed_ms(self, later: Event) -> float:
        """Milliseconds from this mark to a later one."""
        return (later._time() - self._time()) * 1e3

    def _time(self) -> float:
        if self._done_s is None:
            raise HologramError("the event was not recorded: call record() first")
        return self._done_s
