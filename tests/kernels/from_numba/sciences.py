"""Prices, estimates, distances and motion: each point computes its own number, in the manner of Numba."""

# pyright: reportInvalidTypeForm=false, reportOptionalMemberAccess=false

from __future__ import annotations

import math

import numpy as np

import hologram as hg
from tests.kernels.examples import Cases, Pair
from tests.needs import needs

RNG = np.random.default_rng(1)
CASES = Cases()
case = CASES.case


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


@hg.kernel
def compared(a: hg.Array[hg.f64, 2], b: hg.Array[hg.f64, 2], out: hg.Array[hg.f64, 2]):
    i, j = hg.index()
    total: hg.f64 = 0.0
    for k in range(a.shape[1]):
        total += (a[i, k] - b[j, k]) ** 2
    out[i, j] = hg.sqrt(total)


@case
def distances(ex: hg.Executor) -> Pair:
    needs(ex, hg.f64)
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
    needs(ex, hg.f64)
    values = np.zeros((5, 13))
    values[:, 0] = spots = np.linspace(80, 120, 5)
    there = ex.tensor(values)
    folded[5](there, 12, 1.05, 1.004, 100.0)
    share = (1.004 - 1 / 1.05) / (1.05 - 1 / 1.05)
    ways = np.array([math.comb(12, k) * share**k * (1 - share) ** (12 - k) for k in range(13)])
    ends = np.maximum(spots[:, None] * 1.05 ** (2.0 * np.arange(13) - 12) - 100, 0)
    return there.to_numpy()[:, 0], ends @ ways / 1.004**12
