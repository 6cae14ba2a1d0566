"""Spots and stripes from two chemicals (Gray and Scott's model): a stencil over slices, compiled into few kernels.

python examples/reaction_diffusion.py --backend webgpu writes reaction_diffusion.png.
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

FEED, KILL = 0.037, 0.06  # of the food, and of what eats it
SPREAD = 0.2, 0.1


def spreading(x: Any) -> Any:
    """The difference of each inner cell from its four neighbours."""
    return x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] - 4.0 * x[1:-1, 1:-1]


@hg.jit
def react(food: Any, eater: Any) -> Any:
    """Both concentrations a moment later; the border stays as it is."""
    xp = food.__array_namespace__()
    inner = slice(1, -1), slice(1, -1)
    eaten = food[inner] * eater[inner] * eater[inner]
    more_food, more_eater = xp.asarray(food, copy=True), xp.asarray(eater, copy=True)
    more_food[inner] += SPREAD[0] * spreading(food) - eaten + FEED * (1.0 - food[inner])
    more_eater[inner] += SPREAD[1] * spreading(eater) + eaten - (FEED + KILL) * eater[inner]
    return more_food, more_eater


def play(step: Any, food: Any, eater: Any, frames: int, skip: int) -> Iterator[Any]:
    """Yields the concentration of the eater every so many moments."""
    for _ in range(frames):
        for _ in range(skip):
            food, eater = step(food, eater)
        yield eater


def seeds(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Food everywhere, and a few drops of the eater."""
    food, eater = np.ones((size, size), np.float32), np.zeros((size, size), np.float32)
    for row, column in np.random.default_rng(0).integers(8, size - 16, (24, 2)):
        food[row : row + 8, column : column + 8], eater[row : row + 8, column : column + 8] = 0.5, 0.25
    return food, eater


def main(
    size: int = 320, frames: int = 40, skip: int = 100, output: Path = Path("reaction_diffusion.png")
) -> None:
    *_, eater = race(partial(play, frames=frames, skip=skip), react, *seeds(size))
    shade = np.clip(eater / 0.35, 0, 1)[..., None]
    paper, ink = np.array([250, 244, 228]), np.array([18, 52, 86])
    Image.fromarray((paper + shade * (ink - paper)).astype(np.uint8)).save(output)
    print(f"{output}: {frames * skip} moments, {np.mean(eater > 0.1):.0%} of the dish is covered")


if __name__ == "__main__":
    run(main)
