"""The compiler on WebGPU: whole functions under hg.jit, beside tinygrad and Taichi on the same adapter."""

from __future__ import annotations

from collections.abc import Iterator

from bench.replay import replay
from bench.suites import Goal, Result, Row, Suite
from bench.work import parse_size
from hologram.benchmark.timing import Pace

SLOWEST = 0.9  # no row may be slower, beside the better peer
PER_KERNEL = Goal(us=5)  # of a replayed graph


def rows() -> Iterator[Row]:
    """Functions with their launches; then what has a goal of its own, and does not count in the mean."""
    yield Row("chain", parse_size("1M"), Goal(ratio=SLOWEST, dispatches=1))
    yield Row("layer_norm", parse_size("1M"), Goal(ratio=SLOWEST, dispatches=1))
    yield Row("softmax", parse_size("1M"), Goal(ratio=SLOWEST, dispatches=1))
    yield Row("attention", 256, Goal(ratio=SLOWEST))
    yield Row("mlp", 256, Goal(ratio=SLOWEST, dispatches=2))
    yield Row("adam", parse_size("100K"), Goal(dispatches=10), in_mean=False)
    yield Row("matmul", 1024, Goal(ratio=1 / 3), against=("tinygrad",), in_mean=False)


def own_rows(pace: Pace) -> Iterator[Result]:
    """What a kernel of a replayed graph costs the host."""
    yield replay("jit-webgpu", "webgpu", PER_KERNEL, pace)


SUITE = Suite(
    "jit-webgpu",
    "webgpu",
    "hologram jit",
    ("tinygrad", "taichi"),
    rows,
    own_rows,
    geometric_mean=0.4,
)
