"""Models on WebGPU: forward passes and training steps, beside tinygrad on the same adapter."""

from __future__ import annotations

from collections.abc import Iterator

from bench.suites import Goal, Result, Row, Suite
from bench.suites.models import rows as rows_of_cpu
from hologram.benchmark.timing import Pace

GOALS = {"mlp_step": Goal(ratio=0.4)}


def rows() -> Iterator[Row]:
    """Those of the CPU."""
    for row in rows_of_cpu():
        yield Row(row.work, row.size, GOALS.get(row.work, Goal()))


def own_rows(pace: Pace) -> Iterator[Result]:
    """None."""
    yield from ()


SUITE = Suite("models-webgpu", "webgpu", "hologram jit", ("tinygrad",), rows, own_rows)
