"""k-means (Lloyd's algorithm): distances by a matrix product, and new centres as a product with who belongs where.

python examples/kmeans.py --backend webgpu writes kmeans.png.
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


def nearest(points: Any, centres: Any) -> Any:
    """Which centre each point is nearest to: |p - c|^2 without the |p|^2, which all centres share."""
    xp = points.__array_namespace__()
    return xp.argmin(xp.sum(centres * centres, axis=1) - 2.0 * (points @ centres.T), axis=1)


@hg.jit
def improve(points: Any, centres: Any) -> Any:
    """Each centre moves to the mean of the points that are nearest to it."""
    xp = points.__array_namespace__()
    names = xp.arange(centres.shape[0])
    belongs = xp.astype(names[:, None] == nearest(points, centres)[None, :], xp.float32)
    members = xp.sum(belongs, axis=1, keepdims=True)
    return xp.where(members > 0, belongs @ points / xp.maximum(members, 1.0), centres)


def play(step: Any, points: Any, centres: Any, rounds: int) -> Iterator[Any]:
    """Yields the centres after each round."""
    for _ in range(rounds):
        centres = step(points, centres)
        yield centres


def blobs(points: int, centres: int) -> tuple[np.ndarray, np.ndarray]:
    """Points in clouds of different widths, and some of them to start from."""
    rng = np.random.default_rng(3)
    middles, widths = rng.uniform(-1, 1, (centres, 2)), rng.uniform(0.05, 0.16, (centres, 1))
    cloud = rng.integers(0, centres, points)
    places = (middles[cloud] + widths[cloud] * rng.standard_normal((points, 2))).astype(np.float32)
    return places, places[:centres].copy()


def picture(points: np.ndarray, centres: np.ndarray, size: int = 480) -> Image.Image:
    """Every pixel in the colour of its centre, darker where points lie; the centres are white."""
    rng = np.random.default_rng(0)
    colours = rng.uniform(110, 250, (len(centres), 3))
    side = np.linspace(-1.3, 1.3, size, dtype=np.float32)
    pixels = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    counts, *_ = np.histogram2d(points[:, 1], points[:, 0], bins=size, range=[[-1.3, 1.3]] * 2)
    shade = 1 - 0.6 * np.minimum(counts / 4, 1)[..., None]
    image = colours[nearest(pixels, centres)].reshape(size, size, 3) * shade
    for column, row in ((centres + 1.3) / 2.6 * size).astype(int):
        image[row - 3 : row + 4, column - 3 : column + 4] = 255
    return Image.fromarray(image.astype(np.uint8))


def main(
    points: int = 200_000, centres: int = 12, rounds: int = 30, output: Path = Path("kmeans.png")
) -> None:
    places, start = blobs(points, centres)
    *_, found = race(partial(play, rounds=rounds), improve, places, start)
    picture(places, found).save(output)
    print(f"{output}: {points:,} points around {centres} centres")


if __name__ == "__main__":
    run(main)
