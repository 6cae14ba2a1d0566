"""Spheres on a plane, found by marching along each pixel's ray: vectors, a dataclass, a loop that ends early.

python examples/kernels/ray_marcher.py --backend cpu writes ray_marcher.png.
"""

# pyright: reportInvalidTypeForm=false

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import hologram as hg
from hologram.demo.gallery import run

NEAR, FAR = 1e-3, 30.0


@dataclass(frozen=True)
class Sphere:
    middle: Any
    radius: Any

    def distance(self, point):
        return (point - self.middle).length() - self.radius


@hg.func
def scene(point):
    """How far the nearest thing is."""
    left = Sphere(hg.vec3(-0.8, 0.0, 4.0), 1.0)
    right = Sphere(hg.vec3(1.1, -0.4, 3.4), 0.6)
    return min(left.distance(point), right.distance(point), point.y + 1.0)


@hg.func
def march(start, ray):
    """How far a ray goes; beyond FAR it meets nothing."""
    gone = 0.0
    for _ in range(128):
        free = scene(start + ray * gone)
        if free < NEAR:
            return gone
        gone += free
        if gone > FAR:
            break
    return 2.0 * FAR


@hg.func
def normal_at(p):
    e = 1e-3
    across = scene(p + hg.vec3(e, 0.0, 0.0)) - scene(p - hg.vec3(e, 0.0, 0.0))
    up = scene(p + hg.vec3(0.0, e, 0.0)) - scene(p - hg.vec3(0.0, e, 0.0))
    along = scene(p + hg.vec3(0.0, 0.0, e)) - scene(p - hg.vec3(0.0, 0.0, e))
    return hg.vec3(across, up, along).normalized()


@hg.kernel
def picture(out: hg.Array[hg.f32, 2]):
    i, j = hg.index()
    height, width = out.shape
    ray = hg.vec3((2.0 * j - width) / height, (height - 2.0 * i) / height, 1.5).normalized()
    eye = hg.vec3(0.0)
    gone = march(eye, ray)
    if gone > FAR:
        out[i, j] = 0.0
        return
    point = eye + ray * gone
    normal = normal_at(point)
    light = hg.vec3(0.6, 0.8, -0.6).normalized()
    shade = max(normal.dot(light), 0.0)
    if shade > 0.0 and march(point + normal * 0.01, light) < FAR:
        shade = 0.1 * shade
    out[i, j] = min(0.15 + shade, 1.0)


def draw(executor: hg.Executor, height: int, width: int) -> np.ndarray:
    """The picture; 0 is black and 1 is white."""
    out = executor.empty((height, width))
    picture[height, width](out)
    return out.to_numpy()


def main(width: int = 480, height: int = 240, output: Path = Path("ray_marcher.png")) -> None:
    drawn = draw(hg.default_executor(), height, width)
    Image.fromarray((255 * drawn).astype(np.uint8)).save(output)
    print(f"{output}: {np.mean(drawn > 0):.0%} of the rays meet something")


if __name__ == "__main__":
    run(main)
