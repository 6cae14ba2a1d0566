"""Programs whose loops are inside of one compiled function: hologram, JAX, and NumPy with Python's loops."""

from __future__ import annotations

from typing import Any

import numpy as np

from hologram.benchmark.programs.declared import Array, Arrays, Step, program
from hologram.benchmark.programs.jitted import observations

STEPS, SEQUENCES, INWARD, UNITS = 200, 16, 32, 64
ROOTS = 64


def sequences(random: np.random.Generator) -> Arrays:
    return (random.standard_normal((STEPS, SEQUENCES, INWARD), np.float32),)


def positive(random: np.random.Generator) -> Arrays:
    return (random.uniform(0.5, 9.0, ROOTS).astype(np.float32),)


@program(limit=2, inputs=sequences, jitted=True)
def lstm_scan(place: Any) -> Step:
    """An LSTM of 64 units over 16 sequences of 200 steps."""
    xp, words = place.xp, place.words
    random = np.random.default_rng(0)
    inward, back = (
        place.tensor(0.1 * random.standard_normal((n, 4 * UNITS), np.float32)) for n in (INWARD, UNITS)
    )
    nothing = place.tensor(np.zeros((SEQUENCES, UNITS), np.float32))

    def cell(state: Any, x: Any) -> Any:
        h, c = state
        gates = (x @ inward + h @ back).reshape(SEQUENCES, 4, UNITS)
        into, kept, new, out = (gates[:, k] for k in range(4))
        c = words.sigmoid(kept) * c + words.sigmoid(into) * xp.tanh(new)
        h = words.sigmoid(out) * xp.tanh(c)
        return (h, c), h

    run = place.compiled(lambda xs: words.loops.scan(cell, (nothing, nothing), xs)[1])

    def step(xs: Array) -> Any:
        return run(place.tensor(xs))[STEPS - 1]

    return step


@program(limit=2, inputs=observations, jitted=True)
def kalman_scan(place: Any) -> Step:
    """A Kalman filter of place and speed, 50 observations at other distances of time, in one call."""
    xp, words = place.xp, place.words
    eye, drift = place.tensor(np.eye(4, dtype=np.float32)), place.tensor(np.eye(4, k=2, dtype=np.float32))
    begin = place.tensor(np.zeros(4, np.float32))

    def update(state: Any, row: Any) -> Any:
        (mean, spread), (seen, time) = state, row
        moved = eye + time * drift
        mean = moved @ mean
        spread = moved @ spread @ moved.T + 0.01 * time * eye
        off = seen - mean[:2]
        s = spread[:2, :2] + 0.1 * eye[:2, :2]
        a, b, c, d = s[0, 0], s[0, 1], s[1, 0], s[1, 1]
        adjugate = xp.stack([xp.stack([d, -b]), xp.stack([-c, a])])
        gain = spread[:, :2] @ (adjugate / (a * d - b * c))
        return (mean + gain @ off, spread - gain @ spread[:2]), mean

    run = place.compiled(lambda seen, times: words.loops.scan(update, (begin, eye), (seen, times))[0][0])

    def step(positions: Array, times: Array) -> Any:
        return run(place.tensor(positions), place.tensor(times))

    return step


@program(limit=2, inputs=positive, jitted=True)
def newton_while(place: Any) -> Step:
    """Square roots of 64 numbers by halving and Newton's steps, until all are near."""
    xp, words = place.xp, place.words

    def roots(a: Any) -> Any:
        def far(x: Any) -> Any:
            return xp.max(xp.abs(x * x - a)) > 1e-3

        return words.loops.while_loop(far, lambda x: 0.99 * x + 0.005 * (x + a / x), a)

    run = place.compiled(roots)

    def step(a: Array) -> Any:
        return run(place.tensor(a))

    return step
