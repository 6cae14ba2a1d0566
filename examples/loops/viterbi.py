"""Viterbi's algorithm: the likeliest course through hidden states, of many sequences. A scan there, and one back.

python examples/loops/viterbi.py webgpu
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import hologram as hg


@hg.jit
def likeliest(begin: Any, change: Any, emit: Any, seen: Any) -> Any:
    """States (time, batch), and the logarithm of each course's probability: of what is seen, (time, batch) of i32.

    Logarithms of probabilities: `begin` (states,), `change` (states, states) from row to column, `emit` (states,
    symbols). Viterbi 1967.
    """
    told = hg.take(emit.T, seen, axis=0)  # (time, batch, states)

    def forward(score: Any, now: Any) -> Any:
        ways = score[:, :, None] + change  # (batch, from, to)
        return hg.max(ways, axis=1) + now, hg.argmax(ways, axis=1).astype("int32")

    score, places = hg.scan(forward, begin + told[0], told[1:])
    last = hg.argmax(score, axis=1).astype("int32")

    def back(state: Any, place: Any) -> Any:
        before = hg.take_along_axis(place, state[:, None], axis=1)[:, 0]
        return before, before

    _, states = hg.scan(back, last, places, reverse=True)
    return hg.concat([states, last[None]], axis=0), hg.max(score, axis=1)


def inputs(time: int, batch: int = 16, states: int = 8, symbols: int = 20) -> tuple[np.ndarray, ...]:
    """A random model, and random symbols."""
    rng = np.random.default_rng(0)

    def logs(*shape: int) -> np.ndarray:
        return np.log(rng.dirichlet(np.ones(shape[-1]), shape[:-1])).astype(np.float32)

    seen = rng.integers(0, symbols, (time, batch)).astype(np.int32)
    return logs(states), logs(states, states), logs(states, symbols), seen


if __name__ == "__main__":
    ex = hg.Executor(*sys.argv[1:])
    healthy = np.log(np.array([0.6, 0.4], np.float32))
    change = np.log(np.array([[0.7, 0.3], [0.4, 0.6]], np.float32))
    emit = np.log(np.array([[0.5, 0.4, 0.1], [0.1, 0.3, 0.6]], np.float32))  # normal, cold, dizzy
    seen = np.array([[0], [1], [2]], np.int32)
    states, score = likeliest(*map(ex.tensor, (healthy, change, emit, seen)))
    said = ", ".join(("healthy", "fever")[k] for k in states.to_numpy()[:, 0])
    print(f"{said}: probability {np.exp(score.item()):.5f}")
