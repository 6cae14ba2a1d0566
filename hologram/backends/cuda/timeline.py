"""The GPU's own clock: events that it passes, half a microsecond exact.

The driver tells the time between two events, in milliseconds of 24 bits. So marks are measured from an anchor that is
a second old at most; every anchor is itself measured from the one before, and the first from the host's clock.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from hologram.backends.cuda.context import Context
from hologram.machine.kernel import Launch
from hologram.machine.timeline import Clock, calibrated

ANCHOR_S = 1.0


class Event:
    """A place in the stream. `anchor` is None for the first, whose time is known."""

    def __init__(self, context: Context, anchor: Event | None) -> None:
        self.context = context
        self.anchor = anchor
        self.enqueued_s = time.monotonic()
        self.passed_ns: int | None = None
        driver = context.driver
        self.handle = context.call(driver.cuEventCreate, driver.CUevent_flags.CU_EVENT_DEFAULT)
        self.owned = context.own(driver.cuEventDestroy, self.handle)
        context.call(driver.cuEventRecord, self.handle, context.stream)

    def time_ns(self) -> int:
        """When the device passed it; waits until it has."""
        chain: list[Event] = []  # one a second: more than Python's calls may be deep
        event = self
        while event.passed_ns is None:
            chain.append(event)
            assert event.anchor is not None
            event = event.anchor
        passed_ns = event.passed_ns
        for event in reversed(chain):
            assert event.anchor is not None
            event.passed_ns = passed_ns = passed_ns + event.since_ns(event.anchor)
            event.anchor = None  # which goes, if nothing else refers to it
        return passed_ns

    def since_ns(self, earlier: Event) -> int:
        call, driver = self.context.call, self.context.driver
        call(driver.cuEventSynchronize, self.handle)
        return round(call(driver.cuEventElapsedTime, earlier.handle, self.handle) * 1e6)

    def __del__(self) -> None:
        if hasattr(self, "owned"):
            self.context.let_go(self.owned)


class EventTimeline:
    """See hologram.machine.device.Timeline."""

    clock = Clock.DEVICE

    def __init__(self, context: Context) -> None:
        self._context = context
        self.anchor_s = ANCHOR_S  # after which there is another
        with context.lock:
            self._anchor = self._calibrated()

    def mark(self) -> Event:
        with self._context.lock:
            made = Event(self._context, self._anchor)
            if made.enqueued_s - self._anchor.enqueued_s > self.anchor_s:
                self._anchor = made
            return made

    def around(self, launch: Launch) -> tuple[Event, Event]:
        with self._context.lock:
            start = self.mark()
            launch()
            return start, self.mark()

    def times(self, marks: Sequence[Event]) -> list[int]:
        context = self._context
        for mark in marks:
            if mark.passed_ns is None:  # waited for without the lock: others enqueue meanwhile
                context.call(context.driver.cuEventSynchronize, mark.handle)
        context.tidy()
        with context.lock:
            return [mark.time_ns() for mark in marks]

    def _calibrated(self) -> Event:
        """An event whose time on the host's clock is known."""
        context = self._context
        first, first.passed_ns = calibrated(context.synchronize, lambda: Event(context, None), Event.since_ns)
        return first
