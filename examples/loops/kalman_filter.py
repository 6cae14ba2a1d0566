"""A Kalman filter: where something is, and how fast, of places seen with errors at uneven times. A scan over those.

python examples/loops/kalman_filter.py webgpu
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import hologram as hg

DRIFT = 0.01  # variance that a unit of time adds to everything
NOISE = 0.1  # variance of what is seen


@hg.jit
def filtered(seen: Any, times: Any, start: Any, spread: Any) -> Any:
    """States (steps, 4), places and speeds, after each of seen (steps, 2), and the last covariance (4, 4).

    `times` (steps,) are those since the one before; Kalman 1960, "A new approach to linear filtering".
    """
    one = hg.eye(4, device=spread.executor)
    forward = hg.eye(4, k=2, device=spread.executor)

    def step(state: Any, given: Any) -> Any:
        (mean, spread), (place, time) = state, given
        moved = one + time * forward
        mean = moved @ mean
        spread = moved @ spread @ moved.T + DRIFT * time * one
        off = place - mean[:2]
        s = spread[:2, :2] + NOISE * one[:2, :2]
        a, b, c, d = s[0, 0], s[0, 1], s[1, 0], s[1, 1]
        adjugate = hg.stack([hg.stack([d, -b]), hg.stack([-c, a])])
        gain = spread[:, :2] @ (adjugate / (a * d - b * c))
        mean = mean + gain @ off
        return (mean, spread - gain @ spread[:2]), mean

    (_, last), means = hg.scan(step, (start, spread), (seen, times))
    return means, last


def walk(steps: int, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Places as they are, as they are seen, and the times between: (steps, 2), (steps, 2), (steps,)."""
    rng = np.random.default_rng(seed)
    times = rng.uniform(0.5, 1.5, steps)
    speeds = np.cumsum(DRIFT**0.5 * rng.standard_normal((steps, 2)) * times[:, None] ** 0.5, axis=0)
    places = np.cumsum(speeds * times[:, None], axis=0)
    seen = places + NOISE**0.5 * rng.standard_normal((steps, 2))
    return tuple(x.astype(np.float32) for x in (places, seen, times))


def inputs(steps: int) -> tuple[np.ndarray, ...]:
    """What `filtered` is given, to measure it."""
    _, seen, times = walk(steps)
    return seen, times, np.zeros(4, np.float32), np.eye(4, dtype=np.float32)


if __name__ == "__main__":
    places, seen, _ = walk(500)
    means, _ = filtered(*map(hg.Executor(*sys.argv[1:]).tensor, inputs(500)))
    off = [float(np.sqrt(np.mean((x - places) ** 2))) for x in (seen, means.to_numpy()[:, :2])]
    print(f"seen with an error of {off[0]:.3f}, filtered {off[1]:.3f}")
