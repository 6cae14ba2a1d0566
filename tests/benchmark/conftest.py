"""A report that was really measured: two rows at two sizes, by NumPy and on the CPU."""

from __future__ import annotations

import pytest

from hologram.benchmark import machine
from hologram.benchmark.matrix import Run, Settings
from hologram.benchmark.report.records import Report


def small_run() -> Run:
    return Run(machine.adapters("cpu"), Settings(5.0, sizes=("1K", "10K"), rows=("exp", "matmul")))


def small_pieces(run: Run) -> list:
    return [piece for piece in run.pieces() if "operations" in piece.title or "peaks" in piece.title]


@pytest.fixture(scope="session")
def report() -> Report:
    run = small_run()
    return run.run(small_pieces(run), lambda done, following: None)
