"""Whole programs beside their peers, as rows with goals."""

from __future__ import annotations

from collections.abc import Sequence

from bench.suites import Goal, Result
from hologram.benchmark.programs.declared import Program
from hologram.benchmark.programs.turns import OURS, PEERS
from hologram.benchmark.report.records import Measurement
from hologram.benchmark.report.tables import Table, programs


def result(program: Program, backend: str, measured: Sequence[Measurement]) -> Result:
    """The row: everyone's time, and how ours is beside the first peer's."""
    times = {m.key.who: round(m.seconds * 1e6, 1) for m in measured if m.seconds}
    return Result(
        "programs",
        program.name,
        backend,
        times.pop(OURS[program.jitted], None),
        times,
        Goal(ratio=program.limit),
        {m.key.who: m.why for m in measured if m.why},
        tuple(peer for peer in PEERS[program.jitted][:1] if peer in times),
        in_mean=True,
        measured=tuple(measured),
    )


def details(results: Sequence[Result]) -> Table:
    """What the medians of all results hide; why others have none is told with their rows."""
    return programs([m for result in results for m in result.measured if m.seconds])
