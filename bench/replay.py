"""What replaying a graph costs: many kernels that nothing can join, so small that they compute next to nothing."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import hologram as hg
from bench.suites import Goal, Result
from hologram.benchmark.timing import Pace, microseconds

KERNELS = 50
ELEMENTS = 16


def scans(x: Any) -> Any:
    """Running sums of running sums: each needs the whole of the one before."""
    for _ in range(KERNELS):
        x = hg.cumsum(x)
    return x


def replay(suite: str, backend: str, goal: Goal, pace: Pace) -> Result:
    """Host time of a kernel: a call's, divided by the kernels that it launches.

    On a device that works on its own the call encodes and submits them, and waiting for them is not in the time; on the
    CPU backend what they compute is. There is no time where the kernels are fewer, or their result is wrong.
    """
    name = f"host time of a kernel, {KERNELS} replayed"
    with hg.Executor(backend) as ex:
        compiled: Any = hg.jit(scans)
        values = np.random.default_rng(0).uniform(0.5, 1.0, ELEMENTS).astype(np.float32)
        x = ex.tensor(values)
        wrong = _wrong(compiled(x).to_numpy(), values)
        launched = compiled.dispatches(x)
        if launched < KERNELS:
            wrong = f"it made {launched} kernels of {KERNELS} operations"
        if wrong:
            missing = {"hologram jit": wrong}
            return Result(suite, name, str(ELEMENTS), None, {}, goal, missing, dispatches=launched)
        samples = []
        for turn in range(20 * pace.turns + 5):
            ex.synchronize()
            start = time.perf_counter()
            compiled(x)
            ex.device.flush()
            spent = time.perf_counter() - start
            if turn >= 5:
                samples.append(spent / launched)
    return Result(suite, name, str(ELEMENTS), microseconds(samples), {}, goal, dispatches=launched)


def _wrong(found: np.ndarray, values: np.ndarray) -> str | None:
    wanted = values.astype(np.float64)
    for _ in range(KERNELS):
        wanted = np.cumsum(wanted)
    if np.allclose(found, wanted, rtol=1e-4):
        return None
    return f"wrong result: {KERNELS} running sums end in {wanted[-1]:.6g}, not {found[-1]:.6g}"
