"""Whole programs on any backend: other inputs at every step, beside PyTorch, its compiler, and JAX."""

from __future__ import annotations

from collections.abc import Iterator

from bench import programs
from bench.suites import Goal, Result, Row, Suite
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
    able = OF_ARRAYS if program.jitted else OF_TORCH
    chosen = [name for name in able if name in (who or EVERYONE)]
    return programs.result(program, backend, programs.measure(program, backend, chosen, steps, turn_seconds))


SUITE = Suite("programs", "", "hologram eager", EVERYONE[1:], rows, own_rows, measure=measure)
