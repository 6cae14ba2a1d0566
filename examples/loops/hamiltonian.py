"""Hamiltonian Monte Carlo: samples of a distribution by its gradient alone, many chains at once, a scan over samples.

python examples/loops/hamiltonian.py webgpu
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import hologram as hg

SAMPLES = 300
PATH = 8  # steps of a proposal
STEP = 0.4
BEND = 0.4


def energy(x: Any) -> Any:
    """-log of the density of each chain's place (chains, 2), but for a constant: a bell, bent like a banana."""
    bent = x[:, 1] - BEND * (x[:, 0] * x[:, 0] - 1.0)
    return 0.5 * (x[:, 0] * x[:, 0] + bent * bent)


slope = hg.grad(lambda x: hg.sum(energy(x)))


@hg.jit
def sampled(key: Any, start: Any) -> Any:
    """Samples (SAMPLES, chains, 2) of chains that begin at `start`, and the share of proposals taken.

    Duane, Kennedy, Pendleton and Roweth 1987, "Hybrid Monte Carlo".
    """

    def sample(x: Any, key: Any) -> Any:
        first, second = hg.random.split(key)
        speed = hg.random.normal(first, x.shape)
        before = energy(x) + 0.5 * hg.sum(speed * speed, axis=1)
        y = x
        speed = speed - 0.5 * STEP * slope(y)
        for turn in range(PATH):
            y = y + STEP * speed
            speed = speed - (0.5 if turn == PATH - 1 else 1.0) * STEP * slope(y)
        after = energy(y) + 0.5 * hg.sum(speed * speed, axis=1)
        taken = hg.random.uniform(second, before.shape) < hg.exp(before - after)
        x = hg.where(taken[:, None], y, x)
        return x, (x, hg.mean(taken.astype("float32")))

    _, (samples, taken) = hg.scan(sample, start, hg.random.split(key, SAMPLES))
    return samples, hg.mean(taken)


def inputs(chains: int) -> tuple[np.ndarray, ...]:
    """Where chains start."""
    return (np.random.default_rng(0).standard_normal((chains, 2)).astype(np.float32),)


if __name__ == "__main__":
    ex = hg.Executor(*sys.argv[1:])
    (start,) = map(ex.tensor, inputs(256))
    samples, taken = sampled(hg.random.key(0, device=ex), start)
    places = samples.to_numpy()[50:].reshape(-1, 2)
    print(
        f"{float(taken):.0%} of proposals taken; means {places.mean(axis=0)}, variances {places.var(axis=0)}"
    )
