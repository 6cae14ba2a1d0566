"""The questions that an adapter is asked when it is opened, and what is computed where it answers them wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

import hologram as hg
from hologram.backends import webgpu
from hologram.backends.webgpu.native import conduct
from hologram.foundation import store
from hologram.foundation.conduct import CONDUCT

FORMS = "division,choices,contraction,remainder"
LARGEST = np.finfo(np.float32).max


def answered() -> np.ndarray:
    """What a driver says that keeps to IEEE 754 in all."""
    wanted = np.array([q.wanted for q in conduct.QUESTIONS], np.float32).view(np.uint32)
    x, y = conduct.samples().T
    results = np.stack([x / y, np.sqrt(np.abs(x))], 1).reshape(-1).view(np.uint32)
    return np.concatenate([wanted, [conduct.TURNS], results]).astype(np.uint32)


@pytest.fixture
def doing_without(index: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[hg.Executor]:
    """An executor whose adapter is taken to keep none of what FORMS names."""
    monkeypatch.setenv("HOLOGRAM_WITHOUT", FORMS)
    with hg.Executor(backend="webgpu") as executor:
        yield executor


def test_a_driver_that_keeps_to_ieee_has_no_shortfalls() -> None:
    assert conduct.shortfalls(answered()) == sorted(conduct.ALWAYS)


@pytest.mark.parametrize("position", range(len(conduct.QUESTIONS)))
def test_a_wrong_answer_is_a_shortfall_of_its_word(position: int) -> None:
    answers = answered()
    answers[position] ^= 0xFFFF_FFFF
    assert conduct.shortfalls(answers) == sorted({conduct.QUESTIONS[position].word} | conduct.ALWAYS)


@pytest.mark.parametrize(
    ("behind", "value", "word"),
    [(0, 65_535, "loops"), (1, 1, "rounding"), (2, 1, "rounding")],
)
def test_loops_and_rounding_are_told_by_counting(behind: int, value: int, word: str) -> None:
    answers = answered()
    answers[len(conduct.QUESTIONS) + behind] = value
    assert conduct.shortfalls(answers) == sorted({word} | conduct.ALWAYS)


def test_every_word_is_asked_about() -> None:
    assert {q.word for q in conduct.QUESTIONS} | {"loops", "rounding"} | conduct.ALWAYS == set(CONDUCT)


def test_an_adapter_is_asked_once(index: int) -> None:
    webgpu.open_device(index).close()
    before = store.shared().stats(conduct.KIND)
    webgpu.open_device(index).close()
    assert store.shared().stats(conduct.KIND) == replace(before, hits=before.hits + 1)


@pytest.mark.parametrize("word", CONDUCT)
def test_what_an_adapter_keeps_can_be_switched_off(
    word: str, index: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLOGRAM_WITHOUT", word)
    device = webgpu.open_device(index)
    assert not device.limits.keeps(word)
    assert not device.kernel_context.limits.keeps(word)
    device.close()


def test_quotients_of_large_divisors_are_exact(doing_without: hg.Executor) -> None:
    random = np.random.default_rng(0)
    x, y = (random.uniform(0.5, 1, 4096).astype(np.float32) * LARGEST for _ in range(2))
    special = np.array([0, -0.0, 1, -1, 2.0**126, LARGEST, -LARGEST, np.inf, -np.inf, np.nan], np.float32)
    x = np.concatenate([x, np.repeat(special, len(special))])
    y = np.concatenate([y, np.tile(special, len(special))])
    with np.errstate(all="ignore"):
        wanted = x / y
    got = (doing_without.tensor(x) / doing_without.tensor(y)).to_numpy()
    assert np.array_equal(got, wanted, equal_nan=True)
    number = ~np.isnan(wanted)
    assert np.array_equal(np.signbit(got[number]), np.signbit(wanted[number]))


def test_choices_keep_nan_and_the_signs_of_zeros(doing_without: hg.Executor) -> None:
    values = np.array([0.0, -0.0, 1.0, -1.0, np.nan, np.inf, -np.inf], np.float32)
    x, y = np.repeat(values, len(values)), np.tile(values, len(values))
    a, b = doing_without.tensor(x), doing_without.tensor(y)
    got = hg.jit(lambda a, b: hg.where(a < b, a, b))(a, b).to_numpy()
    assert np.array_equal(got.view(np.uint32), np.where(x < y, x, y).view(np.uint32))


def test_remainders_have_the_sign_of_the_dividend(doing_without: hg.Executor) -> None:
    x = np.array([7, -7, 7, -7, -(2**31), 2**31 - 1, 5], np.int32)
    y = np.array([3, 3, -3, -3, 7, -2, 0], np.int32)
    wanted = np.where(y == 0, 0, np.fmod(x, np.where(y == 0, 1, y)))
    got = hg.fmod(doing_without.tensor(x), doing_without.tensor(y)).to_numpy()
    assert np.array_equal(got, wanted)


def test_products_are_rounded_before_they_are_added(doing_without: hg.Executor) -> None:
    x, y, z = (doing_without.tensor(np.full(8, v, np.float32)) for v in (1, 2, 3))
    multiplied = hg.jit(lambda x, y, z: x * y + z)
    assert (multiplied(x, y, z).to_numpy() == 5).all()
    assert "= hidden_f32(" in str(multiplied.explain(x, y, z))
