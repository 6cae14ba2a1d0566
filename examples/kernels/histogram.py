"""A histogram: each workgroup counts in shared memory, then adds its counts to everybody's.

python examples/kernels/histogram.py webgpu
"""

# pyright: reportInvalidTypeForm=false

from __future__ import annotations

import math
import sys

import numpy as np

import hologram as hg

BINS = 64
THREADS = 256


@hg.kernel(workgroup=THREADS)
def count(x: hg.Array[hg.f32], counts: hg.Array[hg.u32], low: hg.f32, high: hg.f32):
    own = hg.shared(BINS, hg.u32)
    t = hg.thread_index()
    for k in range(hg.index(), x.shape[0], hg.static(THREADS * 32)):
        place = math.floor((x[k] - low) / (high - low) * BINS)
        if 0 <= place < BINS:
            hg.atomic_add(own, place, 1)
    hg.barrier()
    if t < BINS:
        hg.atomic_add(counts, t, own[t])


def histogram(executor: hg.Executor, x: np.ndarray, low: float, high: float) -> np.ndarray:
    """How many numbers are in each of 64 equal parts of a range."""
    counts = executor.zeros(BINS, hg.u32)
    count[THREADS * 32](executor.tensor(x), counts, low, high)
    return counts.to_numpy()


if __name__ == "__main__":
    numbers = np.random.default_rng(0).normal(size=1_000_000).astype(np.float32)
    found = histogram(hg.Executor(*sys.argv[1:]), numbers, -4.0, 4.0)
    for row in found.reshape(32, 2).sum(1):
        print("#" * int(60 * row / found.max()))
