"""A sparse matrix times a vector: rows of different lengths, one after the other in memory (CSR).

python examples/kernels/sparse_product.py --backend cpu writes sparse_product.png: which pages of a web matter, found by
going over its links again and again (PageRank: Brin and Page 1998).
"""

# pyright: reportInvalidTypeForm=false

from __future__ import annotations

from pathlib import Path

import numpy as np

import hologram as hg
from hologram.demo.colours import plotted
from hologram.demo.gallery import run

STAYING = 0.85  # the share of readers who follow a link


@hg.kernel
def multiply(
    starts: hg.Array[hg.i32],
    columns: hg.Array[hg.i32],
    values: hg.Array[hg.f32],
    x: hg.Array[hg.f32],
    out: hg.Array[hg.f32],
):
    """A row for each point: its elements are those from starts[i] to starts[i + 1]."""
    i = hg.index()
    dot = 0.0
    for k in range(starts[i], starts[i + 1]):
        dot += values[k] * x[columns[k]]
    out[i] = dot


def product(
    executor: hg.Executor, starts: np.ndarray, columns: np.ndarray, values: np.ndarray, x: np.ndarray
) -> np.ndarray:
    """The product of a matrix in CSR and a vector."""
    out = executor.empty(starts.size - 1)
    multiply[starts.size - 1](*map(executor.tensor, (starts, columns, values, x)), out)
    return out.to_numpy()


def web(pages: int, links: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Links between pages, of which few are linked by many; each page's links weigh 1 in all."""
    rng = np.random.default_rng(0)
    source = rng.integers(pages, size=links)
    target = (pages * rng.random(links) ** 3).astype(np.int64)
    order = np.argsort(target, kind="stable")
    source, target = source[order], target[order]
    starts = np.searchsorted(target, np.arange(pages + 1)).astype(np.int32)
    each = np.bincount(source, minlength=pages)
    return starts, source.astype(np.int32), (1.0 / each[source]).astype(np.float32)


def ranks(
    executor: hg.Executor, matrix: tuple[np.ndarray, ...], rounds: int
) -> tuple[np.ndarray, list[float]]:
    """How often each page is read, and by how much that changed in each round."""
    pages = matrix[0].size - 1
    starts, columns, values = map(executor.tensor, matrix)
    rank, after, changes = executor.full(pages, 1.0 / pages), executor.empty(pages), []
    for _ in range(rounds):
        multiply[pages](starts, columns, values, rank, after)
        fresh = STAYING * after
        fresh = fresh + (1.0 - hg.sum(fresh)) / pages
        changes.append(hg.sum(hg.abs(fresh - rank)).item())
        rank = fresh
    return rank.to_numpy(), changes


def main(pages: int = 100_000, links: int = 1_000_000, output: Path = Path("sparse_product.png")) -> None:
    rank, changes = ranks(hg.default_executor(), web(pages, links), 20)
    drawn = {"how much ranks change in a round": np.array(changes)}
    plotted(drawn, np.arange(1, len(changes) + 1), powers=True).save(output)
    print(f"{output}: the first page is read {rank[0] * pages:.0f} times as often as pages are on average")


if __name__ == "__main__":
    run(main)
