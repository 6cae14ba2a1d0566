"""Programs by everyone in turns, each in a fresh process: what is kept from one program would help another.

What is asked of a process is a function of its `Steps`.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from statistics import median
from typing import Any

import numpy as np
from rich.table import Table

from bench.suites import Goal, Result
from bench.worker import SETTLE_SECONDS, Answer, Process
from hologram.benchmark.programs.declared import Array, Program
from hologram.benchmark.programs.places import OF_ARRAYS, OF_TORCH
from hologram.benchmark.programs.steps import WARM, Launches, Steps
from hologram.benchmark.programs.table import PROGRAMS
from hologram.records import frozen

TURNS = 5  # of everyone, for the steps behind the first
# Whose ratio to whom is a row's, by whether the program is jitted.
OURS = {False: "hologram eager", True: "hologram jit"}
PEER = {False: "torch", True: "jax"}


@frozen
class Found:
    """What one who computes a program has shown; seconds are of steps, in their order."""

    seconds: list[float]
    results: list[Array]
    resident: dict[int, float]
    launches: Launches | None

    @property
    def median(self) -> float:
        """Of the steps behind the first, which compile."""
        return median(self.seconds[min(WARM, len(self.seconds) - 1) :])

    @property
    def host_us(self) -> float | None:
        """Microseconds of a step that its kernels do not take, a launch."""
        if self.launches is None or self.launches.seconds is None or not self.launches.count:
            return None
        return (self.median - self.launches.seconds) / self.launches.count * 1e6

    def record(self, parts: int) -> dict[str, Any]:
        return {
            "us": round(self.median / parts * 1e6, 1),
            "least_us": round(min(self.seconds) / parts * 1e6, 1),
            "first_ms": round(self.seconds[0] * 1e3, 1),
            "steps": len(self.seconds),
            "launches": self.launches and self.launches.count / parts,
            "host_us": None if self.host_us is None else round(self.host_us, 2),
            "resident_mb": self.resident,
        }


def serve(pipe: Connection, name: str, backend: str, program: str) -> None:
    """Runs in the process: opens the place and builds the program, then answers for its steps until told to stop."""
    function: Callable[[Steps | None], Any]
    steps: Steps | None = None
    try:
        with contextlib.redirect_stdout(sys.stderr):
            place = (OF_TORCH | OF_ARRAYS)[name](backend)
            steps = Steps(PROGRAMS[program], place)
        pipe.send(Answer(True))
        while (request := pipe.recv()) is not None:
            function, arguments = request
            pipe.send(Answer(function(steps, *arguments)))
    except ImportError as error:
        pipe.send(Answer(absent=f"not installed ({error})"))
    except Exception as error:  # noqa: BLE001  (whatever a program raises is reported, and the others go on)
        words = str(error).strip().splitlines() or [""]
        pipe.send(Answer(failed=f"{type(error).__name__}: {words[0]}"))


def found(steps: Steps, seconds: list[float]) -> Found:
    """What a process knows at the end."""
    return Found(seconds, steps.results, steps.resident, steps.launches())


def measure(
    program: Program, backend: str, who: Sequence[str], steps: int, turn_seconds: float
) -> dict[str, Answer]:
    """What everyone has found, who take so many steps each in turns, fewer where these take longer."""
    processes = {name: Process(name, serve, name, backend, program.name) for name in who}
    answers = {name: process.opened for name, process in processes.items()}
    seconds: dict[str, list[float]] = {name: [] for name in who}

    def ask(name: str, function: Callable[..., Any], *arguments: Any) -> None:
        if answers[name].value is not None:
            time.sleep(SETTLE_SECONDS)
            answers[name] = processes[name].ask((function, arguments))

    try:
        for count in shares(steps):
            for name in who:
                ask(name, Steps.take, count, turn_seconds)
                seconds[name] += answers[name].value or ()
        for name in who:
            ask(name, found, seconds[name])
    finally:
        for process in processes.values():
            process.close()
    return answers


def shares(steps: int) -> list[int]:
    """How many steps each turn has: those that warm up, then the others in equal parts."""
    warm = min(WARM, steps)
    left, turns = steps - warm, min(TURNS, steps - warm)
    return [warm, *(left // turns + (turn < left % turns) for turn in range(turns))]


def problem(program: Program, one: Found, peer: Found) -> str:
    """How the first results differ from a peer's, where they do."""
    for number, (a, b) in enumerate(zip(one.results, peer.results, strict=False)):
        if a.shape != b.shape:
            return f"wrong result: step {number} has {a.shape}, not {b.shape}"
        worst = float(np.abs(a.astype(np.float64) - b).max() / max(float(np.abs(b).max()), 1e-30))
        if not worst <= program.tolerance:
            return f"wrong result: step {number} is off by {worst:.1e}, more than {program.tolerance:.0e}"
    return ""


def result(program: Program, backend: str, answers: dict[str, Answer]) -> Result:
    """The row: everyone's time, for those who agree with the first peer that has results."""
    missing = {n: a.absent or a.failed for n, a in answers.items() if not isinstance(a.value, Found)}
    shown: dict[str, Found] = {n: a.value for n, a in answers.items() if n not in missing}
    reference = next((f for n, f in reversed(shown.items()) if not n.startswith("hologram")), None)
    for name, one in shown.items():
        why = "" if reference is None else problem(program, one, reference)
        if why:
            missing[name] = why
    details = {n: f.record(program.parts) for n, f in shown.items() if n not in missing}
    times = {name: detail["us"] for name, detail in details.items()}
    ours = times.pop(OURS[program.jitted], None)
    against = tuple(n for n in (PEER[program.jitted],) if n in times)
    return Result(
        "programs",
        program.name,
        backend,
        ours,
        times,
        Goal(ratio=program.limit),
        missing,
        against,
        in_mean=True,
        details=details,
    )


def details(results: Sequence[Result]) -> Table:
    """The first call, launches, the host's time for each, and resident memory, of everyone in a program."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    marks = sorted({mark for r in results for d in r.details.values() for mark in d["resident_mb"]})
    for column in ("program", "by"):
        table.add_column(column)
    for column in (
        "first, ms",
        "least, µs",
        "launches",
        "host, µs",
        *(f"MB after {mark:,}" for mark in marks),
    ):
        table.add_column(column, justify="right")
    for result in results:
        for name, detail in result.details.items():
            shown = (detail["first_ms"], detail["least_us"], detail["launches"], detail["host_us"])
            memory = (detail["resident_mb"].get(mark) for mark in marks)
            cells = (
                "" if value is None else f"{value:,.1f}".removesuffix(".0") for value in (*shown, *memory)
            )
            table.add_row(result.row, name, *cells)
    return table
