"""Conway's Game of Life: a kernel that reads eight neighbours, the world wrapped around at its border.

python examples/kernels/life.py cpu
"""

# pyright: reportInvalidTypeForm=false

from __future__ import annotations

import sys

import numpy as np

import hologram as hg


@hg.kernel
def generation(cells: hg.Array[hg.u8, 2], after: hg.Array[hg.u8, 2]):
    i, j = hg.index()
    height, width = cells.shape
    alive = 0
    for a in hg.static((-1, 0, 1)):
        for b in hg.static((-1, 0, 1)):
            if a != 0 or b != 0:
                alive += cells[(i + a + height) % height, (j + b + width) % width]
    after[i, j] = 1 if alive == 3 or (alive == 2 and cells[i, j] == 1) else 0


def play(executor: hg.Executor, world: np.ndarray, generations: int) -> np.ndarray:
    """The world some generations later."""
    now, after = executor.tensor(world), executor.empty(world.shape, hg.u8)
    for _ in range(generations):
        generation[world.shape](now, after)
        now, after = after, now
    return now.to_numpy()


if __name__ == "__main__":
    soup = (np.random.default_rng(1).random((24, 60)) < 0.3).astype(np.uint8)
    for row in play(hg.Executor(*sys.argv[1:]), soup, 40):
        print("".join(" #"[cell] for cell in row))
