"""A program by everyone in turns, each in a fresh process: what is kept from one program would help another.

What is asked of a process is a function of its `Steps`.
"""

from __future__ import annotations

import contextlib
import math
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from statistics import median
from typing import Any

import numpy as np

from hologram.benchmark.process import SETTLE_SECONDS, Answer, Process, not_installed
from hologram.benchmark.programs.declared import Array, Program
from hologram.benchmark.programs.places import OF_ARRAYS, OF_TORCH
from hologram.benchmark.programs.steps import WARM, Launches, Steps
from hologram.benchmark.programs.table import PROGRAMS
from hologram.foundation.frozen import frozen

TURNS = 5  # of everyone, for the steps behind the first
# Who of ours is beside whom, by whether the program is jitted; a ratio is to the first peer that has a time.
OURS = {False: "hologram eager", True: "hologram jit"}
PEERS = {False: ("torch",), True: ("jax", "numpy")}


@frozen
class Contender:
    """Who computes, and where: a backend, or an adapter's name; what is not ours computes on the host."""

    who: str
    where: str

    @property
    def ours(self) -> bool:
        return ours(self.who)


def ours(who: str) -> bool:
    """Whether somebody of that name is hologram."""
    return who.startswith("hologram")


@frozen
class Found:
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


def serve(pipe: Connection, name: str, where: str, program: str) -> None:
    """Runs in the process: opens the place and builds the program, then answers for its steps until told to stop."""
    function: Callable[[Steps | None], Any]
    steps: Steps | None = None
    try:
        with contextlib.redirect_stdout(sys.stderr):  # what libraries say is no part of a report
            place = (OF_TORCH | OF_ARRAYS)[name](where)
            steps = Steps(PROGRAMS[program], place)
            pipe.send(Answer(True))
            while (request := pipe.recv()) is not None:
                function, arguments = request
                pipe.send(Answer(function(steps, *arguments)))
    except ModuleNotFoundError as error:
        pipe.send(Answer(absent=not_installed((error.name or str(error)).partition(".")[0])))
    except Exception as error:  # noqa: BLE001  (whatever a program raises is reported, and the others go on)
        words = str(error).strip().splitlines() or [""]
        pipe.send(Answer(failed=f"{type(error).__name__}: {words[0]}"))


def found(steps: Steps, turns: list[list[float]]) -> Found:
    """What a process knows at the end."""
    return Found(turns, steps.results, steps.resident, steps.launches())


def measure(
    program: Program,
    contenders: Sequence[Contender],
    steps: int,
    turn_seconds: float,
    seconds: float = math.inf,
) -> dict[Contender, Answer]:
    """What everyone has found, who take so many steps each in turns, fewer where these take longer.

    Once so many seconds are over there are no more turns behind the second.
    """
    processes = {one: Process(one.who, serve, one.who, one.where, program.name) for one in contenders}
    turns: dict[Contender, list[list[float]]] = {one: [] for one in contenders}
    answers: dict[Contender, Answer] = {}

    def ask(one: Contender, function: Callable[..., Any], *arguments: Any) -> None:
        if answers[one].value is not None:
            time.sleep(SETTLE_SECONDS)
            answers[one] = processes[one].ask((function, arguments))

    try:
        answers |= {one: process.opened for one, process in processes.items()}
        begun = time.monotonic()
        for turn, count in enumerate(shares(steps)):
            if turn > 1 and time.monotonic() - begun > seconds:
                break
            for one in contenders:
                ask(one, Steps.take, count, turn_seconds)
                turns[one].append(answers[one].value or [])
        for one in contenders:
            ask(one, found, turns[one])
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
