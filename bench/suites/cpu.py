"""The CPU suite: operations in their out-parameter forms, transfers, and what opening costs."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np

import hologram as hg
from hologram.benchmark.start import fresh
from hologram.benchmark.suites import Goal, Result, Row, Suite, own, result
from hologram.benchmark.timing import Pace
from hologram.benchmark.works import parse_size

CALL = Goal(us=3)  # at 1K: what a call costs, Python included
STRICTER = {"exp": 0.5, "tanh": 0.5, "gelu": 0.7}
SIZES = ("1K", "100K", "1M", "16M")

OPEN = """
import time
start = time.perf_counter()
import hologram
imported = time.perf_counter()
hologram.Executor("cpu")
print([imported - start, time.perf_counter() - imported])
"""


def rows() -> Iterator[Row]:
    """Every operation at every size, then matrices."""
    for work in ("add", "mul", "relu", "exp", "tanh", "gelu", "sum", "softmax", "layer_norm"):
        for size in SIZES if work not in ("softmax", "layer_norm") else ("1K", "100K", "1M", "4M", "16M"):
            strict = STRICTER.get(work, 1.0) if size in ("1M", "16M") else 1.0
            yield Row(work, parse_size(size), CALL if size == "1K" else Goal(ratio=strict))
    yield Row("matmul", 1024, Goal(ratio=1.05))


def own_rows(backend: str, pace: Pace) -> Iterator[Result]:
    """Rows that have no peer among the libraries: transfers against JSON, and opening."""
    fresh(OPEN)  # it fills the disk's caches
    spent = [fresh(OPEN) for _ in range(pace.turns)]
    for row, turns, most in zip(
        ("import hologram", "open a CPU executor"), zip(*spent, strict=True), (100_000, 1000), strict=True
    ):
        yield result(row, "", {"hologram": turns}, {}, Goal(us=most), "hologram")
    with hg.Executor(backend) as ex:
        for text in ("1K", "100K", "1M"):
            size = parse_size(text)
            array = np.random.default_rng(size).standard_normal(size, dtype=np.float32)
            buffer, values = ex.allocate(size), array.tolist()
            ways = {
                "hologram": lambda b=buffer, a=array: (b.from_numpy(a), b.to_numpy()),
                "json": lambda v=values: json.loads(json.dumps(v)),
            }
            yield own("from_numpy+to_numpy", text, ways, pace, Goal(ratio=0.02))
            small = text == "1K"
            write, read = (lambda b=buffer, a=array: b.from_numpy(a)), buffer.to_numpy
            yield own("write", text, {"hologram": write}, pace, Goal(us=3) if small else Goal())
            yield own("read", text, {"hologram": read}, pace, Goal(us=4) if small else Goal())


SUITES = (Suite("cpu", "cpu", "hologram", ("numpy", "torch", "jax", "numexpr"), rows, own_rows),)
