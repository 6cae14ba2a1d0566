"""What a process is asked: to open a contender, to make work ready and check it, to take turns or a program's steps."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from statistics import median
from typing import Any

from hologram.benchmark.contenders import Who, open_contender
from hologram.benchmark.jobs import Job
from hologram.benchmark.piece import measured
from hologram.benchmark.programs.steps import Steps, Trial
from hologram.benchmark.programs.table import PROGRAMS
from hologram.benchmark.report.records import Key, Kind, Measurement
from hologram.benchmark.timing import NoTime, Pace, take_turn
from hologram.benchmark.works import WORKS, Contender

RESIDENT = Path("/proc/self/statm")  # where there is none, the peak until then is taken
MEGABYTE = 1 << 20


class Desk:
    """Whom a process has opened, and what is ready."""

    def __init__(self) -> None:
        self._contenders: dict[Who, Contender] = {}
        self._job: Job | None = None
        self._steps: Steps | None = None
        self._turns: list[list[float]] = []

    def open(self, who: Who) -> str:
        """Opens a contender, and gives the name of its device."""
        return self._opened(who).device

    def prepare(self, who: Who, work: str, size: int) -> bool:
        """Makes a work ready, and looks at its result: a fast wrong answer is none."""
        self._job = None
        self._job = WORKS[work].job(self._opened(who), size)
        self._job.check()
        return True

    def turn(self, pace: Pace) -> float:
        """The median of a turn, in seconds."""
        assert self._job is not None
        return median(take_turn(self._job.call, pace))

    def dispatches(self) -> int:
        """Kernels that a call of the work launches."""
        if self._job is None or self._job.dispatches is None:
            raise NoTime("it does not count its launches")
        return self._job.dispatches()

    def measure(self, who: Who, key: Key, seconds: float) -> Measurement:
        """A model within about so many seconds, on its own."""
        work = WORKS[f"{key.row}_{'step' if key.kind is Kind.TRAINING else 'forward'}"]
        return measured(Measurement(key), lambda: work.job(self._opened(who), int(key.size)), seconds)

    def grown(self, who: Who, work: str, size: int) -> float:
        """Megabytes by which a fresh process grows at its peak: parameters, batch, compiled code, and three calls."""
        contender, inputs = self._opened(who), WORKS[work].inputs(size)
        before = _peak_bytes()
        if RESIDENT.exists():
            before = int(RESIDENT.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        job = contender.prepare(WORKS[work], inputs)
        if job is None:
            raise NoTime("no such operation")
        for _ in range(3):
            job.call()
        return round((_peak_bytes() - before) / MEGABYTE, 1)

    def build(self, who: Who, program: str) -> bool:
        """Opens a contender and builds a program in it."""
        self._steps = Steps(PROGRAMS[program], self._opened(who))
        return True

    def take(self, count: int, seconds: float) -> bool:
        """So many steps of the program, or fewer."""
        assert self._steps is not None
        self._turns.append(self._steps.take(count, seconds))
        return True

    def trial(self) -> Trial:
        """All that is known of the program at the end."""
        assert self._steps is not None
        return Trial(self._turns, self._steps.results, self._steps.resident, self._steps.launches())

    def _opened(self, who: Who) -> Any:
        if who not in self._contenders:
            self._contenders[who] = open_contender(who)
        return self._contenders[who]


def _peak_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if os.uname().sysname == "Darwin" else peak * 1024
