"""A network learns two spirals: derivatives by hg.value_and_grad, and a whole training step compiled by hg.jit.

python examples/simple_nn.py --backend webgpu writes spirals.png.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import hologram as hg
from hologram.demo.gallery import run
from hologram.demo.race import race

RATE, MOMENTUM = 0.1, 0.9


def spirals(points: int) -> tuple[np.ndarray, np.ndarray]:
    """Places (2 * points, 2) on two arms that wind around one another, and each one's arm."""
    rng = np.random.default_rng(0)
    turns = np.sqrt(rng.uniform(0.02, 1, (2, points)))
    angles = 3.5 * np.pi * turns + np.pi * np.arange(2)[:, None]
    places = turns[..., None] * np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    places += 0.012 * rng.standard_normal(places.shape)
    return places.reshape(-1, 2).astype(np.float32), np.repeat(np.arange(2), points)


def start(widths: tuple[int, ...]) -> Iterator[np.ndarray]:
    """Each layer's weights and biases, as He et al. (2015) draw them."""
    rng = np.random.default_rng(1)
    for m, n in pairwise(widths):
        yield (rng.standard_normal((m, n)) * np.sqrt(2 / m)).astype(np.float32)
        yield np.zeros(n, np.float32)


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
    return value, *descended(layers, speeds, slopes)


def descended(layers: Any, speeds: Any, slopes: Any) -> tuple[Any, Any]:
    speeds = [
        tuple(MOMENTUM * v - RATE * s for v, s in zip(*pair, strict=True))
        for pair in zip(speeds, slopes, strict=True)
    ]
    return [
        tuple(p + v for p, v in zip(*pair, strict=True)) for pair in zip(layers, speeds, strict=True)
    ], speeds


def by_hand(layers: Any, speeds: Any, places: Any, arms: Any) -> Any:
    """The same step in NumPy, which has no derivatives: they were worked out on paper."""
    kept = [places]
    for weight, shift in layers[:-1]:
        kept.append(np.maximum(kept[-1] @ weight + shift, 0))
    weight, shift = layers[-1]
    share = kept[-1] @ weight + shift
    share = np.exp(share - np.max(share, axis=1, keepdims=True))
    share /= np.sum(share, axis=1, keepdims=True)
    given = np.arange(len(arms)), arms
    value = -np.mean(np.log(share[given]))
    share[given] -= 1
    slope, slopes = share / len(arms), []
    for (weight, _), before in zip(layers[::-1], kept[::-1], strict=True):
        slopes.append((before.T @ slope, np.sum(slope, axis=0)))
        slope = slope @ weight.T * (before > 0)
    return value, *descended(layers, speeds, slopes[::-1])


def play(step: Any, places: Any, arms: Any, *parameters: Any, steps: int) -> Iterator[Any]:
    """Yields the loss every hundred steps, then weights and biases."""
    layers = paired(parameters)
    speeds = [(0.0 * weight, 0.0 * shift) for weight, shift in layers]
    for left in reversed(range(steps)):
        value, layers, speeds = step(layers, speeds, places, arms)
        if left % 100 == 0:
            yield value
    for layer in layers:
        yield from layer


def paired(parameters: Sequence[Any]) -> list[tuple[Any, Any]]:
    return list(zip(parameters[::2], parameters[1::2], strict=True))


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


def main(points: int = 1000, steps: int = 600, output: Path = Path("spirals.png")) -> None:
    places, arms = spirals(points)
    parameters = [*start((2, 64, 64, 2))]
    found = race(partial(play, steps=steps), step, places, arms, *parameters, plain=by_hand)
    value, layers = found[-1 - len(parameters)], paired([*map(hg.asarray, found[-len(parameters) :])])
    right = np.mean(hg.argmax(scores(layers, hg.asarray(places)), axis=1).to_numpy() == arms)
    picture(layers, places, arms).save(output)
    print(f"{output}: loss {value:.4f}, {right:.1%} of the points on the right arm")


if __name__ == "__main__":
    run(main)
