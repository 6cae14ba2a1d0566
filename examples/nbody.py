"""Gravity between all pairs of bodies: sums over differences that are never stored.

python examples/nbody.py --backend webgpu writes nbody.gif: two galaxies meet.
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

STEP = 0.02
SOFTENING = 0.02  # bodies this near (squared) no longer pull harder


@hg.jit
def advance(x: Any, y: Any, u: Any, v: Any) -> Any:
    """Places (x, y) and velocities (u, v) a step later; all bodies together weigh 1."""
    xp = x.__array_namespace__()
    across, up = x[None, :] - x[:, None], y[None, :] - y[:, None]
    near = across * across + up * up + SOFTENING
    pull = 1 / (near * xp.sqrt(near) * x.shape[0])
    u = u + STEP * xp.sum(across * pull, axis=1)
    v = v + STEP * xp.sum(up * pull, axis=1)
    return x + STEP * u, y + STEP * v, u, v


def play(step: Any, *bodies: Any, frames: int, skip: int) -> Iterator[Any]:
    """Yields the places, a row for x and one for y, every few steps."""
    for _ in range(frames):
        for _ in range(skip):
            bodies = step(*bodies)
        x, y, *_ = bodies
        yield x.__array_namespace__().stack([x, y])


def galaxies(bodies: int) -> list[np.ndarray]:
    """Two discs that turn, side by side, on a course that brings them together."""
    rng = np.random.default_rng(0)
    radius, angle = 0.5 * np.sqrt(rng.random(bodies)), 2 * np.pi * rng.random(bodies)
    side = np.where(np.arange(bodies) % 2, 1.0, -1.0)
    x, y = radius * np.cos(angle), radius * np.sin(angle)
    turn = np.sqrt(0.5 / (radius + 0.1))
    places_and_velocities = x + 0.8 * side, y + 0.25 * side, -turn * y - 0.35 * side, turn * x
    return [array.astype(np.float32) for array in places_and_velocities]


def picture(places: np.ndarray, size: int = 160) -> Image.Image:
    """Bodies as light on black: the more in a pixel, the brighter; one galaxy is blue, the other amber."""
    light = np.zeros((size, size, 3))
    for galaxy, colour in ((places[:, ::2], (90, 140, 255)), (places[:, 1::2], (255, 170, 70))):
        counts, *_ = np.histogram2d(-galaxy[1], galaxy[0], bins=size, range=[[-1.5, 1.5]] * 2)
        light += np.sqrt(counts)[..., None] * colour
    return Image.fromarray(np.clip(0.9 * light, 0, 255).astype(np.uint8)).resize((320, 320)).quantize(12)


def main(bodies: int = 2000, frames: int = 26, skip: int = 9, output: Path = Path("nbody.gif")) -> None:
    shown = race(partial(play, frames=frames, skip=skip), advance, *galaxies(bodies))
    pictures = [picture(places) for places in shown]
    pictures[0].save(output, save_all=True, append_images=pictures[1:], duration=100, loop=0)
    print(f"{output}: {bodies**2:,} pairs in each of {frames * skip} steps")


if __name__ == "__main__":
    run(main)
