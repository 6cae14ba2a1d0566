"""Twenty kernels of the kind that Taichi's examples are made of, beside NumPy or plain Python.

Fields are arrays, `ti.ndrange` is the grid, `x[i] += v` is an atomic addition where places meet; nothing else changes.
"""

# pyright: reportInvalidTypeForm=false, reportOptionalMemberAccess=false

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hologram as hg

RNG = np.random.default_rng(0)
Pair = tuple[Any, Any]
CASES: dict[str, Callable[[hg.Executor], Pair]] = {}


def case(function: Callable[[hg.Executor], Pair]) -> Callable[[hg.Executor], Pair]:
    """What a device computes, and what is right."""
    CASES[function.__name__] = function
    return function


@hg.func
def squared(z):
    return hg.vec2(z.x * z.x - z.y * z.y, 2.0 * z.x * z.y)


@hg.kernel
def paint(pixels: hg.Array[hg.f32, 2], time: hg.f32):
    i, j = hg.index()
    c = hg.vec2(-0.8, hg.cos(time) * 0.2)
    z = hg.vec2(i / 16.0 - 1.0, j / 16.0 - 0.5) * 2.0
    turns = 0
    while z.length() < 20.0 and turns < 50:
        z = squared(z) + c
        turns += 1
    pixels[i, j] = 1.0 - turns * 0.02


@case
def julia(ex: hg.Executor) -> Pair:
    pixels = ex.empty((32, 16))
    paint[32, 16](pixels, 1.0)
    i, j = np.indices((32, 16))
    z, turns = (i / 16 - 1 + 1j * (j / 16 - 0.5)) * 2, np.zeros((32, 16))
    for _ in range(50):
        inside = np.abs(z) < 20
        z = np.where(inside, z * z - 0.8 + 0.2j * math.cos(1.0), z)
        turns += inside
    return pixels.to_numpy(), 1 - turns * 0.02


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
def laplacian(x: hg.Array[hg.f32, 2], y: hg.Array[hg.f32, 2]):
    i, j = hg.index()
    if i % 4 == 0 and j % 4 == 0 and 0 < i < x.shape[0] - 1 and 0 < j < x.shape[1] - 1:
        y[i, j] = 4.0 * x[i, j] - x[i - 1, j] - x[i + 1, j] - x[i, j - 1] - x[i, j + 1]
    else:
        y[i, j] = 0.0


@case
def laplace(ex: hg.Executor) -> Pair:
    x = RNG.random((17, 21), np.float32)
    y, want = ex.empty(x.shape), np.zeros(x.shape)
    laplacian[x.shape](ex.tensor(x), y)
    for i in range(4, 16, 4):
        for j in range(4, 20, 4):
            want[i, j] = 4 * x[i, j] - x[i - 1, j] - x[i + 1, j] - x[i, j - 1] - x[i, j + 1]
    return y.to_numpy(), want


@hg.kernel
def ripple(
    height: hg.Array[hg.f32, 2], before: hg.Array[hg.f32, 2], after: hg.Array[hg.f32, 2], pace: hg.f32
):
    i, j = hg.index()
    n, m = height.shape
    around = -4.0 * height[i, j]
    for di, dj in hg.static(((0, 1), (0, -1), (1, 0), (-1, 0))):
        around += height[min(max(i + di, 0), n - 1), min(max(j + dj, 0), m - 1)]
    after[i, j] = 2.0 * height[i, j] - before[i, j] + pace * around


@case
def wave(ex: hg.Executor) -> Pair:
    now, before = (RNG.random((12, 9), np.float32) for _ in range(2))
    after = ex.empty(now.shape)
    ripple[now.shape](ex.tensor(now), ex.tensor(before), after, 0.2)
    padded = np.pad(now, 1, mode="edge")
    around = padded[2:, 1:-1] + padded[:-2, 1:-1] + padded[1:-1, 2:] + padded[1:-1, :-2] - 4 * now
    return after.to_numpy(), 2 * now - before + 0.2 * around


@hg.kernel
def react(uv: hg.Array[hg.f32, 3], after: hg.Array[hg.f32, 3], feed: hg.f32, kill: hg.f32):
    i, j = hg.index()
    n, m, _ = uv.shape
    u, v = uv[i, j, 0], uv[i, j, 1]
    spread = hg.vec2(-4.0 * u, -4.0 * v)
    for di, dj in hg.static(((0, 1), (0, -1), (1, 0), (-1, 0))):
        a, b = (i + di + n) % n, (j + dj + m) % m
        spread += hg.vec2(uv[a, b, 0], uv[a, b, 1])
    after[i, j, 0] = u + 0.16 * spread.x - u * v * v + feed * (1.0 - u)
    after[i, j, 1] = v + 0.08 * spread.y + u * v * v - (feed + kill) * v


@case
def reaction(ex: hg.Executor) -> Pair:
    uv = RNG.random((7, 10, 2), np.float32)
    after = ex.empty(uv.shape)
    react[7, 10](ex.tensor(uv), after, 0.06, 0.062)
    spread = sum(np.roll(uv, k, axis) for axis in (0, 1) for k in (-1, 1)) - 4 * uv
    u, v = uv[..., 0], uv[..., 1]
    grown = u * v * v
    want = [u + 0.16 * spread[..., 0] - grown + 0.06 * (1 - u), v + 0.08 * spread[..., 1] + grown - 0.122 * v]
    return after.to_numpy(), np.stack(want, -1)


@hg.func
def sample(field, i, j):
    n, m = field.shape
    return field[max(0, min(n - 1, i)), max(0, min(m - 1, j))]


@hg.func
def between(field, y, x):
    i, j = math.floor(y), math.floor(x)
    b, a = y - i, x - j
    upper = sample(field, i, j) * (1.0 - a) + sample(field, i, j + 1) * a
    lower = sample(field, i + 1, j) * (1.0 - a) + sample(field, i + 1, j + 1) * a
    return upper * (1.0 - b) + lower * b


@hg.kernel
def carry(speed: hg.Array[hg.f32, 3], dye: hg.Array[hg.f32, 2], out: hg.Array[hg.f32, 2], dt: hg.f32):
    i, j = hg.index()
    out[i, j] = between(dye, i - dt * speed[i, j, 0], j - dt * speed[i, j, 1])


@case
def advection(ex: hg.Executor) -> Pair:
    speed, dye = RNG.normal(size=(9, 11, 2)).astype(np.float32), RNG.random((9, 11), np.float32)
    out = ex.empty(dye.shape)
    carry[dye.shape](ex.tensor(speed), ex.tensor(dye), out, 0.7)
    y, x = np.indices(dye.shape) - 0.7 * speed.transpose(2, 0, 1)
    i, j = np.floor(y).astype(int), np.floor(x).astype(int)
    want = 0.0
    for a, b in ((0, 0), (0, 1), (1, 0), (1, 1)):
        share = (y - i if a else 1 - y + i) * (x - j if b else 1 - x + j)
        want = want + share * dye[np.clip(i + a, 0, 8), np.clip(j + b, 0, 10)]
    return out.to_numpy(), want


@hg.kernel
def spreading(speed: hg.Array[hg.f32, 3], out: hg.Array[hg.f32, 2]):
    i, j = hg.index()
    n, m = out.shape
    up = -speed[i, j, 0] if i == 0 else speed[i - 1, j, 0]
    down = -speed[i, j, 0] if i == n - 1 else speed[i + 1, j, 0]
    left = -speed[i, j, 1] if j == 0 else speed[i, j - 1, 1]
    right = -speed[i, j, 1] if j == m - 1 else speed[i, j + 1, 1]
    out[i, j] = (down - up + right - left) * 0.5


@case
def divergence(ex: hg.Executor) -> Pair:
    speed = RNG.normal(size=(8, 6, 2)).astype(np.float32)
    out = ex.empty((8, 6))
    spreading[8, 6](ex.tensor(speed), out)
    y = np.concatenate([-speed[:1, :, 0], speed[:, :, 0], -speed[-1:, :, 0]])
    x = np.concatenate([-speed[:, :1, 1], speed[:, :, 1], -speed[:, -1:, 1]], axis=1)
    return out.to_numpy(), (y[2:] - y[:-2] + x[:, 2:] - x[:, :-2]) / 2


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


@hg.kernel
def product(x: hg.Array[hg.f32, 3], out: hg.Array[hg.f32, 3]):
    place = hg.index()
    out[place] = 6.0 * x[place]
    i, j, k = place
    for axis, way in enumerate(hg.static(((1, 0, 0), (0, 1, 0), (0, 0, 1)))):
        for sign in hg.static((-1, 1)):
            near = (i + sign * way[0], j + sign * way[1], k + sign * way[2])
            if 0 <= near[axis] < x.shape[axis]:
                out[place] -= x[near]


@case
def poisson_product(ex: hg.Executor) -> Pair:
    x = RNG.random((4, 5, 6), np.float32)
    out = ex.empty(x.shape)
    product[x.shape](ex.tensor(x), out)
    padded = np.pad(x, 1)
    near = np.sum([np.roll(padded, k, axis) for axis in range(3) for k in (-1, 1)], axis=0)
    return out.to_numpy(), 6 * x - near[1:-1, 1:-1, 1:-1]


@hg.kernel
def orbit(place: hg.Array[hg.f32, 2], speed: hg.Array[hg.f32, 2], dt: hg.f32, steps: hg.i32):
    p = hg.index()
    x, v = hg.vec2(place[p, 0], place[p, 1]), hg.vec2(speed[p, 0], speed[p, 1])
    for _ in range(steps):
        v += dt * (-x * (1.0 / x.length() ** 3))
        x += dt * v
    place[p, 0], place[p, 1] = x
    speed[p, 0], speed[p, 1] = v


@case
def solar(ex: hg.Executor) -> Pair:
    angle, far = RNG.random(10) * 6.3, 1 + RNG.random(10)
    x = far[:, None] * np.stack([np.cos(angle), np.sin(angle)], 1)
    v = far[:, None] ** -0.5 * np.stack([-np.sin(angle), np.cos(angle)], 1)
    place, speed = ex.tensor(x.astype(np.float32)), ex.tensor(v.astype(np.float32))
    orbit[10](place, speed, 0.02, 100)
    for _ in range(100):
        v = v - 0.02 * x / np.linalg.norm(x, axis=1, keepdims=True) ** 3
        x = x + 0.02 * v
    assert np.allclose(np.linalg.norm(x, axis=1), far, atol=0.05)  # circles
    return place.to_numpy(), x


@hg.kernel
def pulled(
    place: hg.Array[hg.f32, 2], rest: hg.Array[hg.f32, 2], force: hg.Array[hg.f32, 2], stiffness: hg.f32
):
    i = hg.index()
    own, total = hg.vec2(place[i, 0], place[i, 1]), hg.vec2(0.0, -9.8)
    for j in range(place.shape[0]):
        if rest[i, j] > 0.0:
            to = hg.vec2(place[j, 0], place[j, 1]) - own
            total += stiffness * (to.length() / rest[i, j] - 1.0) * to.normalized()
    force[i, 0], force[i, 1] = total


@case
def springs(ex: hg.Executor) -> Pair:
    place = RNG.random((12, 2), np.float32)
    rest = np.triu(np.where(RNG.random((12, 12)) < 0.4, 0.5, 0.0), 1)
    rest = (rest + rest.T).astype(np.float32)
    force = ex.empty(place.shape)
    pulled[12](ex.tensor(place), ex.tensor(rest), force, 30.0)
    to = place[None].astype(float) - place[:, None]
    far = np.linalg.norm(to, axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        strength = np.where(rest > 0, 30 * (far / rest - 1) / far, 0)
    return force.to_numpy(), (strength[..., None] * to).sum(1) + [0, -9.8]


@hg.func
def turned(p, centre):
    to = p - centre
    return hg.vec2(-to.y, to.x) / (6.2831853 * max(to.dot(to), 1e-4))


@hg.kernel
def drift(place: hg.Array[hg.f32, 2], dt: hg.f32):
    p = hg.index()
    x, total = hg.vec2(place[p, 0], place[p, 1]), hg.vec2(0.0)
    for at, strength in hg.static(
        (((0.0, 1.0), 1.0), ((0.0, -1.0), -1.0), ((0.0, 0.3), 1.0), ((0.0, -0.3), -1.0))
    ):
        total += strength * turned(x, hg.vec2(at[0], at[1]))
    x = x + dt * total
    place[p, 0], place[p, 1] = x


@case
def vortices(ex: hg.Executor) -> Pair:
    x = RNG.normal(size=(30, 2)).astype(np.float32)
    place, total = ex.tensor(x), np.zeros((30, 2))
    drift[30](place, 0.05)
    for y, strength in ((1, 1), (-1, -1), (0.3, 1), (-0.3, -1)):
        to = x - np.array([0, y])
        total += (
            strength
            * np.stack([-to[:, 1], to[:, 0]], 1)
            / (2 * np.pi * np.maximum((to**2).sum(1), 1e-4))[:, None]
        )
    return place.to_numpy(), x + 0.05 * total


CELLS, MOST, REACH = 8, 16, 1.0


@hg.kernel
def sorted_into_cells(place: hg.Array[hg.f32, 2], counts: hg.Array[hg.i32, 2], members: hg.Array[hg.i32, 3]):
    p = hg.index()
    i, j = math.floor(place[p, 0]), math.floor(place[p, 1])
    slot = hg.atomic_add(counts, (i, j), 1)
    if slot < MOST:
        members[i, j, slot] = p


@hg.kernel
def summed(
    place: hg.Array[hg.f32, 2], counts: hg.Array[hg.i32, 2], members: hg.Array[hg.i32, 3],
    out: hg.Array[hg.f32],
):  # fmt: skip
    p = hg.index()
    x = hg.vec2(place[p, 0], place[p, 1])
    i, j = math.floor(x.x), math.floor(x.y)
    total = 0.0
    for a in range(max(i - 1, 0), min(i + 2, CELLS)):
        for b in range(max(j - 1, 0), min(j + 2, CELLS)):
            for k in range(min(counts[a, b], MOST)):
                q = members[a, b, k]
                to = hg.vec2(place[q, 0], place[q, 1]) - x
                if to.dot(to) < REACH * REACH:
                    total += (REACH * REACH - to.dot(to)) ** 3
    out[p] = total


@case
def density(ex: hg.Executor) -> Pair:
    place = (CELLS * RNG.random((150, 2))).astype(np.float32)
    counts, members, out = (
        ex.zeros((CELLS, CELLS), hg.i32),
        ex.zeros((CELLS, CELLS, MOST), hg.i32),
        ex.empty(150),
    )
    x = ex.tensor(place)
    sorted_into_cells[150](x, counts, members)
    summed[150](x, counts, members, out)
    far = ((place[None].astype(float) - place[:, None]) ** 2).sum(-1)
    assert counts.to_numpy().max() <= MOST
    return out.to_numpy(), np.where(far < 1, (1 - far) ** 3, 0).sum(1)


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
def smooth(picture: hg.Array[hg.f32, 2], out: hg.Array[hg.f32, 2], near: hg.f32, like: hg.f32):
    i, j = hg.index()
    total, weights = 0.0, 0.0
    for a in range(max(i - 3, 0), min(i + 4, picture.shape[0])):
        for b in range(max(j - 3, 0), min(j + 4, picture.shape[1])):
            apart, other = (a - i) ** 2 + (b - j) ** 2, picture[a, b]
            weight = hg.exp(-apart / near - (other - picture[i, j]) ** 2 / like)
            total += weight * other
            weights += weight
    out[i, j] = total / weights


@case
def bilateral(ex: hg.Executor) -> Pair:
    picture = RNG.random((9, 12), np.float32)
    out, want = ex.empty(picture.shape), np.zeros(picture.shape)
    smooth[picture.shape](ex.tensor(picture), out, 4.0, 0.1)
    for i, j in np.ndindex(picture.shape):
        a, b = np.mgrid[max(i - 3, 0) : min(i + 4, 9), max(j - 3, 0) : min(j + 4, 12)]
        weight = np.exp(-((a - i) ** 2 + (b - j) ** 2) / 4 - (picture[a, b] - picture[i, j]) ** 2 / 0.1)
        want[i, j] = (weight * picture[a, b]).sum() / weight.sum()
    return out.to_numpy(), want


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


@hg.kernel
def cut(field: hg.Array[hg.f32, 2], count: hg.Array[hg.i32], cases: hg.Array[hg.i32]):
    i, j = hg.index()
    number = 0
    for k, corner in enumerate(hg.static(((0, 0), (1, 0), (1, 1), (0, 1)))):
        if field[i + corner[0], j + corner[1]] > 0.0:
            number |= 1 << k
    if number != 0 and number != 15:
        place = hg.atomic_add(count, 0, 2 if number == 5 or number == 10 else 1)
        hg.atomic_add(cases, number, 1)
        if place < 0:
            cases[0] = -1


@case
def marching_squares(ex: hg.Executor) -> Pair:
    field = RNG.normal(size=(15, 20)).astype(np.float32)
    count, cases = ex.zeros(1, hg.i32), ex.zeros(16, hg.i32)
    cut[14, 19](ex.tensor(field), count, cases)
    inside = (field > 0).astype(int)
    number = inside[:-1, :-1] + 2 * inside[1:, :-1] + 4 * inside[1:, 1:] + 8 * inside[:-1, 1:]
    want = np.bincount(number.ravel(), minlength=16)
    want[[0, 15]] = 0
    return np.append(cases.to_numpy(), count.to_numpy()), np.append(want, want.sum() + want[5] + want[10])


@pytest.mark.parametrize("name", CASES)
def test_a_kernel(name: str, executor: hg.Executor) -> None:
    found, want = CASES[name](executor)
    np.testing.assert_allclose(np.asarray(found, np.float64), np.asarray(want), rtol=2e-4, atol=2e-4)


def test_there_are_twenty() -> None:
    assert len(CASES) == 20
