"""The time to first results, in processes that find their kernels on disk and in processes that compile them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

from hologram.benchmark.start import fresh
from hologram.benchmark.suites import Goal, Result, Suite, result
from hologram.benchmark.timing import Pace

PROGRAM = """
import json, sys, time
import numpy as np
import hologram as hg
UNARY = "exp sin cos tanh erf sqrt abs floor gelu silu sigmoid relu softplus log1p"
times = [time.perf_counter()]
with hg.Executor(backend=sys.argv[1]) as ex:
    times.append(time.perf_counter())
    x = ex.tensor(np.random.default_rng(0).random((64, 1000), np.float32))
    hg.softmax(x, dim=-1).to_numpy()
    times.append(time.perf_counter())
    for name in UNARY.split():
        getattr(hg, name)(x).to_numpy()
    others = x + x, hg.sum(x, axis=1), hg.max(x, axis=0), hg.layer_norm(x), hg.argmax(x, axis=1), hg.var(x)
    for one in others:
        one.to_numpy()
    times.append(time.perf_counter())
    print(json.dumps([*np.diff(times), ex.cache_stats().compiled]))
"""
ROWS = ("open", "first softmax", "20 kernels", "compiled")


def own_rows(backend: str, pace: Pace) -> Iterator[Result]:
    """Of fresh processes that take turns; and how many kernels these compiled."""
    ways = {"from disk": "1", "compiling": "0"}
    with tempfile.TemporaryDirectory() as folder:
        fresh(PROGRAM, backend, cache=folder)  # fills it, and warms the system's file cache
        turns = [
            {who: fresh(PROGRAM, backend, cache=folder, enabled=enabled) for who, enabled in ways.items()}
            for _ in range(pace.turns)
        ]
    for number, row in enumerate(ROWS):
        taken = {who: [turn[who][number] for turn in turns] for who in ways}
        unit = "kernels" if row == "compiled" else "µs"
        yield result(row, "", taken, {}, Goal(), "from disk", unit=unit)


SUITES = (Suite("start", "", own_rows=own_rows),)
