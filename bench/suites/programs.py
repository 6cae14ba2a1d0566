"""Whole programs on any backend: other inputs at every step, beside PyTorch, its compiler, and JAX."""

from __future__ import annotations

from collections.abc import Iterator

from hologram.benchmark.programs.table import PROGRAMS
from hologram.benchmark.suites import Goal, Row, Suite
from hologram.benchmark.whole_programs import ABLE


def rows() -> Iterator[Row]:
    """A row a program."""
    for name, program in PROGRAMS.items():
        yield Row(name, goal=Goal(ratio=program.limit), program=True)


OURS, *PEERS = (*ABLE[False], *ABLE[True])
SUITES = (Suite("programs", "", OURS, tuple(PEERS), rows),)
