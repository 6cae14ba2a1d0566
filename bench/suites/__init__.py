"""What is measured, and what it must show: rows with their goals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from bench.work import WORKS
from hologram.benchmark.report.records import Measurement
from hologram.benchmark.timing import Pace


@dataclass(frozen=True)
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
        held = [(most, found) for most, found in pairs if most is not None]
        if ours_us is None or not held or any(found is None for _, found in held):
            return None
        return all(found is not None and found <= most for most, found in held)


@dataclass(frozen=True)
class Row:
    """A work at a size (of a matmul: its side).

    The ratio is to the best of the peers in `against`, of all where that is empty; `in_mean` says whether it counts in
    the suite's geometric mean.
    """

    work: str
    size: int
    goal: Goal = Goal()
    against: tuple[str, ...] = ()
    in_mean: bool = True

    @property
    def label(self) -> str:
        """The size as people write it; a program has none."""
        return WORKS[self.work].label(self.size) if self.work in WORKS else ""


@dataclass(frozen=True)
class Result:
    """One row of the report."""

    suite: str
    row: str
    size: str
    ours_us: float | None
    peers_us: dict[str, float]
    goal: Goal = Goal()
    missing: dict[str, str] = field(default_factory=dict)  # contender: why it has no time
    against: tuple[str, ...] = ()  # peers that the ratio is to; all where empty
    in_mean: bool = False
    dispatches: int | None = None
    unit: str = "µs"  # another where no time is measured
    measured: tuple[Measurement, ...] = ()  # of a program, by everyone

    @property
    def best_us(self) -> float | None:
        """The time of the best peer that the ratio is to."""
        return min(
            (us for name, us in self.peers_us.items() if not self.against or name in self.against),
            default=None,
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

    @property
    def courses(self) -> dict[str, dict[str, Any]]:
        """How a program went, by who computed it."""
        return {m.key.who: asdict(m.course) for m in self.measured if m.course}

    def record(self) -> dict[str, Any]:
        """The row of the JSON file."""
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
            "goal": {"ratio": self.goal.ratio, "us": self.goal.us, "dispatches": self.goal.dispatches},
            "met": self.met,
            "missing": self.missing,
            **({"courses": self.courses} if self.measured else {}),
        }


@dataclass(frozen=True)
class Suite:
    """What is measured on a backend: rows beside the peers, and rows that have none among the libraries.

    A suite without a backend is measured on any: `measure(row, backend, who, steps, turn_seconds)` has its own way.
    """

    name: str
    backend: str
    ours: str  # the contender that the peers are beside
    peers: tuple[str, ...]
    rows: Callable[[], Iterator[Row]]
    own_rows: Callable[[Pace], Iterator[Result]]
    geometric_mean: float | None = None  # the most that the ratios' mean may be
    measure: Callable[[Row, str, tuple[str, ...], int, float], Result] | None = None

    def result(
        self, row: Row, times: dict[str, float], missing: dict[str, str], dispatches: int | None = None
    ) -> Result:
        """The report's row from everyone's times."""
        peers = {name: us for name, us in times.items() if name != self.ours}
        return Result(
            self.name,
            row.work,
            row.label,
            times.get(self.ours),
            peers,
            row.goal,
            missing,
            row.against,
            row.in_mean,
            dispatches,
        )
