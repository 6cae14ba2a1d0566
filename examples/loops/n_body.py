"""Gravity between all pairs of bodies, in steps of leapfrog in one loop: energy is kept.

python examples/loops/n_body.py webgpu
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import hologram as hg

STEP = 0.001
STEPS = 200
SOFTENING = 0.01  # bodies this near (squared) no longer pull harder


def pull(places: Any, masses: Any) -> Any:
    """The accelerations (bodies, 3)."""
    apart = places[None, :, :] - places[:, None, :]
    near = hg.sum(apart * apart, axis=2) + SOFTENING
    weight = masses[None, :] / (near * hg.sqrt(near))
    return hg.sum(apart * weight[:, :, None], axis=1)


@hg.jit
def advance(places: Any, speeds: Any, masses: Any) -> Any:
    """Places and speeds (bodies, 3) STEPS steps later; Verlet 1967."""

    def step(_: Any, state: Any) -> Any:
        places, speeds, force = state
        speeds = speeds + 0.5 * STEP * force
        places = places + STEP * speeds
        force = pull(places, masses)
        return places, speeds + 0.5 * STEP * force, force

    places, speeds, _ = hg.fori_loop(0, STEPS, step, (places, speeds, pull(places, masses)))
    return places, speeds


@hg.jit
def energy(places: Any, speeds: Any, masses: Any) -> Any:
    """Of motion, and of all pairs."""
    apart = places[None, :, :] - places[:, None, :]
    near = hg.sqrt(hg.sum(apart * apart, axis=2) + SOFTENING)
    pairs = hg.sum(masses[None, :] * masses[:, None] / near) - hg.sum(masses * masses) / SOFTENING**0.5
    return 0.5 * hg.sum(masses[:, None] * speeds * speeds) - 0.5 * pairs


def inputs(bodies: int) -> tuple[np.ndarray, ...]:
    """A cloud at rest, whose bodies weigh 1 together."""
    rng = np.random.default_rng(0)
    places = rng.standard_normal((bodies, 3)).astype(np.float32)
    masses = rng.uniform(0.5, 1.5, bodies)
    return places, np.zeros_like(places), (masses / masses.sum()).astype(np.float32)


if __name__ == "__main__":
    ex = hg.Executor(*sys.argv[1:])
    places, speeds, masses = map(ex.tensor, inputs(128))
    before = energy(places, speeds, masses).item()
    for turn in range(1, 6):
        places, speeds = advance(places, speeds, masses)
        now = energy(places, speeds, masses).item()
        print(f"time {turn * STEP * STEPS:.1f}: energy {now:.6f}, {before:.6f} at the start")
