"""Whole programs: ours on every adapter and their peers, in turns, each in a fresh process.

What is kept from one program would help another; as pieces of a run they are what `hologram bench programs` measures.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from hologram.benchmark.contenders import Who
from hologram.benchmark.piece import Piece
from hologram.benchmark.process import SETTLE_SECONDS, Process
from hologram.benchmark.programs.declared import Program
from hologram.benchmark.programs.steps import WARM, Trial
from hologram.benchmark.programs.table import PROGRAMS
from hologram.benchmark.report.records import HOST, STEP, Course, Key, Kind, Measurement
from hologram.benchmark.timing import in_turns

STEPS, QUICK_STEPS = 1000, 20  # at the most: fewer where the time ends
QUICK = ("kalman", "llama_static", "lstm_step", "cnn_step")
OPENING_SECONDS = 12.0  # until everyone's process has imported its library and built a program
TURNS = 5  # of everyone, for the steps behind the first
# Who of ours is beside whom, by whether the program is jitted; a ratio is to the first peer that has a time.
OURS = {False: "hologram eager", True: "hologram jit"}
PEERS = {False: ("torch",), True: ("jax", "numpy")}
CARD, ON_CARD = (
    "cuda",
    ("torch", "inductor"),
)  # a backend whose cards PyTorch has as well, and what it is called
# All who can compute one.
ABLE = {
    False: ("hologram eager", "hologram compiled", "torch", "inductor"),
    True: ("hologram jit", "jax", "numpy"),
}


def pieces(programs: Sequence[str], adapters: Sequence[str], steps: int) -> list[Piece]:
    """A piece a program: a few are something to compare already."""
    return [
        Piece(name, 1.0, partial(measured, PROGRAMS[name], adapters, steps), OPENING_SECONDS)
        for name in programs
    ]


def measured(program: Program, adapters: Sequence[str], steps: int, seconds: float) -> Iterator[Measurement]:
    """A program by everyone, within about so many seconds."""
    everyone = contenders(program, adapters, (OURS[program.jitted], *PEERS[program.jitted]))
    left = max(seconds - OPENING_SECONDS, 1.0)
    turn_seconds = left / len(shares(steps)) / len(everyone)
    yield from measurements(program, measure(program, everyone, steps, turn_seconds, left))


def contenders(program: Program, adapters: Sequence[str], who: Sequence[str]) -> list[Who]:
    """Those of `who` who can compute a program: ours on each adapter, the others on the host.

    Where the backend CARD is compared alone, PyTorch is beside it on the card.
    """
    able = [Who(name, HOST) for name in ABLE[program.jitted] if name in who]
    theirs = dict.fromkeys(ON_CARD, (CARD,)) if tuple(adapters) == (CARD,) else {}
    return [
        Who(one.name, where)
        for one in able
        for where in (adapters if one.ours else theirs.get(one.name, (HOST,)))
    ]


def measure(
    program: Program, everyone: Sequence[Who], steps: int, turn_seconds: float, seconds: float = math.inf
) -> dict[Who, Trial | str]:
    """What everyone has found, or why nothing, who take so many steps each in turns, fewer where these take longer.

    Once so many seconds are over there are no more turns behind the second.
    """
    processes = {one: Process() for one in everyone}

    def ask(one: Who, name: str, *arguments: Any) -> Any:
        time.sleep(SETTLE_SECONDS)
        return processes[one].ask(name, *arguments)

    try:
        for one, process in processes.items():
            process.tell("build", one, program.name)
        opened, absent = in_turns({one: process.answer for one, process in processes.items()}, [None])
        takers = {one: lambda count, one=one: ask(one, "take", count, turn_seconds) for one in opened}
        turns, missing = in_turns(takers, shares(steps), seconds, least=2)
        ends, late = in_turns({one: partial(ask, one) for one in turns}, ["trial"])
        return {one: ends[one][0] if one in ends else (absent | missing | late)[one] for one in everyone}
    finally:
        for process in processes.values():
            process.close()


def shares(steps: int) -> list[int]:
    """How many steps each turn has: those that warm up, then the others in equal parts."""
    warm = min(WARM, steps)
    left, turns = steps - warm, min(TURNS, steps - warm)
    return [warm, *(left // turns + (turn < left % turns) for turn in range(turns))]


def problem(program: Program, one: Trial, peer: Trial) -> str:
    """How the first results differ from a peer's, where they do."""
    for number, (a, b) in enumerate(zip(one.results, peer.results, strict=False)):
        if a.shape != b.shape:
            return f"wrong result: step {number} has {a.shape}, not {b.shape}"
        worst = float(np.abs(a.astype(np.float64) - b).max() / max(float(np.abs(b).max()), 1e-30))
        if not worst <= program.tolerance:
            return f"wrong result: step {number} is off by {worst:.1e}, more than {program.tolerance:.0e}"
    return ""


def measurements(program: Program, answers: Mapping[Who, Trial | str]) -> list[Measurement]:
    """Everyone's, with times where results agree with a peer's: the last one who has any."""
    shown = {one: answer for one, answer in answers.items() if isinstance(answer, Trial)}
    reference = next((answer for one, answer in reversed(shown.items()) if not one.ours), None)
    size = STEP if program.parts == 1 else f"{STEP} / {program.parts}"
    made = []
    for one, answer in answers.items():
        key = Key(Kind.PROGRAM, program.name, size, one.name, one.where)
        if isinstance(answer, str):
            made.append(Measurement(key, why=answer))
            continue
        why = "" if reference is None else problem(program, answer, reference)
        times = () if why else tuple(spent / program.parts for spent in answer.counted)
        made.append(Measurement(key, times, why=why, course=None if why else course(program, answer)))
    return made


def course(program: Program, answer: Trial) -> Course:
    """What times of a program do not say; launches and the least time are of one of its parts, as its times are."""
    return Course(
        len(answer.seconds),
        answer.seconds[0],
        min(answer.seconds) / program.parts,
        None if answer.launches is None else answer.launches.count / program.parts,
        answer.host_seconds,
        {str(mark): megabytes for mark, megabytes in answer.resident.items()},
    )
