"""Sums: threads add their shares, then halve one another's in shared memory; workgroups meet in an atomic addition.

python examples/kernels/reduction.py --backend cpu writes reduction.png: how the error grows with the length.

8,192 sums that begin at zero lose less than one that grows: numbers that are added to a large one lose their last bits.
"""

# pyright: reportInvalidTypeForm=false

from __future__ import annotations

from pathlib import Path

import numpy as np

import hologram as hg
from hologram.demo.colours import plotted
from hologram.demo.gallery import run

THREADS = 256
GROUPS = 32


@hg.kernel(workgroup=THREADS)
def total(x: hg.Array[hg.f32], out: hg.Array[hg.f32]):
    """Adds all of x to out[0]."""
    i, t = hg.index(), hg.thread_index()
    sums = hg.shared(THREADS, hg.f32)
    own = 0.0
    for k in range(i, x.shape[0], hg.static(THREADS * GROUPS)):
        own += x[k]
    sums[t] = own
    hg.barrier()
    for halving in hg.static((128, 64, 32, 16, 8, 4, 2, 1)):
        if t < halving:
            sums[t] += sums[t + halving]
        hg.barrier()
    if t == 0:
        hg.atomic_add(out, 0, sums[0])


def add_up(executor: hg.Executor, x: np.ndarray) -> float:
    """The sum of an array."""
    out = executor.zeros(1)
    total[THREADS * GROUPS](executor.tensor(x), out)
    return out.item()


def main(longest: int = 22, output: Path = Path("reduction.png")) -> None:
    executor, exponents = hg.default_executor(), np.arange(10, longest + 1)
    numbers = np.random.default_rng(0).random(2**longest, np.float32)
    errors: dict[str, list[float]] = {"one after the other": [], "by the kernel": []}
    for x in (numbers[: 2**exponent] for exponent in exponents):
        right = float(np.sum(x, dtype=np.float64))
        for found, series in zip((np.cumsum(x)[-1], add_up(executor, x)), errors.values(), strict=True):
            series.append(max(abs(found / right - 1), 1e-8))
    lines = {f"the error of a sum, {name}": np.array(series) for name, series in errors.items()}
    plotted(lines, exponents, powers=True).save(output)
    print(f"{output}: of 2^{longest} numbers the kernel's sum is off by {errors['by the kernel'][-1]:.0e}")


if __name__ == "__main__":
    run(main)
