"""What is measured, and what it must show: rows with their goals."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from bench.work import format_size


@dataclass(frozen=True)
class Goal:
    """The most that a row may take: as a share of the best peer's time, in microseconds, or both."""

    ratio: float | None = None
    us: float | None = None

    def __str__(self) -> str:
        parts = [f"≤ {self.ratio:g} x"] if self.ratio is not None else []
        parts += [f"≤ {self.us:g} µs"] if self.us is not None else []
        return ", ".join(parts)

    def met(self, ours_us: float | None, ratio: float | None) -> bool | None:
        """Whether the goal is reached; None where there is none, or nothing to hold it against."""
        if ours_us is None or (self.ratio is None and self.us is None):
            return None
        if self.ratio is not None and ratio is None:
            return None
        within_ratio = self.ratio is None or (ratio is not None and ratio <= self.ratio)
        return within_ratio and (self.us is None or ours_us <= self.us)


@dataclass(frozen=True)
class Row:
    """A work at a size (of a matmul: its side)."""

    work: str
    size: int
    goal: Goal = Goal()

    @property
    def label(self) -> str:
        """The size as people write it."""
        return str(self.size) if self.work == "matmul" else format_size(self.size)


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

    @property
    def ratio(self) -> float | None:
        """Our time over the best peer's."""
        if self.ours_us is None or not self.peers_us:
            return None
        return round(self.ours_us / min(self.peers_us.values()), 4)

    @property
    def met(self) -> bool | None:
        return self.goal.met(self.ours_us, self.ratio)

    def record(self) -> dict[str, Any]:
        """The row of the JSON file."""
        return {
            "suite": self.suite,
            "row": self.row,
            "size": self.size,
            "ours_us": self.ours_us,
            "peers_us": self.peers_us,
            "ratio": self.ratio,
            "goal": {"ratio": self.goal.ratio, "us": self.goal.us},
            "met": self.met,
            "missing": self.missing,
        }


def result_of(suite: str, row: Row, times: dict[str, float], missing: dict[str, str]) -> Result:
    """The report's row from everyone's times; 'hologram' is ours."""
    peers = {name: us for name, us in times.items() if name != "hologram"}
    return Result(suite, row.work, row.label, times.get("hologram"), peers, row.goal, missing)
