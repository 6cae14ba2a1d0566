"""Gravity between all pairs of bodies: a workgroup loads a tile of them once, into memory that its lanes share.

python examples/kernels/nbody.py cpu
"""

# pyright: reportInvalidTypeForm=false

from __future__ import annotations

import sys

import numpy as np

import hologram as hg

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


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    bodies = rng.normal(size=(1000, 3)).astype(np.float32)
    found = accelerations(hg.Executor(*sys.argv[1:]), bodies, np.full(1000, 1e-3, np.float32))
    print(f"the strongest pull is {np.linalg.norm(found, axis=1).max():.3f}")
