"""Whole programs as pieces of a run: ours on every adapter and their peers, in turns and in fresh processes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from hologram.benchmark.piece import Piece
from hologram.benchmark.process import Answer
from hologram.benchmark.programs import turns
from hologram.benchmark.programs.declared import Program
from hologram.benchmark.programs.places import OF_ARRAYS, OF_TORCH
from hologram.benchmark.programs.table import PROGRAMS
from hologram.benchmark.programs.turns import OURS, PEERS, Contender, Found, ours
from hologram.benchmark.report.records import HOST, STEP, Course, Key, Kind, Measurement

STEPS, QUICK_STEPS = 1000, 20  # at the most: fewer where the time ends
QUICK = ("kalman", "llama_static", "lstm_step", "cnn_step")
OPENING_SECONDS = 12.0  # until everyone's process has imported its library and built a program


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
    turn_seconds = left / len(turns.shares(steps)) / len(everyone)
    yield from measurements(program, turns.measure(program, everyone, steps, turn_seconds, left))


def contenders(program: Program, adapters: Sequence[str], who: Sequence[str]) -> list[Contender]:
    """Those of `who` who can compute a program: ours on each adapter, the others on the host."""
    able = [name for name in (OF_ARRAYS if program.jitted else OF_TORCH) if name in who]
    return [Contender(name, where) for name in able for where in (adapters if ours(name) else (HOST,))]


def measurements(program: Program, answers: Mapping[Contender, Answer]) -> list[Measurement]:
    """Everyone's, with times where results agree with a peer's: the last one who has any."""
    shown = {one: answer.value for one, answer in answers.items() if isinstance(answer.value, Found)}
    reference = next((found for one, found in reversed(shown.items()) if not one.ours), None)
    size = STEP if program.parts == 1 else f"{STEP} / {program.parts}"
    made = []
    for one, answer in answers.items():
        key = Key(Kind.PROGRAM, program.name, size, one.who, one.where)
        found = shown.get(one)
        if found is None:
            made.append(Measurement(key, why=answer.absent or answer.failed))
            continue
        why = "" if reference is None else turns.problem(program, found, reference)
        times = () if why else tuple(spent / program.parts for spent in found.counted)
        made.append(Measurement(key, times, why=why, course=None if why else course(program, found)))
    return made


def course(program: Program, found: Found) -> Course:
    """What times of a program do not say; launches and the least time are of one of its parts, as its times are."""
    return Course(
        len(found.seconds),
        found.seconds[0],
        min(found.seconds) / program.parts,
        None if found.launches is None else found.launches.count / program.parts,
        found.host_seconds,
        {str(mark): megabytes for mark, megabytes in found.resident.items()},
    )
