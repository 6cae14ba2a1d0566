"""Conway's Game of Life: a kernel that reads eight neighbours, the world wrapped around at its border.

python examples/kernels/life.py --backend cpu writes life.png.
"""

# pyright: reportInvalidTypeForm=false

from __future__ import annotations

from pathlib import Path

import numpy as np

import hologram as hg
from hologram.demo.colours import PAPER, coloured, enlarged
from hologram.demo.gallery import run


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


def main(size: int = 120, generations: int = 200, output: Path = Path("life.png")) -> None:
    soup = (np.random.default_rng(1).random((size, 2 * size)) < 0.3).astype(np.uint8)
    world = play(hg.default_executor(), soup, generations)
    enlarged(coloured(world, 0, 1, (PAPER, (38, 84, 140))), 480).save(output)
    print(f"{output}: {world.mean():.1%} of the cells live after {generations} generations")


if __name__ == "__main__":
    run(main)
