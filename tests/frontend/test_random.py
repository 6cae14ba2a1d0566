"""hg.random: keys as data, the same numbers on every backend, distributions within bounds of their moments."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hologram as hg
from tests.needs import needs

N = 20_000


@pytest.fixture
def key(executor: hg.Executor) -> hg.Tensor:
    return hg.random.key(7, device=executor)


def test_a_key_gives_the_numbers_of_its_seed(executor: hg.Executor, key: hg.Tensor) -> None:
    found = hg.random.normal(key, (3, 5)).to_numpy()
    np.testing.assert_allclose(
        found, hg.random_normal(executor, shape=(3, 5), seed=7).to_numpy(), rtol=1e-5, atol=1e-6
    )
    uniform = hg.random_uniform(executor, shape=(9,), seed=7).to_numpy()
    np.testing.assert_array_equal(hg.random.uniform(key, (9,)).to_numpy(), uniform)
    np.testing.assert_array_equal(hg.random.key(-1, device=executor).to_numpy(), [2**64 - 1, 0])


def test_the_same_on_every_backend(executor: hg.Executor, key: hg.Tensor) -> None:
    """Integers to the bit, what is made of them as operations agree."""
    with hg.Executor(backend="cpu") as cpu:
        other = hg.random.key(7, device=cpu)
        for draw in (
            lambda k: hg.random.bits(k, (17,)),
            lambda k: hg.random.split(k, 5),
            lambda k: hg.random.fold_in(k, 12345),
            lambda k: hg.random.randint(k, (33,), -5, 1000),
            lambda k: hg.random.permutation(k, 50),
            lambda k: hg.random.bernoulli(k, 0.3, (40,)),
            lambda k: hg.random.choice(k, 10, (6,), replace=False),
        ):
            np.testing.assert_array_equal(draw(key).to_numpy(), draw(other).to_numpy())
        near = [hg.random.gamma(k, 2.5, (100,)).to_numpy() for k in (key, other)]
        np.testing.assert_allclose(*near, rtol=1e-3)


def test_keys_of_a_key_differ(key: hg.Tensor) -> None:
    keys = hg.random.split(key, 100).to_numpy()
    assert len({tuple(k) for k in keys}) == 100
    folded = {tuple(hg.random.fold_in(key, n).to_numpy()) for n in range(50)}
    assert len(folded) == 50
    assert not folded & {tuple(k) for k in keys}
    first, second = (hg.random.normal(hg.random.split(key)[k], (N,)).to_numpy() for k in (0, 1))
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.03


def test_in_jit_and_in_loops(executor: hg.Executor, key: hg.Tensor) -> None:
    traces = []

    @hg.jit
    def draws(key: Any, seed: int) -> Any:
        traces.append(1)
        return hg.random.normal(key, (4,)), hg.random.bits(hg.random.key(seed), (3,))

    for seed in (3, 5):
        normal, words = draws(key, seed)
        np.testing.assert_allclose(normal.to_numpy(), hg.random.normal(key, (4,)).to_numpy(), rtol=1e-5)
        eager = hg.random.bits(hg.random.key(seed, device=executor), (3,))
        np.testing.assert_array_equal(words.to_numpy(), eager.to_numpy())
    assert len(traces) == 1

    def walk(key: Any) -> Any:
        def step(i: Any, x: Any) -> Any:
            return x + hg.random.normal(hg.random.fold_in(key, i), (3,))

        return hg.fori_loop(0, 5, step, executor.zeros((3,)))

    expected = sum(hg.random.normal(hg.random.fold_in(key, i), (3,)).to_numpy() for i in range(5))
    np.testing.assert_allclose(hg.jit(walk)(key).to_numpy(), expected, rtol=1e-4, atol=1e-5)
    each = hg.vmap(lambda k: hg.random.normal(k, (3,)))(hg.random.split(key, 4)).to_numpy()
    second = hg.random.normal(hg.random.split(key, 4)[1], (3,)).to_numpy()
    np.testing.assert_allclose(each[1], second, rtol=1e-5, atol=1e-6)


MOMENTS: dict[str, tuple[Callable[[Any], Any], float, float]] = {  # mean and variance
    "uniform": (lambda k: hg.random.uniform(k, (N,), minval=-1.0, maxval=3.0), 1, 16 / 12),
    "normal": (lambda k: hg.random.normal(k, (N,)), 0, 1),
    "randint": (lambda k: hg.random.randint(k, (N,), -3, 8), 2, 10),
    "bernoulli": (lambda k: hg.random.bernoulli(k, 0.25, (N,)), 0.25, 0.1875),
    "rademacher": (lambda k: hg.random.rademacher(k, (N,)), 0, 1),
    "truncated_normal": (lambda k: hg.random.truncated_normal(k, -1.0, 1.0, (N,)), 0, 0.2911),
    "exponential": (lambda k: hg.random.exponential(k, (N,)), 1, 1),
    "gumbel": (lambda k: hg.random.gumbel(k, (N,)), 0.5772, np.pi**2 / 6),
    "laplace": (lambda k: hg.random.laplace(k, (N,)), 0, 2),
    "logistic": (lambda k: hg.random.logistic(k, (N,)), 0, np.pi**2 / 3),
    "gamma": (lambda k: hg.random.gamma(k, 2.5, (N,)), 2.5, 2.5),
    "beta": (lambda k: hg.random.beta(k, 2.0, 3.0, (N,)), 0.4, 0.04),
    "dirichlet": (
        lambda k: hg.random.dirichlet(k, hg.full((4,), 2.0, device=k.executor), (N,))[:, 0],
        0.25,
        0.0208,
    ),
    "poisson": (lambda k: hg.random.poisson(k, 3.5, (N,)), 3.5, 3.5),
    "binomial": (lambda k: hg.random.binomial(k, 10.0, 0.3, (N,)), 3, 2.1),
}


@pytest.mark.parametrize("name", MOMENTS)
def test_moments(key: hg.Tensor, name: str) -> None:
    draw, mean, variance = MOMENTS[name]
    found = draw(key).to_numpy().astype(np.float64)
    assert found.shape == (N,)
    assert np.isfinite(found).all()
    assert abs(found.mean() - mean) < 5 * np.sqrt(variance / N)
    assert abs(found.var() - variance) < 0.1 * variance


def test_quartiles_of_what_has_no_mean(key: hg.Tensor) -> None:
    np.testing.assert_allclose(
        np.quantile(hg.random.cauchy(key, (N,)).to_numpy(), [0.25, 0.5, 0.75]), [-1, 0, 1], atol=0.06
    )


def test_bounds(key: hg.Tensor) -> None:
    uniform = hg.random.uniform(key, (N,)).to_numpy()
    assert 0 <= uniform.min() < 0.001
    assert 0.999 < uniform.max() < 1
    drawn = hg.random.randint(key, (N,), 5, 9).to_numpy()
    assert set(drawn) == {5, 6, 7, 8}
    cut = hg.random.truncated_normal(key, -0.5, 2.0, (N,)).to_numpy()
    assert -0.5 <= cut.min() <= cut.max() <= 2
    for dtype in ("f16", "bf16"):
        assert hg.random.uniform(key, (N,), dtype).astype("f32").to_numpy().max() < 1


@pytest.mark.parametrize("dtype", ["f16", "f32", "f64"])
@pytest.mark.parametrize(("a", "b"), [(0.001, 0.001), (0.01, 0.03), (0.05, 4.0), (1e-30, 3e-30), (1e6, 1e6)])
def test_shares_of_extreme_parameters(key: hg.Tensor, a: float, b: float, dtype: str) -> None:
    needs(key.executor, dtype)
    if dtype == "f16" and not 1e-3 < a < 1e3:
        return  # what is drawn lies between two of its numbers
    beta = hg.random.beta(key, a, b, (N,), dtype).astype(hg.float32).to_numpy().astype(np.float64)
    pair = hg.asarray(np.array([a, b], np.float32), device=key.executor)
    first = hg.random.dirichlet(key, pair, (N,), dtype)
    np.testing.assert_allclose(
        first.astype("f32").to_numpy().sum(-1), 1, atol=2e-3 if dtype == "f16" else 1e-6
    )
    mean, deviation = a / (a + b), np.sqrt(a * b / (a + b + 1)) / (a + b)
    for found in (beta, first.astype("f32").to_numpy()[:, 0].astype(np.float64)):
        assert abs(found.mean() - mean) < 5 * deviation / np.sqrt(N) + 1e-8
        assert abs(found.std() / deviation - 1) < 0.15


def test_shares_of_parameters_at_the_ends(key: hg.Tensor) -> None:
    for a, b, want in ((-1.0, 1.0, np.nan), (1.0, -1.0, np.nan), (np.nan, 1.0, np.nan), (0.0, 0.0, np.nan),
                       (0.0, 1.0, 0.0), (1.0, 0.0, 1.0), (np.inf, 1.0, 1.0), (1.0, np.inf, 0.0)):  # fmt: skip
        for given in (a, hg.asarray(a, device=key.executor)):
            np.testing.assert_array_equal(hg.random.beta(key, given, b, (3,)).to_numpy(), [want] * 3)
    rows = [[0.0, 0.0, 0.0], [-1.0, 1.0, 1.0], [np.nan, 1.0, 1.0], [0.0, 1.0, 1.0], [0.0, 1e-30, 0.0]]
    shares = hg.random.dirichlet(key, hg.asarray(rows, device=key.executor)).to_numpy()
    assert np.isnan(shares[:3]).all()
    assert shares[3, 0] == 0 < shares[3, 1:].min()
    np.testing.assert_array_equal(shares[4], [0, 1, 0])


INTERVALS = [
    (4.0, 5.0),
    (8.0, 9.0),
    (-6.0, -5.0),
    (12.0, np.inf),
    (-np.inf, -7.0),
    (0.0, 0.01),
    (-1.0, 30.0),
    (30.0, 31.0),
]


def _share(x: float, low: float, high: float) -> float:
    """How much of the normal distribution between two bounds lies below x."""
    if high <= 0:
        return 1 - _share(-x, -high, -low)
    above = [math.erfc(y * math.sqrt(0.5)) for y in (low, x, high)]
    return (above[0] - above[1]) / (above[0] - above[2])


@pytest.mark.parametrize("tensors", [False, True])
@pytest.mark.parametrize(("low", "high"), INTERVALS)
def test_normal_numbers_far_out(key: hg.Tensor, low: float, high: float, tensors: bool) -> None:
    first, last = (hg.full((), x, device=key.executor) if tensors else x for x in (low, high))
    found = hg.random.truncated_normal(key, first, last, (N,)).to_numpy().astype(np.float64)
    assert low < found.min()
    assert found.max() < high
    shares = np.sort([_share(x, low, high) for x in found])
    assert np.abs(shares - np.linspace(0, 1, N)).max() < 1.9 / np.sqrt(N)  # Kolmogorov, Smirnov
    narrow = hg.random.truncated_normal(key, first, last, (N,), "f16").astype("f32").to_numpy()
    assert np.isfinite(narrow).all()
    assert low < narrow.min() <= narrow.max() < high


@pytest.mark.parametrize("tensors", [False, True])
@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32"])
def test_normal_numbers_between_near_and_crossed_bounds(key: hg.Tensor, dtype: str, tensors: bool) -> None:
    for low, high in ((3.0, 3.0001), (-3.0001, -3.0), (3.0, 3.0), (0.0, 1e-7), (-1e-7, 1e-7)):
        a, b = (hg.full((), x, device=key.executor) if tensors else x for x in (low, high))
        found = hg.random.truncated_normal(key, a, b, (N,), dtype).astype("f32").to_numpy()
        first, last = hg.asarray([low, high], dtype=dtype).astype("f32").to_numpy()
        assert first <= found.min() <= found.max() <= last
    for low, high in ((3.0, 1.0), (1.0, -1.0), (np.nan, 1.0), (-1.0, np.nan)):
        a, b = (hg.full((), x, device=key.executor) if tensors else x for x in (low, high))
        assert np.isnan(hg.random.truncated_normal(key, a, b, (N,), dtype).astype("f32").to_numpy()).all()


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_narrow_floats_are_drawn_in_f32(key: hg.Tensor, dtype: str) -> None:
    for name in ("exponential", "gumbel", "laplace", "logistic", "cauchy"):
        draw = getattr(hg.random, name)
        found, want = (draw(key, (N,), d).astype("f32").to_numpy() for d in (dtype, "f32"))
        assert np.isfinite(found).all()
        at = np.linspace(0.05, 0.95, 7)
        np.testing.assert_allclose(np.quantile(found, at), np.quantile(want, at), rtol=0.02, atol=0.02)
    # As likely as others, however many there are: no two noises are alike.
    drawn = hg.random.categorical(key, hg.zeros((N, 400), device=key.executor).astype(dtype)).to_numpy()
    assert abs(drawn.mean() - 199.5) < 5 * 400 / np.sqrt(12 * N)


RANGES: dict[str, tuple[int, int]] = {
    "i64": (-(2**63), 2**63), "u64": (0, 2**64), "i32": (-(2**31), 2**31), "u8": (0, 256),
}  # fmt: skip


@pytest.mark.parametrize("dtype", RANGES)
def test_integers_of_a_whole_dtype(key: hg.Tensor, dtype: str) -> None:
    low, high = RANGES[dtype]
    for start in (low, low + 3 * (high - low) // 8):
        numbers = [int(x) for x in hg.random.randint(key, (N,), start, high, dtype).to_numpy()]
        assert start <= min(numbers)
        for quarter in (1, 2, 3):
            below = np.mean([(x - start) * 4 < (high - start) * quarter for x in numbers])
            assert abs(below - quarter / 4) < 0.02


def test_permutations_and_choices(executor: hg.Executor, key: hg.Tensor) -> None:
    x = executor.tensor(np.arange(24, dtype=np.float32).reshape(6, 4))
    order = hg.random.permutation(key, 100).to_numpy()
    assert sorted(order) == list(range(100))
    assert list(order) != list(range(100))
    rows = hg.random.permutation(key, x).to_numpy()
    assert sorted(rows[:, 0]) == [0, 4, 8, 12, 16, 20]
    apart = hg.random.permutation(key, x, axis=1, independent=True).to_numpy()
    np.testing.assert_array_equal(np.sort(apart, 1), x.to_numpy())
    few = hg.random.choice(key, x, (3,), replace=False).to_numpy()
    assert len(set(few[:, 0])) == 3
    p = executor.tensor(np.array([0.1, 0.0, 0.6, 0.3], np.float32))
    for replace in (True, False):
        drawn = hg.random.choice(key, 4, (2,), replace=replace, p=p).to_numpy()
        assert 1 not in drawn
    many = np.bincount(hg.random.choice(key, 4, (N,), p=p).to_numpy(), minlength=4) / N
    np.testing.assert_allclose(many, p.to_numpy(), atol=0.02)
    logits = hg.log(p + 1e-30)
    drawn = hg.random.categorical(key, logits, shape=(N,)).to_numpy()
    np.testing.assert_allclose(np.bincount(drawn, minlength=4) / N, p.to_numpy(), atol=0.02)
    assert hg.random.categorical(key, hg.ones((3, 5, 4), device=executor), axis=1).shape == (3, 4)


def test_what_is_refused(executor: hg.Executor, key: hg.Tensor) -> None:
    with pytest.raises(hg.ShapeError, match=r"random\.normal: a key is two u64 .* got 7"):
        hg.random.normal(7, (3,))  # type: ignore[arg-type]
    with pytest.raises(hg.ShapeError, match=r"random\.split: a key is two u64 .* f32 of shape \(2,\)"):
        hg.random.split(executor.ones((2,)))
    for seed in (1 << 64, -(1 << 63) - 1):
        with pytest.raises(ValueError, match=f"the seed must have 64 bits, got {seed}"):
            hg.random.key(seed)
    with pytest.raises(TypeError, match=r"the seed must be an integer, got 1\.5"):
        hg.random.key(1.5)
    with pytest.raises(hg.UnsupportedDType, match="floats are made, got i32"):
        hg.random.uniform(key, (3,), "i32")
    with pytest.raises(hg.UnsupportedDType, match="integers are made, got f32"):
        hg.random.randint(key, (3,), 0, 5, "f32")
    with pytest.raises(hg.ShapeError, match="7 of 5 cannot be chosen without replacing"):
        hg.random.choice(key, 5, (7,), replace=False)
    with pytest.raises(hg.ShapeError, match=r"one probability for each of 5, got shape \(3,\)"):
        hg.random.choice(key, 5, (2,), p=executor.ones((3,)))
    with pytest.raises(hg.ShapeError, match=r"must end with \(3,\), got \(4,\)"):
        hg.random.categorical(key, executor.ones((3, 5)), shape=(4,))
