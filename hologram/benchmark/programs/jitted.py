"""Loops whose steps are compiled functions of arrays and of numbers that change: hologram, JAX and NumPy alike."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hologram.benchmark.programs.declared import Array, Arrays, Step, program

LETTERS = 256
OBSERVED = 50  # positions that the filter is told of in a step
BATCH, INWARD, HIDDEN = 64, 32, 64
FIRST, SECOND = 0.9, 0.999  # how much of Adam's moments is kept


def words(random: np.random.Generator) -> Arrays:
    return tuple(random.integers(0, 4, LETTERS).astype(np.int32) for _ in range(2))


def observations(random: np.random.Generator) -> Arrays:
    positions = np.cumsum(random.standard_normal((OBSERVED, 2)), axis=0)
    return positions.astype(np.float32), random.uniform(0.5, 1.5, OBSERVED).astype(np.float32)


def batch(random: np.random.Generator) -> Arrays:
    return random.standard_normal((BATCH, INWARD), np.float32), random.standard_normal((BATCH, 1), np.float32)


@program(limit=2, inputs=words, jitted=True, tolerance=0)
def edit_distance(place: Any) -> Step:
    """Edits between two words of 256 letters, a call for each of 511 diagonals."""
    xp = place.xp

    def diagonal(one: Any, two: Any, a: Any, b: Any, rows: Any, number: Any) -> Any:
        """Distances d[i, number - i] by i, from those of the two diagonals before."""
        there = number - rows
        other = xp.take(b, xp.clip(there[1:] - 1, 0, LETTERS - 1))
        replaced = two[:-1] + xp.where(a == other, 0, 1)
        edited = xp.minimum(xp.minimum(one[:-1], one[1:]) + 1, replaced)
        inside = xp.where(there[1:] <= 0, rows[1:], edited)  # b's empty beginning
        return xp.concat([one[:1] * 0 + number, xp.astype(inside, xp.int32)])

    run = place.compiled(diagonal)

    def step(a: Array, b: Array) -> Any:
        first, second = place.tensor(a), place.tensor(b)
        rows = place.tensor(np.arange(LETTERS + 1, dtype=np.int32))
        two = one = rows
        for number in range(1, 2 * LETTERS + 1):
            two, one = one, run(one, two, first, second, rows, number)
        return one[LETTERS]

    return step


@program(limit=2, inputs=words, jitted=True, tolerance=0)
def edit_rows(place: Any) -> Step:
    """Edits between two words of 256 letters, a call a row: what comes from the left is a running minimum."""
    xp = place.xp

    def row(above: Any, letters: Any, places: Any, letter: Any, number: Any) -> Any:
        replaced = above[:-1] + xp.where(letters == letter, 0, 1)
        best = xp.minimum(above[1:] + 1, replaced)
        edited = xp.concat([above[:1] * 0 + number, xp.astype(best, xp.int32)])
        return place.words.running_minimum(edited - places) + places

    run = place.compiled(row)

    def step(a: Array, b: Array) -> Any:
        letters, places = place.tensor(b), place.tensor(np.arange(LETTERS + 1, dtype=np.int32))
        latest = places
        for number, letter in enumerate(a.tolist(), 1):
            latest = run(latest, letters, places, letter, number)
        return latest[LETTERS]

    return step


@program(limit=2, inputs=observations, jitted=True)
def kalman(place: Any) -> Step:
    """A Kalman filter of place and speed, 50 observations at other distances of time."""
    xp = place.xp

    def update(state: Any, spread: Any, seen: Any, time: Any) -> Any:
        moved = eye + time * drift
        state = moved @ state
        spread = moved @ spread @ moved.T + 0.01 * time * eye
        off = seen - state[:2]
        s = spread[:2, :2] + 0.1 * eye[:2, :2]
        a, b, c, d = s[0, 0], s[0, 1], s[1, 0], s[1, 1]
        adjugate = xp.stack([xp.stack([d, -b]), xp.stack([-c, a])])
        gain = spread[:, :2] @ (adjugate / (a * d - b * c))
        return state + gain @ off, spread - gain @ spread[:2]

    eye, drift = place.tensor(np.eye(4, dtype=np.float32)), place.tensor(np.eye(4, k=2, dtype=np.float32))
    run = place.compiled(update)

    def step(positions: Array, times: Array) -> Any:
        state, spread = place.tensor(np.zeros(4, np.float32)), place.tensor(np.eye(4, dtype=np.float32))
        for seen, time in zip(positions, times, strict=True):
            state, spread = run(state, spread, place.tensor(seen), float(time))
        return state

    return step


@program(limit=2, inputs=batch, jitted=True)
def optimiser_loop(place: Any) -> Step:
    """Adam by gradients of a small network, its rate and corrections other numbers each step."""
    xp = place.xp

    def loss(parameters: Any, x: Any, y: Any) -> Any:
        enter, leave = parameters
        return xp.mean((xp.tanh(x @ enter) @ leave - y) ** 2)

    def update(state: Any, x: Any, y: Any, rate: Any, first: Any, second: Any) -> Any:
        parameters, means, squares = state
        value, slopes = place.value_and_grad(loss)(parameters, x, y)
        means = [FIRST * m + (1 - FIRST) * g for m, g in zip(means, slopes, strict=True)]
        squares = [SECOND * v + (1 - SECOND) * g * g for v, g in zip(squares, slopes, strict=True)]
        parameters = [
            p - rate * (m / first) / (xp.sqrt(v / second) + 1e-8)
            for p, m, v in zip(parameters, means, squares, strict=True)
        ]
        return value, (parameters, means, squares)

    random = np.random.default_rng(0)
    given = [0.1 * random.standard_normal(s, np.float32) for s in ((INWARD, HIDDEN), (HIDDEN, 1))]
    state = tuple([place.tensor(scale * p) for p in given] for scale in (1, 0, 0))
    run, taken = place.compiled(update), 0

    def step(x: Array, y: Array) -> Any:
        nonlocal state, taken
        taken += 1
        rate = 1e-3 * (1 + math.cos(taken / 100))
        numbers = (rate, 1 - FIRST**taken, 1 - SECOND**taken)
        value, state = run(state, place.tensor(x), place.tensor(y), *numbers)
        return value

    return step
