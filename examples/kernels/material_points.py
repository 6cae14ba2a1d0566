"""A dam breaks: water as particles whose momentum meets on a grid (the material point method).

python examples/kernels/material_points.py --backend cpu writes material_points.png: three moments.

The moving least squares form (Hu et al. 2018) of a fluid that is pressed together a little (Tampubolon et al. 2017).
"""

# pyright: reportInvalidTypeForm=false

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import hologram as hg
from hologram.demo.colours import FAINT, PAPER, coloured
from hologram.demo.gallery import run

STIFFNESS, GRAVITY, WALL = 1e5, 40.0, 3  # in cells and seconds
VOLUME = 0.25  # of a particle, in cells: four particles to a cell, each of mass 0.25


@hg.func
def weights(x):
    """The quadratic B-spline at the three nodes around a place, which is 0.5 to 1.5 cells behind the first."""
    return hg.vec3(0.5 * (1.5 - x) ** 2, 0.75 - (x - 1.0) ** 2, 0.5 * (x - 0.5) ** 2)


@hg.kernel
def scatter(
    place: hg.Array[hg.f32, 2], speed: hg.Array[hg.f32, 2], shear: hg.Array[hg.f32, 2], ratio: hg.Array[hg.f32],
    grid: hg.Array[hg.f32, 3], dt: hg.f32,
):  # fmt: skip
    """Particles give mass and momentum to nine nodes; places are in cells, (particles, 2), the grid (n, n, 3)."""
    p = hg.index()
    x, v = hg.vec2(place[p, 0], place[p, 1]), hg.vec2(speed[p, 0], speed[p, 1])
    i, j = math.floor(x.x - 0.5), math.floor(x.y - 0.5)
    off = x - hg.vec2(i, j)
    across, up = weights(off.x), weights(off.y)
    pressed = -4.0 * dt * VOLUME * STIFFNESS * (ratio[p] - 1.0)
    east = hg.vec2(pressed + VOLUME * shear[p, 0], VOLUME * shear[p, 1])
    north = hg.vec2(VOLUME * shear[p, 2], pressed + VOLUME * shear[p, 3])
    for a in hg.static(range(3)):
        for b in hg.static(range(3)):
            way, weight = hg.vec2(a, b) - off, across[a] * up[b]
            hg.atomic_add(grid, (i + a, j + b, 0), weight * (VOLUME * v.x + east.dot(way)))
            hg.atomic_add(grid, (i + a, j + b, 1), weight * (VOLUME * v.y + north.dot(way)))
            hg.atomic_add(grid, (i + a, j + b, 2), weight * VOLUME)


@hg.kernel
def settle(grid: hg.Array[hg.f32, 3], flow: hg.Array[hg.f32, 3], dt: hg.f32):
    """Momentum becomes speed, gravity pulls, walls stop what runs into them; the grid is empty again."""
    i, j = hg.index()
    n, mass = grid.shape[0], grid[i, j, 2]
    east, north = 0.0, 0.0
    if mass > 0.0:
        east, north = grid[i, j, 0] / mass, grid[i, j, 1] / mass - dt * GRAVITY
    if (i < WALL and east < 0.0) or (i > n - WALL and east > 0.0):
        east = 0.0
    if (j < WALL and north < 0.0) or (j > n - WALL and north > 0.0):
        north = 0.0
    flow[i, j, 0], flow[i, j, 1] = east, north
    grid[i, j, 0], grid[i, j, 1], grid[i, j, 2] = 0.0, 0.0, 0.0


@hg.kernel
def gather(
    place: hg.Array[hg.f32, 2], speed: hg.Array[hg.f32, 2], shear: hg.Array[hg.f32, 2], ratio: hg.Array[hg.f32],
    flow: hg.Array[hg.f32, 3], dt: hg.f32,
):  # fmt: skip
    """Particles take speed, and how it changes around them, from the nodes, and move."""
    p = hg.index()
    x = hg.vec2(place[p, 0], place[p, 1])
    i, j = math.floor(x.x - 0.5), math.floor(x.y - 0.5)
    off = x - hg.vec2(i, j)
    across, up = weights(off.x), weights(off.y)
    v, east, north = hg.vec2(0.0), hg.vec2(0.0), hg.vec2(0.0)
    for a in hg.static(range(3)):
        for b in hg.static(range(3)):
            way, weight = hg.vec2(a, b) - off, across[a] * up[b]
            here = hg.vec2(flow[i + a, j + b, 0], flow[i + a, j + b, 1])
            v += weight * here
            east += 4.0 * weight * here.x * way
            north += 4.0 * weight * here.y * way
    speed[p, 0], speed[p, 1] = v
    shear[p, 0], shear[p, 1], shear[p, 2], shear[p, 3] = east.x, east.y, north.x, north.y
    place[p, 0], place[p, 1] = x + dt * v
    ratio[p] *= 1.0 + dt * (east.x + north.y)


def advance(state: tuple[Any, ...], grid: Any, flow: Any, steps: int, dt: float) -> None:
    """Moves the particles: place, speed, shear and the ratio of volumes, which are changed in place."""
    particles = state[0].shape[0]
    for _ in range(steps):
        scatter[particles](*state, grid, dt)
        settle[grid.shape[:2]](grid, flow, dt)
        gather[particles](*state, flow, dt)


def drop(particles: int, n: int) -> tuple[np.ndarray, ...]:
    """Water at rest, a column at the left of a square of n x n cells: place, speed, shear, ratio of volumes."""
    rng, width = np.random.default_rng(0), n * 0.35
    height = particles * VOLUME / width
    place = (WALL + np.array([width, height], np.float32) * rng.random((particles, 2), np.float32)).astype(
        np.float32
    )
    return place, np.zeros_like(place), np.zeros((particles, 4), np.float32), np.ones(particles, np.float32)


def drawn(place: np.ndarray, speed: np.ndarray, n: int) -> np.ndarray:
    """Particles as pixels, three to a cell; fast ones are light."""
    colours = np.full((3 * n, 3 * n, 3), PAPER, np.uint8)
    columns, rows = np.clip(3 * place.T, 0, 3 * n - 1).astype(int)
    shades = coloured(np.linalg.norm(speed, axis=1), 0, 60, ((20, 60, 140), (60, 150, 210), (190, 235, 250)))
    colours[3 * n - 1 - rows, columns] = shades
    colours[[0, -1]] = colours[:, [0, -1]] = FAINT
    return colours


def main(
    particles: int = 4096, n: int = 64, steps: int = 1200, output: Path = Path("material_points.png")
) -> None:
    executor = hg.default_executor()
    state = tuple(map(executor.tensor, drop(particles, n)))
    grid, flow = executor.zeros((n, n, 3)), executor.empty((n, n, 2))
    pictures = []
    for _ in range(3):
        advance(state, grid, flow, steps, 5e-4)
        pictures.append(drawn(state[0].to_numpy(), state[1].to_numpy(), n))
    Image.fromarray(np.concatenate(pictures, axis=1)).save(output)
    print(f"{output}: {particles} particles, the last after {3 * steps} steps")


if __name__ == "__main__":
    run(main)
