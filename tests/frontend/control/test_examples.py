"""The programs of examples/loops, on every backend, beside what defines them; and as scripts."""

from __future__ import annotations

import functools
import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.demo import gallery

FOLDER = Path(__file__).parents[3] / "examples" / "loops"
RNG = np.random.default_rng(17)


def distance(a: str, b: str) -> int:
    @functools.cache
    def of(i: int, j: int) -> int:
        if not i or not j:
            return i + j
        return min(of(i - 1, j) + 1, of(i, j - 1) + 1, of(i - 1, j - 1) + (a[i - 1] != b[j - 1]))

    return of(len(a), len(b))


def test_edit_distance(executor: hg.Executor) -> None:
    compare = gallery.load(FOLDER / "edit_distance.py").compare
    words = ["".join(RNG.choice(list("abc"), n)) for n in (0, 1, 2, 5, 9, 14, 3)]
    pairs = [*itertools.product(words, words), ("kitten", "sitting"), ("ab", "ba")]
    assert compare(executor, pairs) == [distance(*pair) for pair in pairs]
    assert compare(executor, [("", "")]) == [0]


def probability(shares: np.ndarray, text: tuple[int, ...]) -> float:
    """The sum over all ways to say a text: equal letters in a row are one, then silences fall away."""
    total = 0.0
    for path in itertools.product(range(shares.shape[1]), repeat=len(shares)):
        letters = [letter for k, letter in enumerate(path) if not k or path[k - 1] != letter]
        if tuple(letter for letter in letters if letter) == text:
            total += float(np.prod([shares[k, letter] for k, letter in enumerate(path)]))
    return total


TEXTS = [(1, 2), (1, 1), (2,), (), (2, 1, 2), (1, 2)]
STEPS = [5, 5, 5, 5, 5, 3]


def batch() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    logits = RNG.standard_normal((5, len(TEXTS), 3)).astype(np.float32)
    padded = np.array([(*text, *(0,) * (3 - len(text))) for text in TEXTS], np.int32)
    return logits, padded, np.array(STEPS, np.int32), np.array([len(text) for text in TEXTS], np.int32)


def test_ctc_loss(executor: hg.Executor) -> None:
    module = gallery.load(FOLDER / "ctc_loss.py")
    logits, *others = batch()
    found = hg.jit(module.ctc_loss)(*map(executor.tensor, (logits, *others))).to_numpy()
    wide = np.exp(logits.astype(np.float64))
    shares = wide / wide.sum(axis=-1, keepdims=True)
    wanted = [
        -np.log(probability(shares[:n, k], text))
        for k, (n, text) in enumerate(zip(STEPS, TEXTS, strict=True))
    ]
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_the_gradient_of_ctc_loss(executor: hg.Executor) -> None:
    """By differences of the loss in double precision, where the device has it; else by larger steps."""
    module = gallery.load(FOLDER / "ctc_loss.py")
    logits, *others = batch()
    given = [executor.tensor(x) for x in others]
    _, slope = module.loss_and_slope(executor.tensor(logits), *given)
    wide = hg.f64 in executor.limits.dtypes
    kind, step, least = (np.float64, 1e-5, 2e-6) if wide else (np.float32, 1e-2, 3e-3)
    for _ in range(3):
        way = RNG.standard_normal(logits.shape)
        ahead, behind = (
            float(hg.sum(module.ctc_loss(executor.tensor((logits + sign * step * way).astype(kind)), *given)))
            for sign in (1, -1)
        )
        along = float(np.sum(slope.to_numpy().astype(np.float64) * way))
        assert along == pytest.approx((ahead - behind) / (2 * step), rel=1e-4, abs=least * 10)
    assert not slope.to_numpy()[3:, 5].any()  # behind the end


def test_it_learns_to_spell(executor: hg.Executor) -> None:
    losses, said = gallery.load(FOLDER / "ctc_loss.py").trained(executor, [2, 1, 1], 9, 4, 25)
    assert losses[-1] < 0.1 * losses[0]
    letters = [letter for k, letter in enumerate(said) if not k or said[k - 1] != letter]
    assert [letter for letter in letters if letter] == [2, 1, 1]


@pytest.mark.parametrize("name", [file.stem for file in sorted(FOLDER.glob("*.py"))])
def test_scripts(name: str) -> None:
    done = subprocess.run(
        [sys.executable, FOLDER / f"{name}.py", "cpu"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    said: Any = {"edit_distance": "'kitten' to 'sitting': 3", "ctc_loss": "loss "}[name]
    assert said in done.stdout
