"""What a replay costs the host: `python bench/replay_overhead.py [cpu|webgpu]`; see docs/design/replay.md."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import hologram as hg
from hologram.foundation.dtypes import f32
from hologram.machine.layout import Layout
from hologram.opset import OPERATIONS
from hologram.opset.forms.steps import Steps
from hologram.runtime.launches.replay import Replay

N = 1024
TURNS = 300
NO_SUBMISSION = 1 << 30  # dispatches in a batch: none is submitted while the host is measured


def chain(executor: hg.Executor, length: int) -> Replay:
    """`length` additions, each of the result before and the second input."""
    layout = Layout.contiguous(f32, (N,))
    steps, source = Steps(3), 0
    for k in range(length):
        target = 2 if k == length - 1 else steps.place(f32, (N,)).position
        plan = OPERATIONS["add"].plan([layout, layout], [layout], {}, executor.target)
        steps.extend(plan, (source, 1, target))
        source = target
    return Replay(executor, steps.plan(), (layout, layout), (layout,))


def best_us(executor: hg.Executor, call: Callable[[], Any], calls: int) -> float:
    """Microseconds of host time a call, the best of many short turns."""
    best = float("inf")
    for _ in range(TURNS):
        executor.synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        best = min(best, (time.perf_counter() - start) / calls)
    return best * 1e6


def main(backend: str = "cpu") -> None:
    with hg.Executor(backend) as executor:
        encoder = getattr(executor.device, "encoder", None)
        if encoder is not None:
            encoder.batch = NO_SUBMISSION
        x, y = (executor.tensor(np.ones(N, np.float32)) for _ in range(2))
        a, b, out = (executor.allocate(N) for _ in range(3))
        calls: dict[str, Callable[[], Any]] = {
            "allocate(1024)": lambda: executor.allocate(N),
            "allocate(100_000)": lambda: executor.allocate(100_000),
            "hg.add(x, y)": lambda: hg.add(x, y),
            "hg.ops.vector_add": lambda: hg.ops.vector_add(executor, a, b, out),
        }
        for length in (1, 2, 50):
            replay = chain(executor, length)
            calls[f"replay of {length}"] = lambda replay=replay: replay((x, y))
        for name, call in calls.items():
            call()
            print(f"{name:20} {best_us(executor, call, 20):8.2f} us")


if __name__ == "__main__":
    main(*sys.argv[1:])
