"""The programs of examples/loops, on every backend, beside what defines them; and as scripts."""

from __future__ import annotations

import functools
import itertools
import subprocess
import sys
from pathlib import Path

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


def test_the_kalman_filter(executor: hg.Executor) -> None:
    module = gallery.load(FOLDER / "kalman_filter.py")
    seen, times, mean, spread = module.inputs(20)
    means, last = module.filtered(*map(executor.tensor, (seen, times, mean, spread)))
    mean, spread, look = mean.astype(np.float64), spread.astype(np.float64), np.eye(2, 4)
    for k, (place, time) in enumerate(zip(seen, times, strict=True)):
        moved = np.eye(4) + time * np.eye(4, k=2)
        mean, spread = moved @ mean, moved @ spread @ moved.T + module.DRIFT * time * np.eye(4)
        gain = spread @ look.T @ np.linalg.inv(look @ spread @ look.T + module.NOISE * np.eye(2))
        mean = mean + gain @ (place - look @ mean)
        spread = (np.eye(4) - gain @ look) @ spread
        np.testing.assert_allclose(means.to_numpy()[k], mean, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(last.to_numpy(), spread, rtol=1e-4, atol=1e-5)


def test_heat(executor: hg.Executor) -> None:
    module = gallery.load(FOLDER / "heat.py")
    (plate,) = module.inputs(12)
    n = len(plate)
    line = np.eye(n, k=1) + np.eye(n, k=-1) - 2 * np.eye(n)
    values, waves = np.linalg.eigh(line)
    left = (1 + module.SHARE * (values[:, None] + values)) ** module.STEPS
    wanted = waves @ (left * (waves.T @ plate @ waves)) @ waves.T
    np.testing.assert_allclose(module.spread(executor.tensor(plate)).to_numpy(), wanted, rtol=1e-3, atol=1e-6)


def test_bodies_meet(executor: hg.Executor) -> None:
    """Two bodies keep their energy, and meet as the same steps in double precision say."""
    module = gallery.load(FOLDER / "n_body.py")
    given = module.inputs(5)
    places, speeds, masses = (x.astype(np.float64) for x in given)

    def pull(places: np.ndarray) -> np.ndarray:
        apart = places[None] - places[:, None]
        near = (apart**2).sum(axis=2) + module.SOFTENING
        return (apart * (masses / near**1.5)[:, :, None]).sum(axis=1)

    for _ in range(module.STEPS):
        speeds = speeds + 0.5 * module.STEP * pull(places)
        places = places + module.STEP * speeds
        speeds = speeds + 0.5 * module.STEP * pull(places)
    found = module.advance(*map(executor.tensor, given))
    for made, wanted in zip(found, (places, speeds), strict=True):
        np.testing.assert_allclose(made.to_numpy(), wanted, rtol=1e-4, atol=1e-5)
    before, after = (
        module.energy(*state, executor.tensor(given[2])).item()
        for state in (map(executor.tensor, given[:2]), found)
    )
    assert after == pytest.approx(before, rel=1e-4)


def test_chains_sample_the_density(executor: hg.Executor) -> None:
    module = gallery.load(FOLDER / "hamiltonian.py")
    start = np.zeros((64, 2), np.float32)
    samples, taken = module.sampled(hg.random.key(0, device=executor), executor.tensor(start))
    places = samples.to_numpy()[20:].reshape(-1, 2).astype(np.float64)
    assert 0.6 < float(taken) < 1
    np.testing.assert_allclose(places.mean(axis=0), 0, atol=0.08)
    np.testing.assert_allclose(places.var(axis=0), [1, 1 + 2 * module.BEND**2], rtol=0.1)


def test_steps_of_an_equation(executor: hg.Executor) -> None:
    """Beside 4,000 steps of the classical method of Runge and Kutta."""
    module = gallery.load(FOLDER / "adaptive_ode.py")
    state, stiffness = module.inputs(3)
    found, taken, tried = module.solved(executor.tensor(state), executor.tensor(stiffness))
    wanted, step = state.astype(np.float64), module.END / 4000

    def slope(y: np.ndarray) -> np.ndarray:
        return np.stack([y[1], stiffness * (1 - y[0] ** 2) * y[1] - y[0]])

    for _ in range(4000):
        a = slope(wanted)
        b = slope(wanted + 0.5 * step * a)
        c = slope(wanted + 0.5 * step * b)
        wanted = wanted + step / 6 * (a + 2 * b + 2 * c + slope(wanted + step * c))
    np.testing.assert_allclose(found.to_numpy(), wanted, atol=0.01)
    assert 50 < taken.item() < tried.item() < 1000


def test_the_likeliest_course(executor: hg.Executor) -> None:
    module = gallery.load(FOLDER / "viterbi.py")
    given = module.inputs(5, batch=3, states=3, symbols=4)
    states, score = module.likeliest(*map(executor.tensor, given))
    begin, change, emit, seen = (x.astype(np.float64) if x.dtype == np.float32 else x for x in given)
    for k in range(3):
        courses = {
            way: begin[way[0]]
            + sum(change[a, b] for a, b in itertools.pairwise(way))
            + sum(emit[state, seen[t, k]] for t, state in enumerate(way))
            for way in itertools.product(range(3), repeat=5)
        }
        best = max(courses, key=lambda way: courses[way])
        assert tuple(states.to_numpy()[:, k]) == best
        assert score.to_numpy()[k] == pytest.approx(courses[best], rel=1e-5)


SAID = {
    "adaptive_ode": "steps of",
    "ctc_loss": "loss ",
    "edit_distance": "'kitten' to 'sitting': 3",
    "hamiltonian": "of proposals taken",
    "heat": "of 256 units of heat",
    "kalman_filter": "filtered 0.2",
    "n_body": "energy -0.27",
    "viterbi": "healthy, healthy, fever: probability 0.01512",
}


@pytest.mark.parametrize("name", [file.stem for file in sorted(FOLDER.glob("*.py"))])
def test_scripts(name: str) -> None:
    done = subprocess.run(
        [sys.executable, FOLDER / f"{name}.py", "cpu"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert SAID[name] in done.stdout
