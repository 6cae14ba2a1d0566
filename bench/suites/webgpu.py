"""The WebGPU suite: operations on the same adapter, and the host's time for small ones."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import hologram as hg
from bench.host import TOGETHER, host_us
from bench.suites import Goal, Result, Row, Suite
from bench.work import parse_size
from hologram.benchmark.timing import Pace

NONE_SLOWER = Goal(ratio=1.0)
GEOMETRIC_MEAN = 0.6  # of all ratios


def rows() -> Iterator[Row]:
    """Every operation at every size, then matrices."""
    for work in ("add", "exp", "sum", "softmax"):
        for size in ("1K", "1M", "16M"):
            yield Row(work, parse_size(size), NONE_SLOWER)
    for side in (512, 1024):
        yield Row("matmul", side, NONE_SLOWER)


def own_rows(pace: Pace) -> Iterator[Result]:
    """The host's time for an operation of many."""
    with hg.Executor("webgpu") as ex:
        yield _sequential(ex, pace)


def _sequential(ex: hg.Executor, pace: Pace) -> Result:
    rng = np.random.default_rng(0)
    a, b, out = (ex.allocate(1024) for _ in range(3))
    for buffer in (a, b):
        buffer.from_numpy(rng.standard_normal(1024, dtype=np.float32))

    def sequence() -> None:
        for _ in range(TOGETHER // 2):
            hg.ops.vector_add(ex, a, b, out)
            hg.ops.vector_mul(ex, out, b, out)

    us = host_us(ex, sequence, pace)
    return Result("webgpu", f"host time of one of {TOGETHER}", "1K", us, {}, Goal(us=12))


SUITE = Suite(
    "webgpu", "webgpu", "hologram", ("tinygrad", "taichi"), rows, own_rows, geometric_mean=GEOMETRIC_MEAN
)
