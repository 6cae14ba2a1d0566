"""The time to first results, in processes that find their kernels on disk and in processes that compile them.

python bench/start.py cpu        # a backend's name; milliseconds, medians of fresh processes that take turns
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

import hologram as hg

TURNS = 7
UNARY = (
    "exp",
    "sin",
    "cos",
    "tanh",
    "erf",
    "sqrt",
    "abs",
    "floor",
    "gelu",
    "silu",
    "sigmoid",
    "relu",
    "softplus",
    "log1p",
)


def work(backend: str) -> dict[str, float]:
    """Times of this process, in milliseconds."""
    start = time.perf_counter()
    with hg.Executor(backend=backend) as ex:
        opened = time.perf_counter()
        x = ex.tensor(np.random.default_rng(0).random((64, 1000), np.float32))
        hg.softmax(x, dim=-1).to_numpy()
        first = time.perf_counter()
        for name in UNARY:
            getattr(hg, name)(x).to_numpy()
        for result in (
            x + x,
            hg.sum(x, axis=1),
            hg.max(x, axis=0),
            hg.layer_norm(x),
            hg.argmax(x, axis=1),
            hg.var(x),
        ):
            result.to_numpy()
        end = time.perf_counter()
        compiled = ex.cache_stats().compiled
    return {
        "open": 1e3 * (opened - start),
        "first softmax": 1e3 * (first - opened),
        "20 kernels": 1e3 * (end - first),
        "compiled": compiled,
    }


def process(backend: str, cache: str, folder: str) -> dict[str, float]:
    """The times of a fresh process."""
    environment = os.environ | {"HOLOGRAM_CACHE": cache, "HOLOGRAM_CACHE_DIR": folder}
    command = [sys.executable, __file__, backend, "once"]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(result.stdout)


def main(backend: str) -> None:
    """Prints a row without and one with the directory."""
    with tempfile.TemporaryDirectory() as folder:
        process(backend, "1", folder)  # fills it, and warms the system's file cache
        turns = [{cache: process(backend, cache, folder) for cache in ("0", "1")} for _ in range(TURNS)]
    for cache, label in (("0", "compiling"), ("1", "from disk")):
        names = turns[0][cache]
        row = {name: statistics.median(turn[cache][name] for turn in turns) for name in names}
        print(f"{backend} {label}:", ", ".join(f"{name} {value:.0f}" for name, value in row.items()))


if __name__ == "__main__":
    if sys.argv[2:] == ["once"]:
        print(json.dumps(work(sys.argv[1])))
    else:
        main(sys.argv[1])
