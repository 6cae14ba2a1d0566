"""Gravity between all pairs of bodies: a workgroup loads a tile of them once, into memory that its lanes share.

python examples/kernels/nbody.py --backend cpu writes nbody.png: how strongly a cloud pulls.
"""

# pyright: reportInvalidTypeForm=false

from __future__ import annotations

from pathlib import Path

import numpy as np

import hologram as hg
from hologram.demo.colours import coloured, enlarged
from hologram.demo.gallery import run

TILE = 64
SOFTENING = 1e-2


@hg.kernel(workgroup=TILE)
def pull(places: hg.Array[hg.f32, 2], mass: hg.Array[hg.f32], force: hg.Array[hg.f32, 2]):
    """The acceleration of each body; bodies are rows of three numbers."""
    i, t = hg.index(), hg.thread_index()
    bodies = mass.shape[0]
    near = hg.shared((TILE, 4), hg.f32)
    place, total = hg.vec3(0.0), hg.vec3(0.0)
    if i < bodies:
        place = hg.vec3(places[i, 0], places[i, 1], places[i, 2])
    for first in range(0, bodies, TILE):
        near[t, 3] = 0.0
        if first + t < bodies:
            for axis in hg.static(range(3)):
                near[t, axis] = places[first + t, axis]
            near[t, 3] = mass[first + t]
        hg.barrier()
        for k in range(TILE):
            to = hg.vec3(near[k, 0], near[k, 1], near[k, 2]) - place
            inverse = hg.rsqrt(to.dot(to) + SOFTENING)
            total = total + to * (near[k, 3] * inverse * inverse * inverse)
        hg.barrier()
    if i < bodies:
        force[i, 0], force[i, 1], force[i, 2] = total


def accelerations(executor: hg.Executor, places: np.ndarray, mass: np.ndarray) -> np.ndarray:
    """The acceleration of each body. The grid is whole workgroups: each lane loads its part of a tile."""
    force = executor.empty(places.shape)
    lanes = -(-mass.size // TILE) * TILE
    pull[lanes](executor.tensor(places), executor.tensor(mass), force)
    return force.to_numpy()


def main(bodies: int = 3000, side: int = 60, output: Path = Path("nbody.png")) -> None:
    """Bodies without mass, one a pixel, feel how three clouds pull."""
    rng = np.random.default_rng(0)
    middles = np.array([[-1.0, 0.2, 0.0], [0.9, 0.5, 0.0], [0.3, -0.6, 0.0]], np.float32)
    clouds = middles[rng.integers(3, size=bodies)] + rng.normal(size=(bodies, 3)) * 0.25
    y, x = np.meshgrid(np.linspace(1.0, -1.0, side), np.linspace(-2.0, 2.0, 2 * side), indexing="ij")
    pixels = np.stack([x, y, np.zeros_like(x)], axis=-1).reshape(-1, 3)
    mass = np.append(np.full(bodies, 1.0 / bodies, np.float32), np.zeros(len(pixels), np.float32))
    found = accelerations(hg.default_executor(), np.concatenate([clouds, pixels]).astype(np.float32), mass)
    strength = np.linalg.norm(found[bodies:], axis=1).reshape(side, 2 * side)
    enlarged(coloured(strength, 0, float(np.percentile(strength, 99.5))), 480).save(output)
    print(f"{output}: the strongest pull is {strength.max():.3f}")


if __name__ == "__main__":
    run(main)
