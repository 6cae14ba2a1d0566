"""Twenty kernels of the kind that Numba's examples are made of, beside NumPy or plain Python.

A function under `@vectorize` or a loop over `prange` is a kernel of one point; `cuda.shared.array` is `hg.shared`.
"""

# pyright: reportInvalidTypeForm=false, reportOptionalMemberAccess=false

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hologram as hg
from tests.needs import needs

RNG = np.random.default_rng(1)
Pair = tuple[Any, Any]
CASES: dict[str, Callable[[hg.Executor], Pair]] = {}
DOUBLE = ("laplace_until_settled", "distances", "binomial_tree")


def case(function: Callable[[hg.Executor], Pair]) -> Callable[[hg.Executor], Pair]:
    """What a device computes, and what is right."""
    CASES[function.__name__] = function
    return function


@hg.kernel
def add_scaled(a: hg.f32, x: hg.Array[hg.f32], y: hg.Array[hg.f32]):
    i = hg.index()
    y[i] = a * x[i] + y[i]


@case
def saxpy(ex: hg.Executor) -> Pair:
    x, y = (RNG.random(100, np.float32) for _ in range(2))
    there = ex.tensor(y)
    add_scaled[100](2.5, ex.tensor(x), there)
    return there.to_numpy(), 2.5 * x + y


@hg.func
def normal_share(x):
    """Abramowitz and Stegun 26.2.17."""
    t = 1.0 / (1.0 + 0.2316419 * abs(x))
    series = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    tail = 0.39894228 * hg.exp(-0.5 * x * x) * series
    return 1.0 - tail if x > 0.0 else tail


@hg.kernel
def priced(
    spot: hg.Array[hg.f32], strike: hg.Array[hg.f32], years: hg.Array[hg.f32], out: hg.Array[hg.f32, 2],
    rate: hg.f32, volatility: hg.f32,
):  # fmt: skip
    i = hg.index()
    root = hg.sqrt(years[i])
    first = (hg.log(spot[i] / strike[i]) + (rate + 0.5 * volatility**2) * years[i]) / (volatility * root)
    second = first - volatility * root
    later = strike[i] * hg.exp(-rate * years[i])
    out[0, i] = spot[i] * normal_share(first) - later * normal_share(second)
    out[1, i] = later * (1.0 - normal_share(second)) - spot[i] * (1.0 - normal_share(first))


@case
def black_scholes(ex: hg.Executor) -> Pair:
    spot, strike, years = (
        low + high * RNG.random(50, np.float32) for low, high in ((5, 25), (1, 99), (0.25, 9))
    )
    out = ex.empty((2, 50))
    priced[50](*map(ex.tensor, (spot, strike, years)), out, 0.02, 0.3)
    first = (np.log(spot / strike) + (0.02 + 0.045) * years) / (0.3 * np.sqrt(years))
    share = np.vectorize(lambda x: 0.5 * (1 + math.erf(x / 2**0.5)))
    later = strike * np.exp(-0.02 * years)
    call = spot * share(first) - later * share(first - 0.3 * np.sqrt(years))
    return out.to_numpy(), [call, call - spot + later]


@hg.kernel
def escape(out: hg.Array[hg.u8, 2], most: hg.i32):
    i, j = hg.index()
    height, width = out.shape
    real, imaginary = -2.0 + 3.0 * j / width, -1.0 + 2.0 * i / height
    x, y, turns = 0.0, 0.0, most
    for k in range(most):
        x, y = x * x - y * y + real, 2.0 * x * y + imaginary
        if x * x + y * y >= 4.0:
            turns = k
            break
    out[i, j] = hg.u8(turns)


@case
def mandelbrot(ex: hg.Executor) -> Pair:
    out = ex.empty((10, 14), hg.u8)
    escape[10, 14](out, 20)
    i, j = np.indices((10, 14))
    c, z, turns = -2 + 3 * j / 14 + 1j * (-1 + 2 * i / 10), np.zeros((10, 14), complex), np.full((10, 14), 20)
    for k in range(20):
        z = np.where(turns == 20, z * z + c, z)
        turns = np.where((turns == 20) & (np.abs(z) >= 2), k, turns)
    return out.to_numpy(), turns


@hg.kernel
def relaxed(u: hg.Array[hg.f64, 2], after: hg.Array[hg.f64, 2], worst: hg.Array[hg.i32]):
    i, j = hg.index()
    if 0 < i < u.shape[0] - 1 and 0 < j < u.shape[1] - 1:
        after[i, j] = 0.25 * (u[i, j + 1] + u[i, j - 1] + u[i - 1, j] + u[i + 1, j])
        hg.atomic_max(worst, 0, hg.i32(abs(after[i, j] - u[i, j]) * 1e6))


@case
def laplace_until_settled(ex: hg.Executor) -> Pair:
    u = np.zeros((8, 9))
    u[:, 0] = 1.0
    now, after, worst, want = ex.tensor(u), ex.tensor(u), ex.zeros(1, hg.i32), u.copy()
    before = want
    for _ in range(50):
        worst[...] = 0
        relaxed[u.shape](now, after, worst)
        now, after = after, now
        before = want.copy()
        want[1:-1, 1:-1] = (before[1:-1, 2:] + before[1:-1, :-2] + before[2:, 1:-1] + before[:-2, 1:-1]) / 4
    found = np.append(now.to_numpy().ravel(), worst.to_numpy() / 1e6)
    return found, np.append(want.ravel(), np.abs(want - before).max())


@hg.kernel
def neighbours_mean(x: hg.Array[hg.f32], width: hg.i32, out: hg.Array[hg.f32]):
    i = hg.index()
    total, count = 0.0, 0
    for k in range(i, max(i - width, -1), -1):
        total += x[k]
        count += 1
    out[i] = total / count


@case
def moving_mean(ex: hg.Executor) -> Pair:
    x = RNG.random(40, np.float32)
    out = ex.empty(40)
    neighbours_mean[40](ex.tensor(x), 5, out)
    return out.to_numpy(), [x[max(k - 4, 0) : k + 1].mean() for k in range(40)]


@hg.kernel
def estimated(points: hg.Array[hg.f32], at: hg.Array[hg.f32], width: hg.f32, out: hg.Array[hg.f32]):
    i = hg.index()
    total = 0.0
    for k in range(points.size):
        total += hg.exp(-0.5 * ((at[i] - points[k]) / width) ** 2)
    out[i] = total / (points.size * width * 2.5066283)


@case
def kernel_density(ex: hg.Executor) -> Pair:
    points, at = RNG.normal(size=80).astype(np.float32), np.linspace(-3, 3, 25).astype(np.float32)
    out = ex.empty(25)
    estimated[25](ex.tensor(points), ex.tensor(at), 0.4, out)
    bells = np.exp(-0.5 * ((at[:, None] - points) / 0.4) ** 2)
    return out.to_numpy(), bells.mean(1) / (0.4 * (2 * np.pi) ** 0.5)


@hg.kernel
def sorted_rows(x: hg.Array[hg.f32, 2]):
    i = hg.index()
    n = x.shape[1]
    for last in range(n - 1, 0, -1):
        for k in range(last):
            if x[i, k] > x[i, k + 1]:
                x[i, k], x[i, k + 1] = x[i, k + 1], x[i, k]


@case
def bubble_sort(ex: hg.Executor) -> Pair:
    x = RNG.random((6, 15), np.float32)
    there = ex.tensor(x)
    sorted_rows[6](there)
    return there.to_numpy(), np.sort(x)


@hg.kernel
def divided(a: hg.Array[hg.i32], b: hg.Array[hg.i32], out: hg.Array[hg.i32]):
    i = hg.index()
    x, y = abs(a[i]), abs(b[i])
    while y != 0:
        x, y = y, x % y
    out[i] = x


@case
def common_divisor(ex: hg.Executor) -> Pair:
    a, b = (RNG.integers(-500, 500, size=60).astype(np.int32) for _ in range(2))
    out = ex.empty(60, hg.i32)
    divided[60](ex.tensor(a), ex.tensor(b), out)
    return out.to_numpy(), np.gcd(a, b)


@hg.kernel(workgroup=32)
def partial_sums(x: hg.Array[hg.i32], out: hg.Array[hg.i32]):
    t, i = hg.thread_index(), hg.index()
    own = hg.shared(32, hg.i32)
    own[t] = x[i] if i < x.size else 0
    hg.barrier()
    for half in hg.static((16, 8, 4, 2, 1)):
        if t < half:
            own[t] += own[t + half]
        hg.barrier()
    if t == 0:
        out[hg.workgroup_index()] = own[0]


@case
def block_sums(ex: hg.Executor) -> Pair:
    x = RNG.integers(1000, size=150).astype(np.int32)
    out = ex.empty(5, hg.i32)
    partial_sums[160](ex.tensor(x), out)
    return out.to_numpy(), np.add.reduceat(x, range(0, 150, 32))


@hg.kernel
def compared(a: hg.Array[hg.f64, 2], b: hg.Array[hg.f64, 2], out: hg.Array[hg.f64, 2]):
    i, j = hg.index()
    total: hg.f64 = 0.0
    for k in range(a.shape[1]):
        total += (a[i, k] - b[j, k]) ** 2
    out[i, j] = hg.sqrt(total)


@case
def distances(ex: hg.Executor) -> Pair:
    a, b = RNG.normal(size=(7, 3)), RNG.normal(size=(9, 3))
    out = ex.empty((7, 9), hg.f64)
    compared[7, 9](ex.tensor(a), ex.tensor(b), out)
    return out.to_numpy(), np.linalg.norm(a[:, None] - b, axis=2)


@hg.kernel
def over_ground(places: hg.Array[hg.f32, 2], far: hg.Array[hg.f32, 2]):
    i, j = hg.index()
    latitude, other = places[i, 0], places[j, 0]
    up, along = hg.sin((other - latitude) / 2.0), hg.sin((places[j, 1] - places[i, 1]) / 2.0)
    share = up * up + hg.cos(latitude) * hg.cos(other) * along * along
    far[i, j] = 2.0 * hg.atan(hg.sqrt(share / (1.0 - share)))


@case
def haversine(ex: hg.Executor) -> Pair:
    places = (RNG.random((8, 2)) * [1.4, 2.5]).astype(np.float32)
    far = ex.empty((8, 8))
    over_ground[8, 8](ex.tensor(places), far)
    latitude, longitude = places.astype(float).T
    on_sphere = np.stack(
        [np.cos(latitude) * np.cos(longitude), np.cos(latitude) * np.sin(longitude), np.sin(latitude)]
    )
    return far.to_numpy(), np.arccos(np.clip(on_sphere.T @ on_sphere, -1, 1))


@hg.kernel
def along(x: hg.Array[hg.f32], weights: hg.Array[hg.f32], out: hg.Array[hg.f32]):
    i = hg.index()
    total = 0.0
    for k in range(weights.size):
        at = i - k
        if 0 <= at < x.size:
            total += weights[k] * x[at]
    out[i] = total


@case
def convolution(ex: hg.Executor) -> Pair:
    x, weights = RNG.random(50, np.float32), RNG.random(7, np.float32)
    out = ex.empty(56)
    along[56](ex.tensor(x), ex.tensor(weights), out)
    return out.to_numpy(), np.convolve(x, weights)


@hg.kernel
def edges(picture: hg.Array[hg.u8, 2], out: hg.Array[hg.f32, 2]):
    i, j = hg.index()
    if i == 0 or j == 0 or i == picture.shape[0] - 1 or j == picture.shape[1] - 1:
        out[i, j] = 0.0
        return
    across, down = 0, 0
    for k, weight in enumerate(hg.static((1, 2, 1))):
        across += weight * (hg.i32(picture[i + k - 1, j + 1]) - hg.i32(picture[i + k - 1, j - 1]))
        down += weight * (hg.i32(picture[i + 1, j + k - 1]) - hg.i32(picture[i - 1, j + k - 1]))
    out[i, j] = hg.sqrt(hg.f32(across * across + down * down))


@case
def sobel(ex: hg.Executor) -> Pair:
    picture = RNG.integers(256, size=(9, 13), dtype=np.uint8)
    out = ex.empty(picture.shape)
    edges[picture.shape](ex.tensor(picture), out)
    p = picture.astype(int)
    across = (p[:-2, 2:] - p[:-2, :-2]) + 2 * (p[1:-1, 2:] - p[1:-1, :-2]) + (p[2:, 2:] - p[2:, :-2])
    down = (p[2:, :-2] - p[:-2, :-2]) + 2 * (p[2:, 1:-1] - p[:-2, 1:-1]) + (p[2:, 2:] - p[:-2, 2:])
    return out.to_numpy(), np.pad(np.hypot(across, down), 1)


@hg.kernel
def counted(x: hg.Array[hg.f32], edges_: hg.Array[hg.f32], counts: hg.Array[hg.i32]):
    i = hg.index()
    low, high = 0, edges_.size
    while low < high:
        middle = (low + high) // 2
        if edges_[middle] <= x[i]:
            low = middle + 1
        else:
            high = middle
    if 0 < low < edges_.size:
        hg.atomic_add(counts, low - 1, 1)


@case
def uneven_histogram(ex: hg.Executor) -> Pair:
    x, places = RNG.random(300, np.float32), np.array([0.1, 0.15, 0.4, 0.41, 0.9], np.float32)
    counts = ex.zeros(4, hg.i32)
    counted[300](ex.tensor(x), ex.tensor(places), counts)
    return counts.to_numpy(), np.histogram(x, places)[0]


@hg.func
def slope(y, damping):
    return hg.vec2(y.y, -y.x - damping * y.y)


@hg.kernel
def integrated(start: hg.Array[hg.f32, 2], damping: hg.Array[hg.f32], h: hg.f32, steps: hg.i32):
    i = hg.index()
    y = hg.vec2(start[i, 0], start[i, 1])
    for _ in range(steps):
        a = slope(y, damping[i])
        b = slope(y + a * (0.5 * h), damping[i])
        c = slope(y + b * (0.5 * h), damping[i])
        d = slope(y + c * h, damping[i])
        y += (a + 2.0 * b + 2.0 * c + d) * (h / 6.0)
    start[i, 0], start[i, 1] = y


@case
def runge_kutta(ex: hg.Executor) -> Pair:
    damping = (0.2 * np.arange(10)).astype(np.float32)
    y = ex.tensor(np.array([[1.0, 0.0]] * 10, np.float32))
    integrated[10](y, ex.tensor(damping), 0.05, 60)
    half, time = damping / 2.0, 3.0
    turns = np.sqrt(1 - half.astype(float) ** 2)
    x = np.exp(-half * time) * (np.cos(turns * time) + half / turns * np.sin(turns * time))
    return y.to_numpy()[:, 0], x


@hg.kernel
def nearest(
    points: hg.Array[hg.f32, 2], centres: hg.Array[hg.f32, 2], owner: hg.Array[hg.i32],
    sums: hg.Array[hg.f32, 2],
):  # fmt: skip
    i = hg.index()
    best, least = 0, 1e30
    for k in range(centres.shape[0]):
        apart = (points[i, 0] - centres[k, 0]) ** 2 + (points[i, 1] - centres[k, 1]) ** 2
        if apart < least:
            best, least = k, apart
    owner[i] = best
    hg.atomic_add(sums, (best, 0), points[i, 0])
    hg.atomic_add(sums, (best, 1), points[i, 1])
    hg.atomic_add(sums, (best, 2), 1.0)


@case
def k_means(ex: hg.Executor) -> Pair:
    points, centres = RNG.normal(size=(80, 2)).astype(np.float32), RNG.normal(size=(4, 2)).astype(np.float32)
    owner, sums = ex.empty(80, hg.i32), ex.zeros((4, 3))
    nearest[80](ex.tensor(points), ex.tensor(centres), owner, sums)
    whose = ((points[:, None] - centres) ** 2).sum(2).argmin(1)
    want = [[*points[whose == k].sum(0), (whose == k).sum()] for k in range(4)]
    return np.append(owner.to_numpy(), sums.to_numpy()), np.append(whose, np.ravel(want))


@hg.kernel
def crossed(flags: hg.Array[hg.u8], most: hg.i32):
    k = hg.index() + 2
    if k * k <= most:
        for multiple in range(k * k, most + 1, 1):
            if multiple % k == 0:
                flags[multiple] = 1


@case
def sieve(ex: hg.Executor) -> Pair:
    flags = ex.zeros(101, hg.u8)
    crossed[9](flags, 100)
    found = [n for n in range(2, 101) if flags.to_numpy()[n] == 0]
    return found, [n for n in range(2, 101) if all(n % k for k in range(2, n))]


@hg.kernel
def folded(values: hg.Array[hg.f64, 2], steps: hg.i32, up: hg.f64, rate: hg.f64, strike: hg.f64):
    i = hg.index()
    share = (rate - 1.0 / up) / (up - 1.0 / up)
    spot = values[i, 0]
    for k in range(steps + 1):
        values[i, k] = max(spot * up ** hg.f64(2 * k - steps) - strike, 0.0)
    for last in range(steps, 0, -1):
        for k in range(last):
            values[i, k] = (share * values[i, k + 1] + (1.0 - share) * values[i, k]) / rate


@case
def binomial_tree(ex: hg.Executor) -> Pair:
    values = np.zeros((5, 13))
    values[:, 0] = spots = np.linspace(80, 120, 5)
    there = ex.tensor(values)
    folded[5](there, 12, 1.05, 1.004, 100.0)
    share = (1.004 - 1 / 1.05) / (1.05 - 1 / 1.05)
    ways = np.array([math.comb(12, k) * share**k * (1 - share) ** (12 - k) for k in range(13)])
    ends = np.maximum(spots[:, None] * 1.05 ** (2.0 * np.arange(13) - 12) - 100, 0)
    return there.to_numpy()[:, 0], ends @ ways / 1.004**12


@hg.kernel
def edited(words: hg.Array[hg.u8, 2], other: hg.Array[hg.u8], out: hg.Array[hg.i32]):
    i = hg.index()
    row = hg.local(13, hg.i32)
    for k in range(13):
        row[k] = k
    for a in range(words.shape[1]):
        corner, row[0] = row[0], a + 1
        for b in range(other.size):
            changed = corner + (0 if words[i, a] == other[b] else 1)
            corner = row[b + 1]
            row[b + 1] = min(changed, row[b] + 1, corner + 1)
    out[i] = row[other.size]


@case
def edit_distance(ex: hg.Executor) -> Pair:
    words, other = RNG.integers(3, size=(6, 10), dtype=np.uint8), RNG.integers(3, size=12, dtype=np.uint8)
    out, want = ex.empty(6, hg.i32), []
    edited[6](ex.tensor(words), ex.tensor(other), out)
    for word in words:
        table = np.add.outer(np.arange(11), np.arange(13))
        for a, b in np.ndindex(10, 12):
            changed = table[a, b] + (word[a] != other[b])
            table[a + 1, b + 1] = min(changed, table[a, b + 1] + 1, table[a + 1, b] + 1)
        want.append(table[10, 12])
    return out.to_numpy(), want


@hg.kernel
def sessions(user: hg.Array[hg.i32], time: hg.Array[hg.i32], gap: hg.i32, out: hg.Array[hg.i32]):
    """Which session each event is in: how many have begun up to it. Events are in order."""
    i = hg.index()
    number = 0
    for k in range(1, i + 1):
        if user[k] != user[k - 1] or time[k] - time[k - 1] > gap:
            number += 1
    out[i] = number


@case
def sessionize(ex: hg.Executor) -> Pair:
    user = np.sort(RNG.integers(4, size=50)).astype(np.int32)
    time = RNG.integers(20, size=50).cumsum().astype(np.int32)
    out = ex.empty(50, hg.i32)
    sessions[50](ex.tensor(user), ex.tensor(time), 12, out)
    begun = (np.diff(user) != 0) | (np.diff(time) > 12)
    return out.to_numpy(), np.append(0, begun.cumsum())


@pytest.mark.parametrize("name", CASES)
def test_a_kernel(name: str, executor: hg.Executor) -> None:
    if name in DOUBLE:
        needs(executor, hg.f64)
    found, want = CASES[name](executor)
    np.testing.assert_allclose(np.asarray(found, np.float64), np.asarray(want), rtol=2e-4, atol=2e-4)


def test_there_are_twenty() -> None:
    assert len(CASES) == 20
