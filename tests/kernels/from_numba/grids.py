"""Pictures and plates, a point of the grid for each place, in the manner of Numba."""

# pyright: reportInvalidTypeForm=false, reportOptionalMemberAccess=false

from __future__ import annotations

import numpy as np

import hologram as hg
from tests.kernels.examples import Cases, Pair
from tests.needs import needs

RNG = np.random.default_rng(3)
CASES = Cases()
case = CASES.case


@hg.kernel
def relaxed(u: hg.Array[hg.f64, 2], after: hg.Array[hg.f64, 2], worst: hg.Array[hg.i32]):
    i, j = hg.index()
    if 0 < i < u.shape[0] - 1 and 0 < j < u.shape[1] - 1:
        after[i, j] = 0.25 * (u[i, j + 1] + u[i, j - 1] + u[i - 1, j] + u[i + 1, j])
        hg.atomic_max(worst, 0, hg.i32(abs(after[i, j] - u[i, j]) * 1e6))


@case
def laplace_until_settled(ex: hg.Executor) -> Pair:
    needs(ex, hg.f64)
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
