"""The WebGPU suite: operations on the same adapter, and the host's time for small ones."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

import hologram as hg
from bench.suites import Goal, Result, Row, Suite
from bench.timing import Pace, microseconds
from bench.work import parse_size

NONE_SLOWER = Goal(ratio=1.0)
GEOMETRIC_MEAN = 0.6  # of all ratios
SEQUENTIAL = 100


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
    samples = []
    for turn in range(5 * pace.turns + 2):
        ex.synchronize()
        start = time.perf_counter()
        for _ in range(SEQUENTIAL // 2):
            hg.ops.vector_add(ex, a, b, out)
            hg.ops.vector_mul(ex, out, b, out)
        ex.device.flush()
        spent = time.perf_counter() - start
        if turn >= 2:
            samples.append(spent / SEQUENTIAL)
    return Result("webgpu", f"host time of one of {SEQUENTIAL}", "1K", microseconds(samples), {}, Goal(us=12))


SUITE = Suite(
    "webgpu", "webgpu", "hologram", ("tinygrad", "taichi"), rows, own_rows, geometric_mean=GEOMETRIC_MEAN
)
