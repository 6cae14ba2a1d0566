"""Vectors and dataclasses in kernels: values with parts, whose methods are inlined."""

# pyright: reportInvalidTypeForm=false, reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import hologram as hg
from tests.kernels.test_ways_out import same


@dataclass(frozen=True)
class Sphere:
    middle: Any
    radius: Any = 1.0

    def distance(self, point):
        return (point - self.middle).length() - self.radius


@hg.func
def nearest(spheres, point):
    best = 1e9
    for sphere in spheres:
        best = min(best, sphere.distance(point))
    return best


@hg.kernel
def marched(out: hg.Array[hg.f32, 2], far: hg.f32):
    i, j = hg.index()
    spheres = (Sphere(hg.vec3(0.0, 0.0, 3.0)), Sphere(middle=hg.vec3(1.5, 0.5, 4.0), radius=0.5))
    ray = hg.vec3(hg.vec2(i, j) * 0.1 - 0.5, 1.0).normalized()
    point = hg.vec3(0.0)
    gone = 0.0
    for _ in range(64):
        step = nearest(spheres, point)
        if step < 1e-3 or gone > far:
            break
        point = point + ray * step
        gone += step
    if gone > far:
        out[i, j] = -1.0
        return
    normal = (point - spheres[0].middle).normalized()
    light = hg.vec3(1.0, -1.0, -1.0)
    light.x = 0.5
    light[1] = -0.5
    out[i, j] = max(0.0, normal.dot(light)) + normal.cross(ray).length() + point.zyx.x + -(-point).z


def test_ray_marcher(executor: hg.Executor) -> None:
    (out,) = same(marched, executor, (11, 12), np.zeros((11, 12), np.float32), 20.0, atol=2e-3)
    assert (out == -1).any()
    assert (out > 1).any()


@hg.kernel
def mean_of_pairs(x: hg.Array[hg.i32], out: hg.Array[hg.f32]):
    i = hg.index()
    pair = hg.vec2(x[2 * i], x[2 * i + 1])
    if pair.x > pair.y:
        pair = hg.vec2(pair.y, pair.x)
    halves = hg.f32(pair) / 2
    out[2 * i], out[2 * i + 1] = halves


def test_vectors_of_integers(executor: hg.Executor) -> None:
    x = np.random.default_rng(0).integers(-50, 50, 20).astype(np.int32)
    _, out = same(mean_of_pairs, executor, 10, x, np.zeros(20, np.float32))
    assert np.array_equal(out, np.sort(x.reshape(-1, 2)).reshape(-1) / 2)


@hg.kernel
def mixed(out: hg.Array[hg.f32]):
    out[0] = (hg.vec2(1.0) + hg.vec3(1.0)).x


@hg.kernel
def missing(out: hg.Array[hg.f32]):
    out[0] = hg.vec2(1.0).turned()


@hg.kernel
def wrong_count(out: hg.Array[hg.f32]):
    out[0] = hg.vec3(1.0, 2.0).x


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (mixed, r"\+ of vec2\(1.0, 1.0\) and vec3"),
        (missing, r"vec2\(1.0, 1.0\) has no turned"),
        (wrong_count, "vec3 takes 1 or 3 numbers, got 2"),
    ],
)
def test_refused(kernel: Any, words: str) -> None:
    with pytest.raises(hg.KernelError, match=words):
        kernel.program()


@dataclass
class Body:
    place: Any
    mass: Any = 1.0


@hg.kernel
def moved(out: hg.Array[hg.f32]):
    i = hg.index()
    body = Body(hg.vec3(0.0))
    for k in range(3):
        body.place.y += 2.0 * k
    while body.place[0] < 3.0:
        body.place[0] += 1.0 + i
    out[i] = 10.0 * body.place.y + body.place.x


def test_parts_of_parts_are_handed_on_by_loops(executor: hg.Executor) -> None:
    (out,) = same(moved, executor, 3, np.zeros(3, np.float32))
    assert out.tolist() == [63, 64, 63]
