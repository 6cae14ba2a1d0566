"""Heat in a plate whose border is cold: one kernel for each step, a number that changes at each call.

python examples/kernels/heat.py webgpu
"""

# pyright: reportInvalidTypeForm=false

from __future__ import annotations

import sys

import numpy as np

import hologram as hg


@hg.kernel
def step(u: hg.Array[hg.f32, 2], out: hg.Array[hg.f32, 2], dt: hg.f32):
    i, j = hg.index()
    if 0 < i < u.shape[0] - 1 and 0 < j < u.shape[1] - 1:
        around = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1]
        out[i, j] = u[i, j] + dt * (around - 4.0 * u[i, j])
    else:
        out[i, j] = 0.0


def cool(executor: hg.Executor, plate: np.ndarray, steps: int, dt: float = 0.2) -> np.ndarray:
    """The plate some steps later."""
    now, after = executor.tensor(plate), executor.empty(plate.shape)
    for _ in range(steps):
        step[plate.shape](now, after, dt)
        now, after = after, now
    return now.to_numpy()


if __name__ == "__main__":
    hot = np.zeros((20, 60), np.float32)
    hot[6:14, 10:50] = 1.0
    for row in cool(hg.Executor(*sys.argv[1:]), hot, 30):
        print("".join(" .:-=+*#%@"[min(int(10 * x), 9)] for x in row))
