"""A matrix product in tiles that a workgroup shares, as every course on GPUs has it.

hologram's own `hg.matmul` is faster; this shows how such kernels are made.

python examples/kernels/tiled_product.py --backend cpu writes tiled_product.png: a picture of 48 waves.
"""

# pyright: reportInvalidTypeForm=false

from __future__ import annotations

from pathlib import Path

import numpy as np

import hologram as hg
from hologram.demo.colours import coloured, enlarged
from hologram.demo.gallery import run

TILE = 16


@hg.kernel(workgroup=(TILE, TILE))
def product(a: hg.Array[hg.f32, 2], b: hg.Array[hg.f32, 2], c: hg.Array[hg.f32, 2]):
    i, j = hg.index()
    y, x = hg.thread_index()
    rows, inner, columns = a.shape[0], a.shape[1], b.shape[1]
    left = hg.shared((TILE, TILE), hg.f32)
    right = hg.shared((TILE, TILE), hg.f32)
    total = 0.0
    for k in range(0, inner, TILE):
        left[y, x] = a[i, k + x] if i < rows and k + x < inner else 0.0
        right[y, x] = b[k + y, j] if k + y < inner and j < columns else 0.0
        hg.barrier()
        for m in hg.static(range(TILE)):
            total += left[y, m] * right[m, x]
        hg.barrier()
    if i < rows and j < columns:
        c[i, j] = total


def multiply(executor: hg.Executor, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The product. The grid is whole tiles: each lane loads its part of them."""
    c = executor.empty((a.shape[0], b.shape[1]))
    grid = tuple(-(-n // TILE) * TILE for n in c.shape)
    product[grid](executor.tensor(a), executor.tensor(b), c)
    return c.to_numpy()


def main(length: int = 200, waves: int = 48, output: Path = Path("tiled_product.png")) -> None:
    """A picture as the product of two thin matrices: waves along its height, and along its width."""
    rng = np.random.default_rng(1)
    at, turns = np.linspace(0.0, 1.0, length)[:, None], 2 * np.pi * rng.exponential(3.0, size=waves)
    a, b = (
        (np.cos(at * turns + 6.3 * rng.random(waves)) / (1 + turns / 9)).astype(np.float32) for _ in range(2)
    )
    found = multiply(hg.default_executor(), a, b.T.copy())
    enlarged(coloured(found, float(found.min()), float(found.max())), 400).save(output)
    print(f"{output}: the largest error is {np.abs(found - a @ b.T).max():.1e}")


if __name__ == "__main__":
    run(main)
