"""Numbers counted, drawn, solved for and fitted, in the manner of Taichi."""

# pyright: reportInvalidTypeForm=false, reportOptionalMemberAccess=false

from __future__ import annotations

import math
from typing import Any

import numpy as np

import hologram as hg
from tests.kernels.examples import Cases, Pair

RNG = np.random.default_rng(6)
CASES = Cases()
case = CASES.case


@hg.func
def is_prime(n):
    k = 2
    while k * k <= n:
        if n % k == 0:
            return False
        k += 1
    return n > 1


@hg.kernel
def count_primes(found: hg.Array[hg.i32]):
    if is_prime(hg.index()):
        hg.atomic_add(found, 0, 1)


@case
def primes(ex: hg.Executor) -> Pair:
    found = ex.zeros(1, hg.i32)
    count_primes[1000](found)
    return found.to_numpy(), [168]


@hg.kernel
def walk(steps: hg.Array[hg.i32]):
    n, k = hg.index() + 1, 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        k += 1
    steps[hg.index()] = k


@case
def collatz(ex: hg.Executor) -> Pair:
    steps, want = ex.empty(60, hg.i32), []
    walk[60](steps)
    for n in range(1, 61):
        want.append(0)
        while n != 1:
            n, want[-1] = n // 2 if n % 2 == 0 else 3 * n + 1, want[-1] + 1
    return steps.to_numpy(), want


@hg.func
def shuffled(state):
    """Marsaglia's xorshift of 32 bits."""
    state ^= state << 13
    state ^= state >> 17
    state ^= state << 5
    return state


@hg.kernel
def throw(inside: hg.Array[hg.i32], throws: hg.i32):
    state = hg.u32(hg.index()) * hg.u32(747796405) + hg.u32(2891336453)
    hits = 0
    for _ in range(throws):
        state = shuffled(state)
        x = hg.f32(state >> 8) / 16777216.0
        state = shuffled(state)
        y = hg.f32(state >> 8) / 16777216.0
        if x * x + y * y < 1.0:
            hits += 1
    hg.atomic_add(inside, 0, hits)


@case
def monte_carlo_pi(ex: hg.Executor) -> Pair:
    inside = ex.zeros(1, hg.i32)
    throw[64](inside, 50)
    state, hits = np.arange(64, dtype=np.uint32) * np.uint32(747796405) + np.uint32(2891336453), 0
    for _ in range(50):
        x = (state := _shuffled(state)) >> np.uint32(8)
        y = (state := _shuffled(state)) >> np.uint32(8)
        hits += np.sum((x / 2**24) ** 2 + (y / 2**24) ** 2 < 1)
    assert abs(4 * hits / 3200 - math.pi) < 0.1
    return inside.to_numpy(), [hits]


def _shuffled(state: np.ndarray) -> np.ndarray:
    state = state ^ state << np.uint32(13)
    state = state ^ state >> np.uint32(17)
    return state ^ state << np.uint32(5)


@hg.kernel
def relax(matrix: hg.Array[hg.f32, 2], right: hg.Array[hg.f32], x: hg.Array[hg.f32], after: hg.Array[hg.f32]):
    i = hg.index()
    rest = right[i]
    for j in range(x.size):
        if i != j:
            rest -= matrix[i, j] * x[j]
    after[i] = rest / matrix[i, i]


@case
def jacobi(ex: hg.Executor) -> Pair:
    matrix = RNG.random((20, 20), np.float32) + 20 * np.eye(20, dtype=np.float32)
    right = RNG.random(20, np.float32)
    a, b, x, y = ex.tensor(matrix), ex.tensor(right), ex.zeros(20), ex.empty(20)
    for _ in range(30):
        relax[20](a, b, x, y)
        x, y = y, x
    return x.to_numpy(), np.linalg.solve(matrix, right)


@hg.kernel(workgroup=64)
def prefix(x: hg.Array[hg.i32]):
    t = hg.thread_index()
    sums = hg.shared(64, hg.i32)
    sums[t] = x[hg.index()]
    hg.barrier()
    for reach in hg.static((1, 2, 4, 8, 16, 32)):
        before = sums[t - reach] if t >= reach else 0
        hg.barrier()
        sums[t] += before
        hg.barrier()
    x[hg.index()] = sums[t]


@case
def scan(ex: hg.Executor) -> Pair:
    numbers = RNG.integers(100, size=128).astype(np.int32)
    x = ex.tensor(numbers)
    prefix[128](x)
    return x.to_numpy(), numbers.reshape(2, 64).cumsum(1).ravel()


@hg.kernel
def longest(a: hg.Array[hg.i32], b: hg.Array[hg.i32], table: hg.Array[hg.i32, 2]):
    for i in range(1, a.size + 1):
        for j in range(1, b.size + 1):
            both = table[i - 1, j - 1] + 1 if a[i - 1] == b[j - 1] else 0
            table[i, j] = max(both, table[i - 1, j], table[i, j - 1])


@case
def subsequence(ex: hg.Executor) -> Pair:
    a, b = (RNG.integers(4, size=n).astype(np.int32) for n in (18, 25))
    table, want = ex.zeros((19, 26), hg.i32), np.zeros((19, 26), int)
    longest[1](ex.tensor(a), ex.tensor(b), table)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            want[i + 1, j + 1] = max(want[i, j] + (x == y), want[i, j + 1], want[i + 1, j])
    return table.to_numpy(), want


@hg.kernel
def errors(x: hg.Array[hg.f32], y: hg.Array[hg.f32], weights: hg.Array[hg.f32], out: hg.Array[hg.f32]):
    i = hg.index()
    guess = 0.0
    for k in hg.static(range(4)):
        guess += weights[k] * x[i] ** k
    out[i] = (guess - y[i]) ** 2


@case
def regression(ex: hg.Executor) -> Pair:
    x = np.linspace(-1, 1, 40).astype(np.float32)
    y = (0.5 - x + 2 * x**3).astype(np.float32)
    there = ex.tensor(x), ex.tensor(y)

    def loss(weights: Any) -> Any:
        out = hg.zeros_like(there[0])
        errors[40](*there, weights, out)
        return hg.sum(out)

    slope, weights = hg.jit(hg.grad(loss)), ex.zeros(4)
    for _ in range(400):
        weights = weights - 0.02 * slope(weights)
    return weights.to_numpy().round(2), [0.5, -1, 0, 2]
