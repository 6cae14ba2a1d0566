"""A network learns two spirals: derivatives by hg.value_and_grad, and a whole training step compiled by hg.jit.

python examples/simple_nn.py --backend webgpu writes spirals.png.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from rich.progress import track

import hologram as hg
from hologram.demo.gallery import run

RATE, MOMENTUM = 0.1, 0.9


def spirals(points: int) -> tuple[np.ndarray, np.ndarray]:
    """Places (2 * points, 2) on two arms that wind around one another, and each one's arm."""
    rng = np.random.default_rng(0)
    turns = np.sqrt(rng.uniform(0.02, 1, (2, points)))
    angles = 3.5 * np.pi * turns + np.pi * np.arange(2)[:, None]
    places = turns[..., None] * np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    places += 0.012 * rng.standard_normal(places.shape)
    return places.reshape(-1, 2).astype(np.float32), np.repeat(np.arange(2), points)


def start(widths: tuple[int, ...]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Weights and biases of each layer, as He et al. (2015) draw them."""
    rng = np.random.default_rng(1)
    return [
        ((rng.standard_normal((m, n)) * np.sqrt(2 / m)).astype(np.float32), np.zeros(n, np.float32))
        for m, n in pairwise(widths)
    ]


def scores(layers: Any, places: Any) -> Any:
    *hidden, (last, bias) = layers
    for weight, shift in hidden:
        places = hg.relu(places @ weight + shift)
    return places @ last + bias


def loss(layers: Any, places: Any, arms: Any) -> Any:
    return hg.cross_entropy_loss(scores(layers, places), arms)


@hg.jit
def step(layers: Any, speeds: Any, places: Any, arms: Any) -> Any:
    """The loss, and layers and speeds after one step of descent with momentum."""
    value, slopes = hg.value_and_grad(loss)(layers, places, arms)
    speeds = [
        tuple(MOMENTUM * v - RATE * s for v, s in zip(*pair, strict=True))
        for pair in zip(speeds, slopes, strict=True)
    ]
    layers = [tuple(p + v for p, v in zip(*pair, strict=True)) for pair in zip(layers, speeds, strict=True)]
    return value, layers, speeds


def picture(layers: Any, places: np.ndarray, arms: np.ndarray, size: int = 480) -> Image.Image:
    """What the network takes each pixel for, and the points that it learnt from."""
    side = np.linspace(-1.1, 1.1, size, dtype=np.float32)
    pixels = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    share = hg.softmax(scores(layers, hg.asarray(pixels)), dim=1)[:, :1].to_numpy()
    colours = np.array([[40.0, 110, 190], [230, 140, 60]])
    image = (share * colours[0] + (1 - share) * colours[1]).reshape(size, size, 3)
    columns, rows = ((places.T + 1.1) / 2.2 * (size - 1)).astype(int)
    image[rows, columns] = 0.35 * colours[arms]
    return Image.fromarray(image.astype(np.uint8))


def main(points: int = 1000, steps: int = 1500, output: Path = Path("spirals.png")) -> None:
    places, arms = spirals(points)
    x, y = hg.asarray(places), hg.asarray(arms)
    layers = [(hg.asarray(w), hg.asarray(b)) for w, b in start((2, 64, 64, 2))]
    speeds = [(hg.zeros_like(w), hg.zeros_like(b)) for w, b in layers]
    value = hg.asarray(0.0)
    for _ in track(range(steps), "descending", transient=True):
        value, layers, speeds = step(layers, speeds, x, y)
    right = hg.mean(hg.argmax(scores(layers, x), axis=1) == y).item()
    picture(layers, places, arms).save(output)
    print(f"{output}: loss {value.item():.4f}, {right:.1%} of the points on the right arm")


if __name__ == "__main__":
    run(main)
