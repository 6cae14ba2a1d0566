"""Fields, fluids and pictures, a point of the grid for each place, in the manner of Taichi."""

# pyright: reportInvalidTypeForm=false, reportOptionalMemberAccess=false

from __future__ import annotations

import math

import numpy as np

import hologram as hg
from tests.kernels.examples import Cases, Pair

RNG = np.random.default_rng(4)
CASES = Cases()
case = CASES.case


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
