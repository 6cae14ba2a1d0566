"""Where a pollutant came from: a simulation of many steps, differentiated, finds its start from where it ended.

python examples/kernels/where_from.py --backend cpu writes where_from.png: where it ended, what was found, the truth.
"""

# pyright: reportInvalidTypeForm=false

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import hologram as hg
from hologram.demo.colours import coloured, enlarged
from hologram.demo.gallery import run


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


def main(turns: int = 100, output: Path = Path("where_from.png")) -> None:
    truth = np.zeros((32, 120), np.float32)
    truth[8:14, 12:20] = truth[20:24, 28:40] = 1.0
    end = carried(hg.default_executor().tensor(truth), 20).to_numpy()
    guess, errors = found(hg.default_executor(), end, 20, turns)
    gap = np.ones((1, 120), np.float32)
    enlarged(coloured(np.concatenate([end, gap, guess, gap, truth]), 0, 1), 480).save(output)
    print(f"{output}: the error is {errors[-1] / errors[0]:.5f} of what it was")


if __name__ == "__main__":
    run(main)
