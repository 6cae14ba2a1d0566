"""Where a pollutant came from: a simulation of many steps, differentiated, finds its start from where it ended.

python examples/kernels/where_from.py webgpu
"""

# pyright: reportInvalidTypeForm=false

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import hologram as hg


@hg.kernel
def step(u: hg.Array[hg.f32, 2], out: hg.Array[hg.f32, 2], spread: hg.f32, wind: hg.f32):
    i, j = hg.index()
    height, width = u.shape
    up, down, left, right = max(i - 1, 0), min(i + 1, height - 1), max(j - 1, 0), min(j + 1, width - 1)
    around = u[up, j] + u[down, j] + u[i, left] + u[i, right]
    out[i, j] = u[i, j] + spread * (around - 4.0 * u[i, j]) - wind * (u[i, j] - u[i, left])


def carried(u: Any, steps: int) -> Any:
    """The field some steps later."""
    for _ in range(steps):
        out = hg.zeros_like(u)
        step[u.shape](u, out, 0.15, 0.3)
        u = out
    return u


def found(executor: hg.Executor, end: np.ndarray, steps: int, turns: int) -> tuple[np.ndarray, list[float]]:
    """The start whose end is nearest to a given one, and the errors on the way: descent with momentum."""
    seen = executor.tensor(end)

    def error(start: Any) -> Any:
        return hg.sum((carried(start, steps) - seen) ** 2)

    slope = hg.jit(hg.value_and_grad(error))
    start, speed, errors = executor.zeros(end.shape), executor.zeros(end.shape), []
    for _ in range(turns):
        value, gradient = slope(start)
        speed = 0.9 * speed - 0.1 * gradient
        start = hg.maximum(start + speed, 0.0)
        errors.append(value.item())
    return start.to_numpy(), errors


if __name__ == "__main__":
    executor = hg.Executor(*sys.argv[1:])
    truth = np.zeros((16, 60), np.float32)
    truth[4:7, 6:10] = truth[10:12, 14:20] = 1.0
    end = carried(executor.tensor(truth), 12).to_numpy()
    guess, errors = found(executor, end, 12, 100)
    for title, field in (
        ("where it ended", end),
        ("where it came from, found", guess),
        ("and in truth", truth),
    ):
        print(title)
        for row in field:
            print("".join(" .:-=+*#%@"[min(int(10 * x), 9)] for x in row))
    bars = [errors[k] / errors[0] for k in range(0, len(errors), 10)]
    print("the error:", *(f"{x:.4f}" for x in bars))
