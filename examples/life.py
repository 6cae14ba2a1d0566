"""Conway's Game of Life: nine shifted views of the world are one kernel.

python examples/life.py --backend webgpu writes life.gif, the middle of the world.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import hologram as hg
from hologram.demo.gallery import run
from hologram.demo.race import race


@hg.jit
def generation(cells: Any) -> Any:
    """The world one generation later; cells are 1 where they live, and nothing lives on the border."""
    xp = cells.__array_namespace__()  # hologram's functions for tensors, NumPy's for its arrays
    height, width = cells.shape
    views = [cells[y : height - 2 + y, x : width - 2 + x] for y in range(3) for x in range(3)]
    three_by_three = sum(views[1:], start=views[0])
    here = cells[1:-1, 1:-1]
    after = xp.zeros_like(cells)
    after[1:-1, 1:-1] = (three_by_three == 3) | ((three_by_three == 4) & (here == 1))
    return after


def play(step: Any, cells: Any, frames: int, skip: int) -> Iterator[Any]:
    """Yields the world every few generations."""
    for _ in range(frames):
        for _ in range(skip):
            cells = step(cells)
        yield cells


def main(size: int = 1024, frames: int = 30, skip: int = 5, output: Path = Path("life.gif")) -> None:
    soup = (np.random.default_rng(1).random((size, size)) < 0.2).astype(np.uint8)
    worlds = race(partial(play, frames=frames, skip=skip), generation, soup)
    middle = slice(size // 2 - 50, size // 2 + 50)
    pictures = [Image.fromarray(world[middle, middle] == 0).resize((400, 400)) for world in worlds]
    pictures[0].save(output, save_all=True, append_images=pictures[1:], duration=100, loop=0)
    print(f"{output}: {worlds[-1].mean():.1%} of the cells live after {frames * skip} generations")


if __name__ == "__main__":
    run(main)
