"""The GPU's own clock: when command buffers began and ended.

A mark ends the open batch, so that its launch has a command buffer of its own. Metal gives the times in seconds of
the clock that time.perf_counter_ns reads on macOS (mach_absolute_time), so nothing needs to be calibrated.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from hologram.backends.metal.queue import Batch, Queue
from hologram.foundation.frozen import frozen
from hologram.machine.kernel import Launch
from hologram.machine.timeline import Clock

NS = 1_000_000_000


@frozen(eq=False, slots=True)
class Moment:
    """A mark: the begin or the end of a batch, or a time that is known."""

    batch: Batch | None
    begin: bool
    host_ns: int


class BatchTimeline:
    """See hologram.machine.device.Timeline."""

    clock = Clock.DEVICE

    def __init__(self, queue: Queue) -> None:
        self._queue = queue

    def mark(self) -> Moment:
        queue = self._queue
        with queue.lock:
            queue.flush()
            return Moment(queue.last, False, time.perf_counter_ns())

    def around(self, launch: Launch) -> tuple[Moment, Moment]:
        with self._queue.lock:
            before = self.mark()
            launch()
            after = self.mark()
            if after.batch is before.batch:  # it enqueued nothing
                return before, after
            # Of several batches the last counts: the time between them is the launch's as well.
            first = Moment(after.batch, True, 0) if _next(before, after) else before
            return first, after

    def times(self, marks: Sequence[Moment]) -> list[int]:
        self._queue.wait(max((m.batch.serial for m in marks if m.batch is not None), default=0))
        return [_time(m) for m in marks]


def _next(before: Moment, after: Moment) -> bool:
    """Whether there is no batch between the two."""
    serial = 0 if before.batch is None else before.batch.serial
    return after.batch is not None and after.batch.serial == serial + 1


def _time(moment: Moment) -> int:
    if moment.batch is None:
        return moment.host_ns
    commands = moment.batch.commands
    return round((commands.GPUStartTime() if moment.begin else commands.GPUEndTime()) * NS)
