"""Programs of many small jitted steps: host time a step, beside JAX, on the CPU with two threads.

    python bench/steps.py

Edit distance of two texts of 256 letters, row by row and by anti-diagonals, a Kalman filter with other measurements at
each of 1,000 steps, Adam with a step count that changes. Inputs are fresh at every step; results are compared first.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

os.environ.update(HOLOGRAM_CPU_THREADS="2", OMP_NUM_THREADS="2", JAX_PLATFORMS="cpu")
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=true intra_op_parallelism_threads=2"
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import jax
import jax.numpy as jnp
import numpy as np

import hologram as hg

N, STEPS, TURNS = 256, 1000, 7
executor = hg.Executor("cpu")


class Hologram:
    """What the programs below ask of a library, under one set of names."""

    where, stack, concat, minimum, clip, take, sqrt = (
        hg.where, hg.stack, hg.concat, hg.minimum, hg.clip, hg.take, hg.sqrt,
    )  # fmt: skip
    jit = staticmethod(hg.jit)
    tensor = staticmethod(executor.tensor)

    @staticmethod
    def counted(n: int) -> Any:
        return hg.arange(n, dtype="i32", device=executor)

    @staticmethod
    def whole(x: Any) -> Any:
        return x.astype("i32")

    @staticmethod
    def running_minimum(x: Any) -> Any:
        return hg.cummin(x, axis=0)[0]

    @staticmethod
    def done(x: Any) -> np.ndarray:
        return x.to_numpy()


class Jax:
    """The same of JAX."""

    where, stack, concat, minimum, clip, take, sqrt = (
        jnp.where, jnp.stack, jnp.concatenate, jnp.minimum, jnp.clip, jnp.take, jnp.sqrt,
    )  # fmt: skip
    jit = staticmethod(jax.jit)
    tensor = staticmethod(jnp.array)
    running_minimum = staticmethod(jax.lax.cummin)
    done = staticmethod(np.asarray)

    @staticmethod
    def counted(n: int) -> Any:
        return jnp.arange(n, dtype=jnp.int32)

    @staticmethod
    def whole(x: Any) -> Any:
        return x.astype(jnp.int32)


rng = np.random.default_rng(0)
FIRST, SECOND = (rng.integers(0, 4, N).astype(np.int32) for _ in range(2))
MEASURED = rng.standard_normal((STEPS, 2)).astype(np.float32)


def rows(xp: Any) -> Callable[[], np.ndarray]:
    """Edit distance, a call a row: what comes from the left is a running minimum."""

    @xp.jit
    def row(above: Any, letters: Any, letter: Any, number: Any) -> Any:
        places = xp.counted(N + 1)
        best = xp.minimum(above[1:] + 1, above[:-1] + xp.whole(letters != letter))
        border = xp.counted(1) + (number + 1)
        return xp.running_minimum(xp.concat([border, best]) - places) + places

    start, letters = xp.tensor(np.arange(N + 1, dtype=np.int32)), xp.tensor(SECOND)

    def run() -> np.ndarray:
        found = start
        for number, letter in enumerate(FIRST.tolist()):
            found = row(found, letters, letter, number)
        return xp.done(found)[-1:]

    return run


def diagonals(xp: Any) -> Callable[[], np.ndarray]:
    """Edit distance, a call an anti-diagonal."""

    @xp.jit
    def diagonal(last: Any, before: Any, first: Any, second: Any, number: Any) -> Any:
        row = xp.counted(N + 1)
        column = number - row
        letters = (xp.take(first, xp.clip(row - 1, 0, N - 1)), xp.take(second, xp.clip(column - 1, 0, N - 1)))
        up, corner = xp.concat([last[:1], last[:-1]]), xp.concat([before[:1], before[:-1]])
        best = xp.minimum(xp.minimum(up, last) + 1, corner + xp.whole(letters[0] != letters[1]))
        return xp.where((row >= 1) & (column >= 1) & (column <= N), best, number + row * 0)

    given = [xp.tensor(x) for x in (np.ones(N + 1, np.int32), np.zeros(N + 1, np.int32), FIRST, SECOND)]

    def run() -> np.ndarray:
        last, before, first, second = given
        for number in range(2, 2 * N + 1):
            last, before = diagonal(last, before, first, second, number), last
        return xp.done(last)[N:]

    return run


def kalman(xp: Any) -> Callable[[], np.ndarray]:
    """Position and speed in a plane, of which the position is measured."""

    def inverse(m: Any) -> Any:
        a, b, c, d = m[0, 0], m[0, 1], m[1, 0], m[1, 1]
        return xp.stack([xp.stack([d, -b]), xp.stack([-c, a])]) / (a * d - b * c)

    @xp.jit
    def step(x: Any, p: Any, z: Any, f: Any, h: Any, q: Any, r: Any) -> Any:
        x, p = f @ x, f @ p @ f.T + q
        gain = p @ h.T @ inverse(h @ p @ h.T + r)
        return x + gain @ (z - h @ x), p - gain @ h @ p

    moves = np.eye(4, dtype=np.float32) + np.diag(np.full(2, 0.1, np.float32), 2)
    noise = (np.eye(4, dtype=np.float32) * 0.01, np.eye(2, dtype=np.float32) * 0.1)
    model = [xp.tensor(m) for m in (moves, np.eye(2, 4, dtype=np.float32), *noise)]
    start = xp.tensor(np.zeros(4, np.float32)), xp.tensor(np.eye(4, dtype=np.float32))
    measured = [xp.tensor(z) for z in MEASURED]

    def run() -> np.ndarray:
        x, p = start
        for z in measured:
            x, p = step(x, p, z, *model)
        return xp.done(x)

    return run


def adam(xp: Any) -> Callable[[], np.ndarray]:
    """A rate and a step count that are others at every call."""

    @xp.jit
    def step(x: Any, m: Any, v: Any, t: Any, rate: Any) -> Any:
        g = x * 2.0 - 1.0
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        return x - rate * (1 - 0.999**t) ** 0.5 / (1 - 0.9**t) * m / (xp.sqrt(v) + 1e-8), m, v

    start = [xp.tensor(np.full((64, 16), k, np.float32)) for k in (3, 0, 0)]

    def run() -> np.ndarray:
        x, m, v = start
        for t in range(1, STEPS + 1):
            x, m, v = step(x, m, v, t, 0.1 / t**0.5)
        return xp.done(x)

    return run


def seconds(run: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    run()
    return time.perf_counter() - begun


def main() -> None:
    print(
        f"{'':12}{'hologram':>10}{'JAX':>10} us a step{'ratio':>8}{'first: hologram':>20}{'JAX':>8} ms more"
    )
    for program, steps in ((rows, N), (diagonals, 2 * N - 1), (kalman, STEPS), (adam, STEPS)):
        ours, theirs = program(Hologram), program(Jax)
        first = [seconds(run) for run in (ours, theirs)]
        np.testing.assert_allclose(ours(), theirs(), rtol=1e-3, atol=1e-4)
        turns = [(seconds(ours), seconds(theirs)) for _ in range(TURNS)]
        usual = [median(each) for each in zip(*turns, strict=True)]
        more = [(a - b) * 1e3 for a, b in zip(first, usual, strict=True)]
        a, b = (t / steps * 1e6 for t in usual)
        print(
            f"{program.__name__:12}{a:10.1f}{b:10.1f}{a / b:18.2f}{more[0]:20.0f}{more[1]:8.0f}", flush=True
        )


if __name__ == "__main__":
    main()
