"""What reproducible executors cost: a row an operation and size, the time of one over that of an ordinary executor.

    python bench/reproducible.py cpu webgpu

Both compute into given outputs, in turns; the ratio is that of the medians, and the last row the geometric mean.
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np

import hologram as hg

TURNS, WARM = 15, 3
SIZES = (1024, 102_400, 1_048_576)
ELEMENTS = ("add", "multiply", "relu", "exp", "tanh", "gelu")
ROWS = ("sum", "softmax", "layer_norm")
PRODUCTS, PRODUCT = ("matmul", "linear"), 512


def call(executor: hg.Executor, name: str, size: int) -> Callable[[], None]:
    """A call of an operation, done when it returns."""
    random = np.random.default_rng(size)
    shape = (PRODUCT, PRODUCT) if name in PRODUCTS else (size,) if name in ELEMENTS else (size // 1024, 1024)
    count = 2 if name in ("add", "multiply", *PRODUCTS) else 1
    x = [executor.tensor(random.standard_normal(shape, dtype=np.float32)) for _ in range(count)]
    if name == "linear":
        x.append(executor.zeros(PRODUCT))
    if name == "layer_norm":
        x += [executor.ones(1024), executor.zeros(1024)]
    attributes = {"axis": 1} if name == "sum" else {"dim": -1} if name == "softmax" else {}
    out = executor.empty(shape[:1] if name == "sum" else shape)
    function = getattr(hg.ops, name)

    def run() -> None:
        function(executor, *x, out, **attributes)
        executor.synchronize()

    return run


def ratio(calls: list[Callable[[], None]]) -> float:
    spent: list[list[float]] = [[] for _ in calls]
    for turn in range(WARM + TURNS):
        for times, run in zip(spent, calls, strict=True):
            start = time.perf_counter()
            run()
            if turn >= WARM:
                times.append(time.perf_counter() - start)
    plain, reproducible = map(statistics.median, spent)
    return reproducible / plain


def main(backends: list[str]) -> None:
    works = [(name, size) for name in (*ELEMENTS, *ROWS) for size in SIZES]
    works += [(name, PRODUCT * PRODUCT) for name in PRODUCTS]
    for backend in backends:
        executors = [hg.Executor(backend, reproducible=r) for r in (False, True)]
        ratios = []
        for name, size in works:
            ratios.append(ratio([call(e, name, size) for e in executors]))
            print(f"{backend:8} {name:12} {size:9,} {ratios[-1]:7.2f}", flush=True)
        mean = math.exp(statistics.mean(map(math.log, ratios)))
        print(f"{backend:8} geometric mean          {mean:7.2f}")


if __name__ == "__main__":
    main(sys.argv[1:] or ["cpu", "webgpu"])
