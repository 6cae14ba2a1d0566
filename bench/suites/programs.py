"""Whole programs on any backend: other inputs at every step, beside PyTorch, its compiler, and JAX."""

from __future__ import annotations

from collections.abc import Iterator

from bench import programs
from bench.suites import Goal, Result, Row, Suite
from hologram.benchmark import whole_programs
from hologram.benchmark.programs import turns
from hologram.benchmark.programs.places import OF_ARRAYS, OF_TORCH
from hologram.benchmark.programs.table import PROGRAMS
from hologram.benchmark.timing import Pace

EVERYONE = (*OF_TORCH, *OF_ARRAYS)


def rows() -> Iterator[Row]:
    """A row a program."""
    for name, program in PROGRAMS.items():
        yield Row(name, 0, Goal(ratio=program.limit))


def own_rows(pace: Pace) -> Iterator[Result]:
    """None: every program has peers."""
    return iter(())


def measure(row: Row, backend: str, who: tuple[str, ...], steps: int, turn_seconds: float) -> Result:
    """A program by those of `who` who can compute it."""
    program = PROGRAMS[row.work]
    everyone = whole_programs.contenders(program, (backend,), who or EVERYONE)
    answers = turns.measure(program, everyone, steps, turn_seconds)
    return programs.result(program, backend, whole_programs.measurements(program, answers))


SUITE = Suite("programs", "", "hologram eager", EVERYONE[1:], rows, own_rows, measure=measure)
