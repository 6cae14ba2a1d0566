"""The WebGPU suite: operations on the same adapter, the host's time for small ones, and bandwidth on a real GPU."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

import hologram as hg
from bench.suites import Goal, Result, Row
from bench.timing import Pace, microseconds, take_turn
from bench.work import format_size, parse_size

PEERS = ("tinygrad", "taichi")
NONE_SLOWER = Goal(ratio=1.0)
GEOMETRIC_MEAN = 0.6  # of all ratios
SEQUENTIAL = 100
SHARE_OF_BANDWIDTH = 0.8


def rows() -> Iterator[Row]:
    """Every operation at every size, then matrices."""
    for work in ("add", "exp", "sum", "softmax"):
        for size in ("1K", "1M", "16M"):
            yield Row(work, parse_size(size), NONE_SLOWER)
    for side in (512, 1024):
        yield Row("matmul", side, NONE_SLOWER)


def own_rows(pace: Pace) -> Iterator[Result]:
    """The host's time for an operation of many; against the adapter's own copy, where the adapter is not software."""
    with hg.Executor("webgpu") as ex:
        yield _sequential(ex, pace)
        if not ex.limits.software:
            yield from _bandwidth(ex, pace)


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


def _bandwidth(ex: hg.Executor, pace: Pace) -> Iterator[Result]:
    size = parse_size("64M")
    x, y, out = (ex.allocate(size) for _ in range(3))
    values = np.random.default_rng(1).standard_normal(size, dtype=np.float32)
    for buffer in (x, y):
        buffer.from_numpy(values)
    ways = {
        "copy": lambda: (out.copy_from(x), ex.synchronize()),
        "add": lambda: (hg.ops.vector_add(ex, x, y, out), ex.synchronize()),
        "exp": lambda: (hg.ops.exp(ex, x, out), ex.synchronize()),
    }
    samples: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(pace.turns):
        for name, way in ways.items():
            samples[name] += take_turn(way, pace)
    us = {name: microseconds(found) for name, found in samples.items()}
    for name, arrays in (("add", 3), ("exp", 2)):
        copy_us = round(us["copy"] * arrays / 2, 3)  # a copy reads an array and writes one
        goal = Goal(ratio=1 / SHARE_OF_BANDWIDTH)
        yield Result("webgpu", f"{name} beside a copy", format_size(size), us[name], {"copy": copy_us}, goal)
