"""Heat in a plate whose border is cold: one kernel for each step, a number that changes at each call.

python examples/kernels/heat.py --backend cpu writes heat.png.
"""

# pyright: reportInvalidTypeForm=false

from __future__ import annotations

from pathlib import Path

import numpy as np

import hologram as hg
from hologram.demo.colours import coloured, enlarged
from hologram.demo.gallery import run


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


def main(steps: int = 120, output: Path = Path("heat.png")) -> None:
    hot = np.zeros((100, 240), np.float32)
    hot[30:70, 40:200:20] = hot[30:70, 41:200:20] = hot[48:52, 40:200] = 1.0
    found = cool(hg.default_executor(), hot, steps)
    enlarged(coloured(found, 0, float(found.max())), 480).save(output)
    print(f"{output}: the warmest place has {found.max():.2f} after {steps} steps")


if __name__ == "__main__":
    run(main)
