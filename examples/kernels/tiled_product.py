"""A matrix product in tiles that a workgroup shares, as every course on GPUs has it.

hologram's own `hg.matmul` is faster; this shows how such kernels are made.

python examples/kernels/tiled_product.py cpu
"""

# pyright: reportInvalidTypeForm=false

from __future__ import annotations

import sys

import numpy as np

import hologram as hg

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


if __name__ == "__main__":
    x, y = (np.random.default_rng(k).random((200, 200), np.float32) for k in range(2))
    print(f"the largest error is {np.abs(multiply(hg.Executor(*sys.argv[1:]), x, y) - x @ y).max():.1e}")
