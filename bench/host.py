"""The host's time for launches: many enqueued at once, the device waited for before the clock starts, not behind."""

from __future__ import annotations

import time
from collections.abc import Callable

import hologram as hg
from hologram.benchmark.timing import Pace, microseconds

TOGETHER = 100  # launches that are timed as one
UNCOUNTED = 5  # turns that compile, and make graphs


def host_us(ex: hg.Executor, call: Callable[[], object], pace: Pace) -> float:
    """Microseconds of one of the TOGETHER launches that a call makes, handed over to the device."""
    samples = []
    for turn in range(5 * pace.turns + UNCOUNTED):
        ex.synchronize()
        start = time.perf_counter()
        call()
        ex.device.flush()
        spent = time.perf_counter() - start
        if turn >= UNCOUNTED:
            samples.append(spent / TOGETHER)
    return microseconds(samples)
