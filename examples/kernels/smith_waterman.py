"""Where sequences are most alike (Smith and Waterman 1981): a workgroup fills a table, diagonal by diagonal.

python examples/kernels/smith_waterman.py --backend cpu writes smith_waterman.png: a table's scores, and the way back.

A place of the table needs those above, to the left, and between them. So each thread has a row, and is one place behind
the thread above it, whose last scores it finds in shared memory.
"""

# pyright: reportInvalidTypeForm=false

from __future__ import annotations

from pathlib import Path

import numpy as np

import hologram as hg
from hologram.demo.colours import coloured, enlarged
from hologram.demo.gallery import run

ROWS = 128  # the letters of a query at most
ALIKE, UNLIKE, GAP = 2, -3, 4
LETTERS = "ACGT"


@hg.kernel(workgroup=ROWS)
def fill(query: hg.Array[hg.u8], texts: hg.Array[hg.u8, 2], scores: hg.Array[hg.i32, 3]):
    """The best score of parts that end at each letter of the query and each of a text; a workgroup has one text."""
    text, t = hg.workgroup_index(), hg.thread_index()
    rows, columns = query.shape[0], texts.shape[1]
    last = hg.shared((2, ROWS), hg.i32)  # each row's last score; one half is written while the other is read
    left, corner = 0, 0
    for time in range(columns + rows - 1):
        j = time - t
        above = 0 if t == 0 else last[(time + 1) % 2, t - 1]
        score = 0
        if 0 <= j < columns and t < rows:
            pair = ALIKE if query[t] == texts[text, j] else UNLIKE
            score = max(corner + pair, max(above, left) - GAP, 0)
            scores[text, t, j] = score
            left, corner = score, above
        last[time % 2, t] = score
        hg.barrier()


def tables(executor: hg.Executor, query: np.ndarray, texts: np.ndarray) -> np.ndarray:
    """A table for each text: the scores of parts that end at each letter of the query and of the text.

    Raises ValueError for a query of more than 128 letters.
    """
    if not 0 < query.size <= ROWS:
        raise ValueError(f"a query has 1 to {ROWS} letters, got {query.size}")
    scores = executor.empty((len(texts), query.size, texts.shape[1]), hg.i32)
    fill[len(texts) * ROWS](executor.tensor(query), executor.tensor(texts), scores)
    return scores.to_numpy()


def way_back(scores: np.ndarray, query: np.ndarray, text: np.ndarray) -> list[tuple[int, int]]:
    """The places of a best alignment, from its end to its start."""
    bordered = np.pad(scores, ((1, 0), (1, 0)))
    i, j = (int(k) + 1 for k in np.unravel_index(scores.argmax(), scores.shape))
    way = []
    while bordered[i, j] > 0:
        way.append((i - 1, j - 1))
        pair = ALIKE if query[i - 1] == text[j - 1] else UNLIKE
        if bordered[i, j] == bordered[i - 1, j - 1] + pair:
            i, j = i - 1, j - 1
        elif bordered[i, j] == bordered[i - 1, j] - GAP:
            i -= 1
        else:
            j -= 1
    return way


def shown(way: list[tuple[int, int]], query: np.ndarray, text: np.ndarray) -> tuple[str, str]:
    """The two aligned parts as letters, with dashes where one of them has a gap."""
    lines = ["", ""]
    for (i, j), (before_i, before_j) in zip(way, [*way[1:], (-1, -1)], strict=True):
        lines[0] = ("-" if i == before_i else LETTERS[query[i]]) + lines[0]
        lines[1] = ("-" if j == before_j else LETTERS[text[j]]) + lines[1]
    return lines[0], lines[1]


def main(length: int = 240, texts: int = 64, output: Path = Path("smith_waterman.png")) -> None:
    rng = np.random.default_rng(3)
    query = rng.integers(4, size=100, dtype=np.uint8)
    among = rng.integers(4, size=(texts, length), dtype=np.uint8)
    copied = np.delete(
        query[10:80], [20, 21, 40]
    )  # one text has most of the query, with letters lost and changed
    copied[rng.integers(copied.size, size=6)] = 0
    among[texts // 2, 100 : 100 + copied.size] = copied
    found = tables(hg.default_executor(), query, among)
    best = int(found.max(axis=(1, 2)).argmax())
    way = way_back(found[best], query, among[best])
    colours = coloured(found[best], 0, found[best].max())
    colours[tuple(np.transpose(way))] = (130, 210, 255)
    enlarged(colours, 480).save(output)
    print(f"{output}: text {best} has {found[best].max()} points", *shown(way, query, among[best]), sep="\n")


if __name__ == "__main__":
    run(main)
