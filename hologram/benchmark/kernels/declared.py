"""What a kernel of the gallery is given, how many steps a call takes, and what must come of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hologram.benchmark.kernels import references
from hologram.benchmark.models.declared import Arrays
from hologram.foundation.frozen import frozen

Array = NDArray[Any]
STEPS = 4  # of a simulation in a call; even, so that what is written in turns ends where it began
BINS = 64  # of the histogram, from -4 to 4
WIND, RATE, WARMTH, MOMENT = 0.1, 1.8, 0.2, 5e-4
TILE = (
    8  # pixels on a side of what is compared of a picture: where a ray grazes a thing, the last bit decides
)


@frozen
class KernelWork:
    """A kernel of the gallery at a size: its inputs, and NumPy's result of them in double precision."""

    inputs: Callable[[int, np.random.Generator], Arrays]
    reference: Callable[..., Array]
    tolerance: float = 1e-4
    label: Callable[[int], str] = str  # of a size, as people write it
    scale: Callable[[Arrays], float] = lambda arrays: 1.0


def normal(*shape: int) -> Callable[[np.random.Generator], Array]:
    return lambda rng: rng.standard_normal(shape, dtype=np.float32)


def tiles(picture: Array) -> Array:
    """The mean of each tile of a picture."""
    height, width = (n // TILE for n in picture.shape)
    return picture.reshape(height, TILE, width, TILE).mean(axis=(1, 3))


def _life(side: int, rng: np.random.Generator) -> Arrays:
    return {"cells": (rng.random((side, side)) < 0.3).astype(np.uint8)}


def _lattice(height: int, rng: np.random.Generator) -> Arrays:
    i, j = np.indices((height, 2 * height))
    post = ((i - height / 2) ** 2 + (j - height / 2) ** 2 < (height / 9) ** 2).astype(np.uint8)
    weights = references.WEIGHTS[:, None, None] * (1 + 0.1 * rng.random((9, height, 2 * height)))
    return {"planes": weights.astype(np.float32), "post": post}


def _particles(count: int, rng: np.random.Generator) -> Arrays:
    """A column of water in a square of cells, four particles to a cell, which fill a third of it."""
    n = grid_of(count)
    width = 0.4 * n
    place = references.WALL + np.array([width, count * references.VOLUME / width]) * rng.random((count, 2))
    speed, shear = (rng.standard_normal((count, k)) for k in (2, 4))
    given = {"place": place, "speed": speed, "shear": shear, "ratio": np.ones(count)}
    return {name: array.astype(np.float32) for name, array in given.items()}


def grid_of(particles: int) -> int:
    """Nodes on a side of the grid of so many particles."""
    return int((particles * 0.75) ** 0.5) + 8


def _sparse(rows: int, rng: np.random.Generator) -> Arrays:
    """Rows of 0 to 32 elements."""
    starts = np.append(0, np.cumsum(rng.integers(33, size=rows))).astype(np.int32)
    columns = rng.integers(rows, size=starts[-1], dtype=np.int32)
    return {"starts": starts, "columns": columns, "values": normal(starts[-1])(rng), "x": normal(rows)(rng)}


def _bodies(count: int, rng: np.random.Generator) -> Arrays:
    return {"places": normal(count, 3)(rng), "mass": rng.random(count, np.float32) / count}


def _letters(texts: int, rng: np.random.Generator) -> Arrays:
    shapes = {"query": (128,), "texts": (texts, 400)}
    return {name: rng.integers(4, size=shape, dtype=np.uint8) for name, shape in shapes.items()}


def _heads(length: int, rng: np.random.Generator) -> Arrays:
    return {name: normal(4, length, 64)(rng) for name in "qkv"}


KERNELS = {
    "life": KernelWork(_life, lambda cells: references.life(cells, STEPS)),
    "lattice_boltzmann": KernelWork(
        _lattice,
        lambda planes, post: references.lattice_boltzmann(planes, post, STEPS, WIND, RATE),
        label=lambda height: f"{height}x{2 * height}",
    ),
    "ray_marcher": KernelWork(
        lambda height, rng: {"out": np.zeros((height, 2 * height), np.float32)},
        lambda out: tiles(references.ray_marcher(*out.shape)),
        tolerance=0.06,
        label=lambda height: f"{height}x{2 * height}",
    ),
    "nbody": KernelWork(_bodies, references.nbody, tolerance=1e-3),
    "material_points": KernelWork(
        _particles,
        lambda *given: references.material_points(*given, n=grid_of(len(given[0])), steps=STEPS, dt=MOMENT)[
            0
        ],
        tolerance=1e-3,
    ),
    "heat": KernelWork(
        lambda side, rng: {"plate": normal(side, side)(rng)},
        lambda plate: references.heat(plate, STEPS, WARMTH),
    ),
    "histogram": KernelWork(
        lambda size, rng: {"x": normal(size)(rng)},
        lambda x: np.histogram(x[(x >= -4) & (x < 4)], bins=BINS, range=(-4, 4))[0],
    ),
    "reduction": KernelWork(
        lambda size, rng: {"x": rng.random(size, np.float32)}, lambda x: np.array([x.sum()])
    ),
    "sparse_product": KernelWork(_sparse, references.sparse_product),
    "smith_waterman": KernelWork(
        _letters, references.smith_waterman, label=lambda texts: f"128x400, {texts}"
    ),
    "tiled_product": KernelWork(
        lambda side, rng: {name: normal(side, side)(rng) for name in "ab"},
        lambda a, b: a @ b,
        scale=lambda arrays: arrays["a"].shape[1] ** 0.5,
    ),
    "kernel_attention": KernelWork(_heads, references.attention, label=lambda length: f"4x{length}x64"),
    "where_from": KernelWork(
        lambda height, rng: {"start": rng.random((height, 2 * height), np.float32)},
        lambda start: references.carried_back(start, STEPS),
        label=lambda height: f"{height}x{2 * height}",
    ),
}
