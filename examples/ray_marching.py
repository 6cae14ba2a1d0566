"""Spheres over a chequered floor, walked to along every ray at once: a scene of distances, shaded and in shadow.

python examples/ray_marching.py --backend webgpu writes ray_marching.png.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import hologram as hg
from hologram.demo.gallery import run
from hologram.demo.race import race

SPHERES = ((0.0, 0.0, 0.0, 1.0), (-1.9, -0.4, 0.6, 0.6), (1.7, -0.55, -0.7, 0.45))  # x, y, z, radius
FLOOR = -1.0
LIGHT = (-0.5, 0.7, -0.51)  # the way to it, of length 1
STEPS = 48


def distance(x: Any, y: Any, z: Any) -> Any:
    """From a point to what is nearest: the floor, or a sphere."""
    xp = x.__array_namespace__()
    nearest = y - FLOOR
    for a, b, c, radius in SPHERES:
        nearest = xp.minimum(
            nearest, xp.sqrt(xp.square(x - a) + xp.square(y - b) + xp.square(z - c)) - radius
        )
    return nearest


@hg.jit
def render(across: Any, up: Any) -> Any:
    """The brightness of each pixel, seen from (0, 0.4, -5) through a window at distance 2."""
    xp = across.__array_namespace__()
    length = xp.sqrt(across * across + up * up + 4.0)
    dx, dy, dz = across / length, up / length, 2.0 / length
    far = xp.zeros_like(across)
    for _ in range(STEPS):  # as far as the nearest thing, nothing is in the way
        far = xp.minimum(far + distance(far * dx, far * dy + 0.4, far * dz - 5.0), 40.0)
    x, y, z = far * dx, far * dy + 0.4, far * dz - 5.0
    # Towards the light the distance grows on a lit side, and what is near the way casts a soft shadow.
    lit = xp.clip(
        (distance(x + 0.01 * LIGHT[0], y + 0.01 * LIGHT[1], z + 0.01 * LIGHT[2]) - distance(x, y, z)) / 0.01,
        0.0,
        1.0,
    )
    shadow, walked = xp.ones_like(across), xp.full_like(across, 0.05)
    for _ in range(STEPS // 2):
        free = distance(x + walked * LIGHT[0], y + walked * LIGHT[1], z + walked * LIGHT[2])
        shadow = xp.minimum(shadow, xp.clip(12.0 * free / walked, 0.0, 1.0))
        walked = walked + xp.clip(free, 0.02, 0.5)
    dark = xp.astype((xp.floor(x) + xp.floor(z)) % 2.0 == 0.0, xp.float32)
    surface = xp.where(y < FLOOR + 0.01, 0.9 - 0.5 * dark, 0.8)
    return xp.where(far < 39.0, surface * (0.15 + 0.85 * lit * shadow), 0.75 + 0.2 * dy)


def play(step: Any, across: Any, up: Any) -> Iterator[Any]:
    """Yields the one picture."""
    yield step(across, up)


def window(width: int, height: int) -> list[np.ndarray]:
    """Where each pixel lies in the window."""
    aspect = width / height
    sides = (
        np.linspace(-aspect, aspect, width, dtype=np.float32),
        np.linspace(1, -1, height, dtype=np.float32),
    )
    return list(np.meshgrid(*sides))


def main(width: int = 720, height: int = 480, output: Path = Path("ray_marching.png")) -> None:
    (brightness,) = race(play, render, *window(width, height))
    Image.fromarray((255 * np.clip(brightness, 0, 1) ** (1 / 2.2)).astype(np.uint8)).save(output)
    print(f"{output}: {width * height:,} rays")


if __name__ == "__main__":
    run(main)
