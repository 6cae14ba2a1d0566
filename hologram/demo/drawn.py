"""A classifier of drawn digits for a page: a small network, trained on scikit-learn's digits and shifted copies."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np

import hologram as hg
from hologram.demo.digits import CLASSES, Digits

SIDE = 8  # pixels of a digit's side
HIDDEN = (128, 64)
STEPS, BATCH = 3000, 256
RATE, FIRST, SECOND = 2e-3, 0.9, 0.99  # Adam's (Kingma, Ba 2014)
SPREAD = 0.12  # of sizes and slants
WEB = Path(__file__).parent / "web"
Layers = list[tuple[Any, ...]]  # weights and biases


def train(digits: Digits, executor: hg.Executor, steps: int = STEPS, seed: int = 0) -> Layers:
    """Trains on the digits' images, moved, scaled and slanted a little, each time otherwise."""
    random = np.random.default_rng(seed)
    layers: Layers = [tuple(map(executor.tensor, layer)) for layer in start(random)]
    first: Layers = [tuple(executor.zeros(x.shape) for x in layer) for layer in layers]
    second: Layers = [tuple(executor.zeros(x.shape) for x in layer) for layer in layers]
    step = hg.jit(descent)
    images = digits.train_images[:, : SIDE * SIDE].reshape(-1, SIDE, SIDE)
    for number in range(steps):
        chosen = random.integers(0, len(images), BATCH)
        batch = executor.tensor(altered(images[chosen], random).reshape(BATCH, -1))
        labels = executor.tensor(digits.train_labels[chosen])
        rate = RATE * 0.5 * (1 + np.cos(np.pi * number / steps))
        corrected = rate * (1 - SECOND ** (number + 1)) ** 0.5 / (1 - FIRST ** (number + 1))
        layers, first, second = step(layers, first, second, batch, labels, corrected)
    return layers


def start(random: np.random.Generator | None = None) -> list[tuple[np.ndarray, np.ndarray]]:
    """Weights and biases to begin with (He et al. 2015)."""
    random = random or np.random.default_rng(0)
    sizes = (SIDE * SIDE, *HIDDEN, CLASSES)
    return [
        (random.standard_normal((m, n), np.float32) * np.float32((2 / m) ** 0.5), np.zeros(n, np.float32))
        for m, n in itertools.pairwise(sizes)
    ]


def altered(images: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Images (n, SIDE, SIDE) of which each is scaled, slanted and moved by part of a pixel, read between pixels."""
    n, middle = len(images), (SIDE - 1) / 2
    matrices = np.eye(2) + random.normal(0, SPREAD, (n, 2, 2))
    grid = np.stack(np.meshgrid(np.arange(SIDE), np.arange(SIDE), indexing="ij"), axis=-1) - middle
    places = np.einsum("nij,yxj->nyxi", matrices, grid) + middle + random.normal(0, 0.4, (n, 1, 1, 2))
    low = np.floor(places).astype(int)
    part = places - low
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1)))
    result = np.zeros_like(images)
    for y, x in np.ndindex(2, 2):
        weight = np.abs(1 - y - part[..., 0]) * np.abs(1 - x - part[..., 1])
        at = np.clip(low + (y + 1, x + 1), 0, SIDE + 1)
        result += (weight * padded[np.arange(n)[:, None, None], at[..., 0], at[..., 1]]).astype(np.float32)
    return result


def odds(image: Any, layers: Layers) -> Any:
    """Of images (n, pixels) the probability of each digit."""
    return hg.softmax(scores(image, layers), dim=-1)


def scores(image: Any, layers: Layers) -> Any:
    for weight, bias in layers[:-1]:
        image = hg.gelu(image @ weight + bias)
    weight, bias = layers[-1]
    return image @ weight + bias


def descent(layers: Layers, first: Layers, second: Layers, images: Any, labels: Any, rate: Any) -> Any:
    """A step of Adam: the layers and the gradient's two moments after it."""
    _, gradient = hg.value_and_grad(lambda layers: hg.cross_entropy_loss(scores(images, layers), labels))(
        layers
    )

    def each(function: Any, *trees: Layers) -> Layers:
        return [
            tuple(function(*parts) for parts in zip(*pairs, strict=True))
            for pairs in zip(*trees, strict=True)
        ]

    first = each(lambda m, g: FIRST * m + (1 - FIRST) * g, first, gradient)
    second = each(lambda v, g: SECOND * v + (1 - SECOND) * g * g, second, gradient)
    return each(lambda x, m, v: x - rate * m / (hg.sqrt(v) + 1e-8), layers, first, second), first, second


def write_page(folder: Path, layers: Layers, executor: hg.Executor, accuracy: float) -> None:
    """Writes a page on which digits are drawn and recognised."""
    blank = executor.zeros((1, SIDE * SIDE))
    hg.export_web(folder / "model", lambda image: {"odds": odds(image, layers)}, blank)
    (folder / "about.json").write_text(json.dumps({"side": SIDE, "accuracy": accuracy}), encoding="utf-8")
    shutil.copytree(WEB, folder, dirs_exist_ok=True)
