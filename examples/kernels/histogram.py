"""A histogram: each workgroup counts in shared memory, then adds its counts to everybody's.

python examples/kernels/histogram.py --backend cpu writes histogram.png.
"""

# pyright: reportInvalidTypeForm=false

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

import hologram as hg
from hologram.demo.colours import plotted
from hologram.demo.gallery import run

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


def main(size: int = 1_000_000, output: Path = Path("histogram.png")) -> None:
    numbers = np.random.default_rng(0).normal(size=size).astype(np.float32)
    counts = histogram(hg.default_executor(), numbers, -4.0, 4.0)
    middles = (np.arange(BINS) + 0.5) / BINS * 8.0 - 4.0
    bell = size * 8.0 / BINS * np.exp(-(middles**2) / 2.0) / np.sqrt(2.0 * np.pi)
    plotted({"counted": counts, "expected": bell}, middles).save(output)
    print(f"{output}: {counts.sum()} of {size} numbers are between -4 and 4")


if __name__ == "__main__":
    run(main)
