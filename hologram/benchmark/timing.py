"""How calls are timed: in turns, so that a busy machine hits every contender alike, and by medians.

A turn is some calls that are not counted (caches, clocks, threads that had gone to sleep), then samples until a time is
spent. A sample is one call and its synchronisation; calls of few microseconds are timed several to a sample.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from statistics import median

from hologram.foundation.frozen import frozen

SAMPLE_SECONDS = 100e-6  # shorter calls are repeated until a sample takes about as long

TURNS = 5  # of a measurement

SLOW_SECONDS = 0.5  # of what takes longer, a turn is one call to warm up and one sample


@frozen
class Pace:
    """How long to measure: turns of every contender, seconds of each turn, and samples in it at the least."""

    turns: int
    turn_seconds: float
    samples: int


FULL = Pace(turns=9, turn_seconds=0.06, samples=3)
QUICK = Pace(turns=3, turn_seconds=0.02, samples=1)


def take_turn(
    call: Callable[[], object],
    pace: Pace,
    clock: Callable[[], float] = time.perf_counter,
) -> list[float]:
    """Seconds of one call, once per sample of a turn."""
    start = clock()
    call()
    once = clock() - start
    if once < SLOW_SECONDS:
        start = clock()
        call()
        once = clock() - start
    repeats = max(1, min(100_000, int(SAMPLE_SECONDS / max(once, 1e-9))))
    samples: list[float] = []
    begun = clock()
    while len(samples) < pace.samples or clock() - begun < pace.turn_seconds:
        start = clock()
        for _ in range(repeats):
            call()
        samples.append((clock() - start) / repeats)
        if once > SLOW_SECONDS:
            break
    return samples


def turn_medians(call: Callable[[], object], seconds: float, turns: int = TURNS) -> tuple[float, ...]:
    """Seconds of a call, the median of each of some turns that take about so many seconds in all.

    Where there is no time for that, a turn is one call, and there are as many as fit: one at the least.
    """
    start = time.perf_counter()
    call()
    once = time.perf_counter() - start
    if 4 * once * turns > seconds:
        count = max(1, min(turns, int(seconds / once) - 1))
        return tuple(single(call) for _ in range(count))
    pace = Pace(turns, seconds / turns - 2 * once, samples=1)
    return tuple(median(take_turn(call, pace)) for _ in range(turns))


def single(call: Callable[[], object]) -> float:
    """Seconds of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def microseconds(samples: list[float]) -> float:
    """The median of samples in seconds, in microseconds."""
    return round(median(samples) * 1e6, 3)


def busy(threads: int) -> str | None:
    """A warning where other processes hold the cores, which hurts libraries whose threads wait for one another."""
    if not hasattr(os, "getloadavg"):
        return None
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load <= max(0.3, cores - threads + 0.3):
        return None
    return (
        f"load average {load:.1f} on {cores} cores: other work is running, and {threads} threads do not have a core "
        "each. Times are inflated, most of all those of libraries whose threads wait at barriers (NumPy's products of "
        "matrices, torch): compare no ratios."
    )
