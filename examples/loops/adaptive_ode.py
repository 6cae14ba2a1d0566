"""Differential equations with steps that their errors choose: a while_loop, of many equations at once.

python examples/loops/adaptive_ode.py webgpu
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import hologram as hg

END = 10.0
TOLERANCE = 1e-4  # of a step's error


def slope(state: Any, stiffness: Any) -> Any:
    """Van der Pol's oscillators: state (2, equations), places and speeds."""
    x, v = state[0], state[1]
    return hg.stack([v, stiffness * (1.0 - x * x) * v - x])


def stepped(state: Any, k1: Any, size: Any, stiffness: Any) -> tuple[Any, Any, Any]:
    """The state a step later, its slope, and the error: Bogacki and Shampine 1989, of orders 3 and 2."""
    k2 = slope(state + 0.5 * size * k1, stiffness)
    k3 = slope(state + 0.75 * size * k2, stiffness)
    after = state + size * (2.0 / 9.0 * k1 + 1.0 / 3.0 * k2 + 4.0 / 9.0 * k3)
    k4 = slope(after, stiffness)
    error = size * (-5.0 / 72.0 * k1 + 1.0 / 12.0 * k2 + 1.0 / 9.0 * k3 - 0.125 * k4)
    return after, k4, hg.max(hg.abs(error) / (1.0 + hg.abs(after)))


@hg.jit
def solved(state: Any, stiffness: Any) -> Any:
    """The states (2, equations) at END, how many steps were taken, and how many tried."""

    def going(carried: Any) -> Any:
        return carried[0] < END

    def step(carried: Any) -> Any:
        time, size, state, k1, taken, tried = carried
        size = hg.minimum(size, END - time)
        after, k4, error = stepped(state, k1, size, stiffness)
        error = error / TOLERANCE
        good = error <= 1.0
        factor = hg.clip(0.9 * hg.exp(hg.log(hg.maximum(error, 1e-8)) * (-1.0 / 3.0)), 0.2, 5.0)
        near = hg.logical_and(good, size >= END - time)  # sums of steps need not meet the end
        return (
            hg.where(near, END, hg.where(good, time + size, time)),
            size * factor,
            hg.where(good, after, state),
            hg.where(good, k4, k1),
            taken + good.astype("int32"),
            tried + 1,
        )

    nothing = stiffness[0] * 0.0
    count = nothing.astype("int32")
    begin = (nothing, nothing + 0.01, state, slope(state, stiffness), count, count)
    _, _, state, _, taken, tried = hg.while_loop(going, step, begin)
    return state, taken, tried


def inputs(equations: int) -> tuple[np.ndarray, ...]:
    """States to begin with, and stiffnesses."""
    state = np.stack([np.full(equations, 2.0), np.zeros(equations)]).astype(np.float32)
    return state, np.linspace(0.5, 3.0, equations).astype(np.float32)


if __name__ == "__main__":
    ex = hg.Executor(*sys.argv[1:])
    state, taken, tried = solved(*map(ex.tensor, inputs(8)))
    print(f"{taken.item()} steps of {tried.item()} tried")
    print(state.to_numpy())
