"""The suites of GPUs: operations on the same adapter, and the host's time for small ones, called and replayed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import hologram as hg
from bench.suites.replay import host
from hologram.benchmark.suites import Goal, Result, Row, Suite
from hologram.benchmark.timing import Pace
from hologram.benchmark.works import parse_size

TOGETHER = 100  # launches that are timed as one
NONE_SLOWER = Goal(ratio=1.0)
PRODUCTS = Goal(ratio=1 / 0.9)  # of cuBLAS
GEOMETRIC_MEAN = 0.6  # of all ratios


def on_webgpu() -> Iterator[Row]:
    """Every operation at every size, then matrices."""
    for work in ("add", "exp", "sum", "softmax"):
        for size in ("1K", "1M", "16M"):
            yield Row(work, parse_size(size), NONE_SLOWER)
    for side in (512, 1024):
        yield Row("matmul", side, NONE_SLOWER)


def on_cuda() -> Iterator[Row]:
    """Beside PyTorch's on the same card."""
    for work in ("add", "relu", "exp", "gelu", "sum", "softmax", "layer_norm"):
        for size in ("1K", "16M", "256M"):
            yield Row(work, parse_size(size), NONE_SLOWER)
    for side in (4096, 8192):
        yield Row("matmul", side, PRODUCTS)


def sequential(backend: str, pace: Pace) -> Iterator[Result]:
    """The host's time for an operation of many that wait for one another."""
    rng = np.random.default_rng(0)
    with hg.Executor(backend) as ex:
        values = (rng.standard_normal(1024, dtype=np.float32) for _ in range(2))
        a, b, out = (*(ex.allocate(1024).from_numpy(v) for v in values), ex.allocate(1024))

        def sequence() -> None:
            for _ in range(TOGETHER // 2):
                hg.ops.vector_add(ex, a, b, out)
                hg.ops.vector_mul(ex, out, b, out)

        yield host(f"host time of one of {TOGETHER}", ex, sequence, pace, Goal(us=12), TOGETHER)


def called_and_replayed(backend: str, pace: Pace) -> Iterator[Result]:
    """The host's time for an operation of many, called one by one and replayed as a graph."""
    with hg.Executor(backend) as ex:
        rng = np.random.default_rng(0)
        a, b = (ex.tensor(rng.standard_normal(1024, dtype=np.float32)) for _ in range(2))
        out = ex.allocate(1024)

        def eager() -> None:
            for _ in range(TOGETHER):
                hg.ops.vector_add(ex, a.buffer, b.buffer, out)

        def chain(x: hg.Tensor, y: hg.Tensor) -> hg.Tensor:
            for _ in range(TOGETHER):
                x = hg.softmax(x * y, dim=0)  # which no fusion makes one kernel of
            return x

        jitted = hg.jit(chain)
        for name, call, goal in (("eager", eager, 5), ("replayed", lambda: jitted(a, b), 1)):
            yield host(f"host time of one of {TOGETHER}, {name}", ex, call, pace, Goal(us=goal), TOGETHER)


SUITES = (
    Suite("webgpu", "webgpu", "hologram", ("tinygrad", "taichi"), on_webgpu, sequential, GEOMETRIC_MEAN),
    Suite("cuda", "cuda", "hologram", ("torch",), on_cuda, called_and_replayed),
)
