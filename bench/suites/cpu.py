"""The CPU suite: operations in their out-parameter forms, transfers, and what opening costs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bench.suites import Goal, Result, Row, Suite
from bench.work import format_size, parse_size
from hologram.benchmark.timing import Pace, microseconds, take_turn

CALL = Goal(us=3)  # at 1K: what a call costs, Python included
STRICTER = {"exp": 0.5, "tanh": 0.5, "gelu": 0.7}
SIZES = ("1K", "100K", "1M", "16M")
ROOT = Path(__file__).resolve().parents[2]

OPEN = """
import time
start = time.perf_counter()
import hologram
imported = time.perf_counter()
hologram.Executor("cpu")
print(imported - start, time.perf_counter() - imported)
"""


def rows() -> Iterator[Row]:
    """Every operation at every size, then matrices."""
    for work in ("add", "mul", "relu", "exp", "tanh", "gelu", "sum", "softmax", "layer_norm"):
        for size in SIZES if work not in ("softmax", "layer_norm") else ("1K", "100K", "1M", "4M", "16M"):
            strict = STRICTER.get(work, 1.0) if size in ("1M", "16M") else 1.0
            yield Row(work, parse_size(size), CALL if size == "1K" else Goal(ratio=strict))
    yield Row("matmul", 1024, Goal(ratio=1.05))


def own_rows(pace: Pace) -> Iterator[Result]:
    """Rows that have no peer among the libraries: transfers against JSON, and opening."""
    yield from _opening(pace)
    import hologram as hg  # after the fresh processes, beside which this one should hold little

    with hg.Executor("cpu") as ex:
        for text in ("1K", "100K", "1M"):
            size = parse_size(text)
            array = np.random.default_rng(size).standard_normal(size, dtype=np.float32)
            buffer, values = ex.allocate(size), array.tolist()
            ways = {
                "both": lambda b=buffer, a=array: (b.from_numpy(a), b.to_numpy()),
                "json": lambda v=values: json.loads(json.dumps(v)),
                "write": lambda b=buffer, a=array: b.from_numpy(a),
                "read": lambda b=buffer: b.to_numpy(),
            }
            samples: dict[str, list[float]] = {name: [] for name in ways}
            for _ in range(pace.turns):
                for name, way in ways.items():
                    samples[name] += take_turn(way, pace)
            us = {name: microseconds(found) for name, found in samples.items()}
            small = text == "1K"
            yield _result("from_numpy+to_numpy", size, us["both"], Goal(ratio=0.02), json=us["json"])
            yield _result("write", size, us["write"], Goal(us=3) if small else Goal())
            yield _result("read", size, us["read"], Goal(us=4) if small else Goal())


def _opening(pace: Pace) -> Iterator[Result]:
    imports, opens = [], []
    # As pip leaves a package.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    for turn in range(pace.turns + 1):
        done = subprocess.run(
            [sys.executable, "-c", OPEN],
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
            env=environment,
            timeout=60,
        )
        if turn:  # the first fills the disk's caches
            spent = done.stdout.split()
            imports.append(float(spent[0]))
            opens.append(float(spent[1]))
    yield _result("import hologram", 0, microseconds(imports), Goal(us=100_000))
    yield _result("open a CPU executor", 0, microseconds(opens), Goal(us=1000))


def _result(row: str, size: int, ours_us: float, goal: Goal, **peers_us: float) -> Result:
    return Result("cpu", row, format_size(size) if size else "", ours_us, peers_us, goal)


SUITE = Suite("cpu", "cpu", "hologram", ("numpy", "torch", "jax", "numexpr"), rows, own_rows)
