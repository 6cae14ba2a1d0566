"""What takes the time of launches."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Protocol

from hologram.machine.kernel import Launch


class Clock(Enum):
    """What measures launches; the value says it in words."""

    DEVICE = "timestamps that the device writes"
    CALL = "the host's clock around each call, which is when the launch runs"
    WAIT = "the host's clock, waiting for each launch"


Mark = Any  # a place in a device's queue; each timeline has its own


class Timeline(Protocol):
    """Takes the time of places in a device's queue. Methods may be called from any thread."""

    clock: Clock

    def mark(self) -> Mark:
        """A mark behind everything enqueued so far."""
        ...

    def around(self, launch: Launch) -> tuple[Mark, Mark]:
        """Calls the launch; the marks right before and right behind it."""
        ...

    def times(self, marks: Sequence[Mark]) -> list[int]:
        """When the device passed the marks, in nanoseconds of time.perf_counter_ns; waits until it has."""
        ...


ROUNDS = 6  # of a calibration


def calibrated(
    wait: Callable[[], None], mark: Callable[[], Mark], since_ns: Callable[[Mark, Mark], int]
) -> tuple[Mark, int]:
    """A mark, and the nanoseconds of the host's clock when the device passed it.

    A mark is passed after it was made and before the wait for it ends. So each round bounds the difference of the
    clocks from both sides; the middle is wrong by half the quickest round at most. `since_ns` is the device's time
    from the second of two marks to the first.
    """
    first: Mark = None
    early, late = [], []
    for _ in range(ROUNDS):
        wait()
        before_ns = time.perf_counter_ns()
        made = mark()
        wait()
        after_ns = time.perf_counter_ns()
        first = first or made
        passed_ns = since_ns(made, first)
        early.append(before_ns - passed_ns)
        late.append(after_ns - passed_ns)
    return first, (max(early) + min(late)) // 2


class HostTimeline:
    """The host's clock. `wait` is called before each look at it, so that the work before a mark is done."""

    def __init__(self, clock: Clock, wait: Callable[[], None]) -> None:
        self.clock = clock
        self._wait = wait

    def mark(self) -> Mark:
        self._wait()
        return time.perf_counter_ns()

    def around(self, launch: Launch) -> tuple[Mark, Mark]:
        start = self.mark()
        launch()
        return start, self.mark()

    def times(self, marks: Sequence[Mark]) -> list[int]:
        return list(marks)
