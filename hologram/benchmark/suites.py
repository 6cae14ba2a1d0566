"""Suites: what is measured on a backend beside peers, and what it must show; rows with their goals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from statistics import median
from typing import Any

from hologram.benchmark.jobs import Job
from hologram.benchmark.report.records import Key, Kind, Measurement
from hologram.benchmark.timing import NoTime, Pace, in_turns, take_turn
from hologram.benchmark.works import WORKS
from hologram.foundation.frozen import frozen


@frozen
class Goal:
    """The most that a row may take: as a share of the best peer's time, in microseconds, in kernels launched."""

    ratio: float | None = None
    us: float | None = None
    dispatches: int | None = None

    def __str__(self) -> str:
        parts = [f"≤ {self.ratio:.3g} x"] if self.ratio is not None else []
        parts += [f"≤ {self.us:g} µs"] if self.us is not None else []
        if self.dispatches is not None:
            parts.append(f"≤ {self.dispatches} dispatch" + ("es" if self.dispatches > 1 else ""))
        return ", ".join(parts)

    def met(
        self, ours_us: float | None, ratio: float | None = None, dispatches: int | None = None
    ) -> bool | None:
        """Whether all of the goal is reached; None where there is none, or nothing to hold a part of it against."""
        pairs = ((self.ratio, ratio), (self.us, ours_us), (self.dispatches, dispatches))
        held = [(most, value) for most, value in pairs if most is not None]
        if ours_us is None or not held or any(value is None for _, value in held):
            return None
        return all(value is not None and value <= most for most, value in held)


NO_GOAL = Goal()


@frozen
class Row:
    """A work at a size (of a matmul: its side), or a whole program, whose name may be that of a work too.

    The ratio is to the best of the peers in `against`, of all where that is empty; `in_mean` says whether it counts in
    the suite's geometric mean.
    """

    work: str
    size: int = 0
    goal: Goal = NO_GOAL
    against: tuple[str, ...] = ()
    in_mean: bool = True
    program: bool = False

    @property
    def label(self) -> str:
        """The size as people write it; a program has none."""
        return "" if self.program else WORKS[self.work].label(self.size)


@frozen
class Result:
    """One row of the report: everyone's measurements, ours by its name."""

    ours: str
    measured: tuple[Measurement, ...]
    goal: Goal = NO_GOAL
    against: tuple[str, ...] = ()  # peers that the ratio is to; all where empty
    in_mean: bool = False
    dispatches: int | None = None
    unit: str = "µs"  # another where no time is measured
    suite: str = ""
    label: str = ""  # where it is not the size of the measurements

    @property
    def row(self) -> str:
        return self.measured[0].key.row

    @property
    def size(self) -> str:
        return self.label or self.measured[0].key.size

    @property
    def times(self) -> dict[str, float]:
        """Everyone's who has one, in the unit."""
        scale = 1e6 if self.unit == "µs" else 1
        return {m.key.who: round(m.seconds * scale, 3) for m in self.measured if m.seconds is not None}

    @property
    def missing(self) -> dict[str, str]:
        """Why others have none."""
        return {m.key.who: m.why for m in self.measured if m.why}

    @property
    def ours_us(self) -> float | None:
        return self.times.get(self.ours)

    @property
    def peers_us(self) -> dict[str, float]:
        return {name: us for name, us in self.times.items() if name != self.ours}

    @property
    def best_us(self) -> float | None:
        """The time of the best peer that the ratio is to."""
        peers = self.peers_us
        return min(
            (us for name, us in peers.items() if not self.against or name in self.against), default=None
        )

    @property
    def ratio(self) -> float | None:
        """Our time over the best peer's."""
        if self.ours_us is None or self.best_us is None:
            return None
        return round(self.ours_us / self.best_us, 4)

    @property
    def met(self) -> bool | None:
        return self.goal.met(self.ours_us, self.ratio, self.dispatches)

    def record(self) -> dict[str, Any]:
        """The row of the JSON file."""
        courses = {m.key.who: asdict(m.course) for m in self.measured if m.course}
        return {
            "suite": self.suite,
            "row": self.row,
            "size": self.size,
            "unit": self.unit,
            "ours_us": self.ours_us,
            "peers_us": self.peers_us,
            "against": list(self.against),
            "ratio": self.ratio,
            "dispatches": self.dispatches,
            "goal": asdict(self.goal),
            "met": self.met,
            "missing": self.missing,
            **({"courses": courses} if courses else {}),
        }


def nothing(*_: Any) -> Iterator[Any]:
    """No rows."""
    return iter(())


@frozen
class Suite:
    """What is measured on a backend: rows beside the peers, and rows that have none among the libraries.

    A suite without a backend is measured on the one that is asked for.
    """

    name: str
    backend: str
    ours: str = "hologram"  # the contender that the peers are beside
    peers: tuple[str, ...] = ()
    rows: Callable[[], Iterator[Row]] = nothing
    own_rows: Callable[[str, Pace], Iterator[Result]] = nothing  # on a backend
    geometric_mean: float | None = None  # the most that the ratios' mean may be


def result(
    row: str,
    size: str,
    turns: Mapping[str, Sequence[float]],
    missing: Mapping[str, str],
    goal: Goal,
    ours: str,
    **more: Any,
) -> Result:
    """A row of turns by who computed, and why others have none."""
    everyone = tuple(dict.fromkeys((*turns, *missing)))
    measured = tuple(
        Measurement(
            Key(Kind.OPERATION, row, size, name, ""), tuple(turns.get(name, ())), why=missing.get(name, "")
        )
        for name in everyone
    )
    return Result(ours, measured, goal, **more)


def timed(
    jobs: Mapping[str, Job], pace: Pace, before: Callable[[], object] = bool
) -> tuple[dict[str, list[float]], dict[str, str]]:
    """The median of each turn of jobs in this process, in seconds; and what is wrong with those that have none."""
    wrong = {}
    for name, job in jobs.items():
        try:
            job.check()
        except NoTime as why:
            wrong[name] = str(why)

    def turn(job: Job, pace: Pace) -> float:
        return median(take_turn(job.call, pace, before=before))

    right = {name: partial(turn, job) for name, job in jobs.items() if name not in wrong}
    turns, missing = in_turns(right, [pace] * pace.turns)
    return turns, wrong | missing


def own(
    row: str,
    size: str,
    jobs: Mapping[str, Job | Callable[[], object]],
    pace: Pace,
    goal: Goal = NO_GOAL,
    each: float = 1,
    before: Callable[[], object] = bool,
    **more: Any,
) -> Result:
    """A row of jobs in this process, ours first; a call makes `each` of what is timed."""
    made = {name: job if isinstance(job, Job) else Job(job) for name, job in jobs.items()}
    turns, missing = timed(made, pace, before)
    each_turn = {name: [spent / each for spent in taken] for name, taken in turns.items()}
    return result(row, size, each_turn, missing, goal, next(iter(jobs)), **more)


def geometric_mean(results: Sequence[Result]) -> float | None:
    """Of the ratios there are."""
    ratios = [r.ratio for r in results if r.ratio is not None]
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None
