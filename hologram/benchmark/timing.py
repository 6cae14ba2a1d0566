"""How calls are timed: in turns, so that a busy machine hits every contender alike, and by medians.

A turn is some calls that are not counted (caches, clocks, threads that had gone to sleep), then samples until a time is
spent. A sample is one call and its synchronisation; calls of few microseconds are timed several to a sample.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Mapping
from statistics import median
from typing import TypeVar

from hologram.foundation.frozen import frozen

SAMPLE_SECONDS = 100e-6  # shorter calls are repeated until a sample takes about as long
TURNS = 5  # of a measurement
SLOW_SECONDS = 0.5  # of what takes longer, a turn is one call to warm up and one sample
GIVE_MORE = "give it more --seconds"
NOT_REACHED = f"its process was stopped when its time was over; {GIVE_MORE}"

Who = TypeVar("Who")
Given = TypeVar("Given")
Taken = TypeVar("Taken")


class NoTime(Exception):
    """What is wrong, absent or over, so that there is no time; its text says why."""


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
    before: Callable[[], object] = bool,
) -> list[float]:
    """Seconds of one call, once per sample of a turn; `before` runs ahead of each sample and does not count."""

    def sample(repeats: int = 1) -> float:
        before()
        start = clock()
        for _ in range(repeats):
            call()
        return (clock() - start) / repeats

    once = sample()
    if once < SLOW_SECONDS:
        once = sample()
    repeats = max(1, min(100_000, int(SAMPLE_SECONDS / max(once, 1e-9))))
    samples: list[float] = []
    begun = clock()
    while len(samples) < pace.samples or clock() - begun < pace.turn_seconds:
        samples.append(sample(repeats))
        if once > SLOW_SECONDS:
            break
    return samples


def in_turns(
    takers: Mapping[Who, Callable[[Given], Taken]],
    rounds: Iterable[Given],
    seconds: float = math.inf,
    least: int = QUICK.turns,
) -> tuple[dict[Who, list[Taken]], dict[Who, str]]:
    """What everyone's turns gave, a turn each in every round, in changing order; and why some have no time.

    A taker that raises NoTime has no more turns. Once so many seconds are over, `least` rounds are all there are.
    """
    order, begun = list(takers), time.monotonic()
    taken: dict[Who, list[Taken]] = {one: [] for one in order}
    missing: dict[Who, str] = {}
    for number, given in enumerate(rounds):
        if number >= least and time.monotonic() - begun > seconds:
            break
        first = number % max(len(order), 1)
        for one in (*order[first:], *order[:first]):
            if one in missing:
                continue
            try:
                taken[one].append(takers[one](given))
            except NoTime as why:
                missing[one] = str(why)
    return {one: turns for one, turns in taken.items() if one not in missing}, missing


def turn_medians(call: Callable[[], object], seconds: float, turns: int = TURNS) -> tuple[float, ...]:
    """Seconds of a call, the median of each of some turns that take about so many seconds in all.

    Where there is no time for that, a turn is one call, and there are as many as fit: one at the least.
    """
    once = single(call)
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
