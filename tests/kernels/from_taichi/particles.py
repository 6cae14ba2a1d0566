"""Bodies, springs, vortices and fluids of particles, in the manner of Taichi."""

# pyright: reportInvalidTypeForm=false, reportOptionalMemberAccess=false

from __future__ import annotations

import math

import numpy as np

import hologram as hg
from tests.kernels.examples import Cases, Pair

RNG = np.random.default_rng(5)
CASES = Cases()
case = CASES.case


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
