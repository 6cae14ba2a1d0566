"""The CUDA suite: operations beside PyTorch's on the same card, and the host's time for small ones."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import hologram as hg
from bench.host import TOGETHER, host_us
from bench.suites import Goal, Result, Row, Suite
from bench.work import parse_size
from hologram.benchmark.timing import Pace

NONE_SLOWER = Goal(ratio=1.0)
PRODUCTS = Goal(ratio=1 / 0.9)  # of cuBLAS
EAGER = Goal(us=5)
REPLAY = Goal(us=1)


def rows() -> Iterator[Row]:
    """Every operation at every size, then matrices."""
    for work in ("add", "relu", "exp", "gelu", "sum", "softmax", "layer_norm"):
        for size in ("1K", "16M", "256M"):
            yield Row(work, parse_size(size), NONE_SLOWER)
    for side in (4096, 8192):
        yield Row("matmul", side, PRODUCTS)


def own_rows(pace: Pace) -> Iterator[Result]:
    """The host's time for an operation of many, called one by one and replayed as a graph."""
    with hg.Executor("cuda") as ex:
        yield from host_rows(ex, pace)


def host_rows(ex: hg.Executor, pace: Pace) -> Iterator[Result]:
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
    for name, call, goal in (("eager", eager, EAGER), ("replayed", lambda: jitted(a, b), REPLAY)):
        us = host_us(ex, call, pace)
        yield Result("cuda", f"host time of one of {TOGETHER}, {name}", "1K", us, {}, goal)


SUITE = Suite("cuda", "cuda", "hologram", ("torch",), rows, own_rows)
