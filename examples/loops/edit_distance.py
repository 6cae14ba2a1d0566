"""Edit distances of many pairs of words at once: a scan over letters, and one running minimum for each row.

python examples/loops/edit_distance.py webgpu
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

import hologram as hg


@hg.jit
def distances(a: Any, b: Any, lengths_a: Any, lengths_b: Any) -> Any:
    """How many letters must be inserted, deleted or replaced: letters (pairs, n) and (pairs, m), and their numbers.

    A row of Wagner and Fischer's table (1974) follows from the one before: `kept` are replacements and deletions, and
    insertions add 1 for each step to the right, so row[j] = min over k <= j of kept[k] + j - k.
    """
    steps = hg.arange(b.shape[1] + 1, dtype="int32", device=a.executor)

    def row(before: Any, given: Any) -> tuple[Any, None]:
        number, letter = given
        replaced = before[:, :-1] + hg.not_equal(b, letter[:, None]).astype("int32")
        kept = hg.concat([before[:, :1] + 1, hg.minimum(before[:, 1:] + 1, replaced)], axis=1)
        after = hg.cummin(kept - steps, axis=1)[0] + steps
        return hg.where((number < lengths_a)[:, None], after, before), None

    first = hg.broadcast_to(steps, (a.shape[0], b.shape[1] + 1))
    numbers = hg.arange(a.shape[1], dtype="int32", device=a.executor)
    last, _ = hg.scan(row, first, (numbers, a.T))
    return hg.take_along_axis(last, lengths_b[:, None], axis=1)[:, 0]


def compare(executor: hg.Executor, pairs: Sequence[tuple[str, str]]) -> list[int]:
    """The distance of each pair."""
    given = []
    for side in zip(*pairs, strict=True):
        letters = np.zeros((len(pairs), max(1, *map(len, side))), np.int32)
        for line, word in zip(letters, side, strict=True):
            line[: len(word)] = [ord(letter) for letter in word]
        given.append((letters, np.array([len(word) for word in side], np.int32)))
    (a, lengths_a), (b, lengths_b) = given
    return distances(*map(executor.tensor, (a, b, lengths_a, lengths_b))).tolist()


def inputs(pairs: int) -> tuple[np.ndarray, ...]:
    """Words of up to 64 letters, to measure it."""
    rng = np.random.default_rng(0)
    words = [rng.integers(0, 4, (pairs, 64)).astype(np.int32) for _ in range(2)]
    lengths = [rng.integers(32, 65, pairs).astype(np.int32) for _ in range(2)]
    return *words, *lengths


if __name__ == "__main__":
    words = [
        ("kitten", "sitting"),
        ("flaw", "lawn"),
        ("intention", "execution"),
        ("same", "same"),
        ("", "abc"),
    ]
    for (first, second), found in zip(words, compare(hg.Executor(*sys.argv[1:]), words), strict=True):
        print(f"{first!r} to {second!r}: {found}")
