"""A kernel of your own: the Mandelbrot set as an Atlas program, which runs on every backend.

python examples/mandelbrot.py --backend webgpu writes mandelbrot.png.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

import hologram as hg
from hologram.atlas.builder import Builder, Value
from hologram.atlas.functions import select
from hologram.atlas.program import Access, Program
from hologram.demo.gallery import run
from hologram.demo.race import race
from hologram.foundation.dtypes import f32, u32

STEPS = 200


def mandelbrot() -> Program:
    """One lane a pixel of a (height, width) grid: counts the steps of z -> z^2 + c for which |z| <= 2."""
    b = Builder("mandelbrot", rank=2)
    counts = b.buffer("counts", u32, Access.WRITE)
    left, top, pixel = (b.scalar(name, f32) for name in ("left", "top", "pixel"))
    row, column = b.coordinate(0), b.coordinate(1)
    # Coordinates have the type of positions, which converts to integers only.
    x, y = left + column.to(u32).to(f32) * pixel, top - row.to(u32).to(f32) * pixel

    def step(_: Value, u: Value, v: Value, count: Value) -> tuple[Value, Value, Value]:
        inside = u * u + v * v <= 4.0
        # A point that has left stays where it is, so that all lanes do the same steps.
        return (
            select(inside, u * u - v * v + x, u),
            select(inside, 2.0 * u * v + y, v),
            count + select(inside, b.constant(1, u32), 0),
        )

    zero = b.constant(0.0, f32)
    *_, count = b.loop(0, STEPS, step, first=(zero, zero, b.constant(0, u32)))
    b.store(counts, row * b.extent(1) + column, count)
    return b.build()


def on_device(size: tuple[int, int], **corner: float) -> np.ndarray:
    executor = hg.default_executor()
    counts = executor.allocate(size, dtype=np.uint32)
    executor.run(mandelbrot(), {"counts": counts}, lanes=size, **corner)
    return counts.to_numpy()


def by_numpy(size: tuple[int, int], left: float, top: float, pixel: float) -> np.ndarray:
    """The same for all pixels at once, each step by so many passes over them."""
    rows, columns = np.indices(size, np.float32)
    x, y = left + columns * pixel, top - rows * pixel
    u, v, counts = np.zeros_like(x), np.zeros_like(y), np.zeros(size, np.uint32)
    for _ in range(STEPS):
        inside = u * u + v * v <= 4.0
        u, v = np.where(inside, u * u - v * v + x, u), np.where(inside, 2.0 * u * v + y, v)
        counts += inside
    return counts


def main(width: int = 720, height: int = 480, output: Path = Path("mandelbrot.png")) -> None:
    corner = {"left": -0.7 - 1.1 * width / height, "top": 1.1, "pixel": 2.2 / height}
    (steps,) = race(lambda count: [count((height, width), **corner)], on_device, plain=by_numpy)
    shades = (255 * (1 - np.log1p(steps) / np.log1p(STEPS))).astype(np.uint8)
    Image.fromarray(shades).save(output)
    print(f"{output}: {np.mean(steps == STEPS):.1%} of the pixels never left")


if __name__ == "__main__":
    run(main)
