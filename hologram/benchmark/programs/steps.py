"""Steps of a program in a place, each with inputs of its own: their times, launches, and the memory they leave."""

from __future__ import annotations

import math
import os
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from hologram.benchmark.programs.declared import Array, Program
from hologram.foundation.frozen import frozen
from hologram.machine.timeline import Clock

CHECKED = 3  # first steps whose results are kept, to be compared
WARM = 5  # steps before those whose times count
MARKS = (1, 10, 100, 1000, 10000, 100000)  # steps after which resident memory is noted
RESIDENT = Path("/proc/self/statm")  # Linux only
MEGABYTE = 1 << 20


@frozen
class Launches:
    """Of one step: how many kernels it launched, and the seconds that these took themselves, where that is known.

    `host_seconds` are those that the calling thread worked, where kernels run beside it.
    """

    count: int
    seconds: float | None
    host_seconds: float | None = None


@frozen
class Trial:
    """What one who computes a program has shown: the seconds of every turn's steps, and what came of these."""

    turns: list[list[float]]
    results: list[Array]
    resident: dict[int, float]
    launches: Launches | None

    @property
    def seconds(self) -> list[float]:
        return [spent for turn in self.turns for spent in turn]

    @property
    def counted(self) -> list[float]:
        """The median of each turn, but for the first steps, which compile; the last step where there are no others."""
        ends = np.cumsum([len(turn) for turn in self.turns])
        warm = [
            turn[max(WARM - int(end) + len(turn), 0) :] for turn, end in zip(self.turns, ends, strict=True)
        ]
        return [median(turn) for turn in warm if turn] or self.seconds[-1:]

    @property
    def host_seconds(self) -> float | None:
        """Of a step, what its kernels do not take, a launch; None where nobody can tell."""
        if self.launches is None or not self.launches.count:
            return None
        if self.launches.host_seconds is not None:
            return self.launches.host_seconds / self.launches.count
        if self.launches.seconds is None:
            return None
        host = median(self.counted) - self.launches.seconds
        return (
            host / self.launches.count if host > 0 else None
        )  # one that is profiled may be slower than a step


class Steps:
    """A program's steps in one place, one after another."""

    def __init__(self, program: Program, place: Any) -> None:
        self.program, self.place = program, place
        self.number = 0
        self.results: list[Array] = []
        self.resident: dict[int, float] = {}
        self._worked: list[float] = []  # seconds of the calling thread
        self._step = program.build(place)

    def take(self, count: int, seconds: float = math.inf) -> list[float]:
        """Seconds of each of so many steps, from arrays on the host to a result there; of fewer once time is up."""
        taken: list[float] = []
        while len(taken) < count and sum(taken) < seconds:
            taken.append(self._one())
        return taken

    def _one(self) -> float:
        given = self.program.given(self.number)
        start, worked = time.perf_counter(), time.thread_time()
        result = self.place.read(self._step(*given))
        spent = time.perf_counter() - start
        self._worked.append(time.thread_time() - worked)
        self.number += 1
        if self.number <= CHECKED:
            self.results.append(result)
        if self.number in MARKS and RESIDENT.exists():
            pages = int(RESIDENT.read_text().split()[1])
            self.resident[self.number] = round(pages * os.sysconf("SC_PAGE_SIZE") / MEGABYTE, 1)
        return spent

    def launches(self) -> Launches | None:
        """Those of one more step, which is not timed; None where nobody can tell."""
        executor, warm = self.place.executor, self._worked[WARM:]
        if executor is None:
            return None
        with executor.profile() as profile:
            self._one()
        seconds = sum(launch.duration_ns for launch in profile.launches) * 1e-9
        beside = bool(warm) and not executor.limits.host_resident
        return Launches(
            len(profile.launches),
            None if profile.clock is Clock.WAIT else seconds,
            median(warm) if beside else None,
        )
