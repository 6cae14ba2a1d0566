"""Random numbers: bits, seeds and offsets of 64 bits, and the same numbers for a key in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.opset.random import Key
from tests.needs import needs

# The streams of f32 that have been drawn since the first release.
FIRST = {
    hg.random_uniform: [0.8166549801826477, 0.11682552099227905, 0.656050443649292, 0.7652305960655212],
    hg.random_normal: [0.47255411744117737, -1.538000464439392, 0.1599336862564087, 1.1117515563964844],
}


@pytest.mark.parametrize("draw", FIRST)
def test_streams_of_f32_are_those_that_were(executor: hg.Executor, draw: Callable[..., Any]) -> None:
    np.testing.assert_allclose(draw(executor, (4,), seed=3).to_numpy(), FIRST[draw], rtol=1e-6)


def test_f64_has_53_random_bits(executor: hg.Executor) -> None:
    needs(executor, hg.f64)
    whole = hg.random_uniform(executor, (4096,), seed=3, dtype="f64").to_numpy() * 2.0**53
    assert np.array_equal(whole, np.floor(whole))
    ones = (whole.astype(np.uint64)[:, None] >> np.arange(53, dtype=np.uint64) & np.uint64(1)).mean(0)
    assert np.all(np.abs(ones - 0.5) < 6 * 0.5 / 64)


def test_normal_numbers_of_f64_have_as_many(executor: hg.Executor) -> None:
    needs(executor, hg.f64)
    drawn = hg.random_normal(executor, (1 << 15,), seed=3, dtype="f64").to_numpy()
    assert len(np.unique(drawn)) == drawn.size
    assert not np.array_equal(drawn, hg.random_normal(executor, (1 << 15,), seed=3).to_numpy())


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_every_bit_of_a_seed_counts(executor: hg.Executor, dtype: str) -> None:
    needs(executor, dtype)
    seeds = [0, *(1 << k for k in range(64)), 2**64 - 1]
    drawn = {tuple(hg.random_uniform(executor, (4,), seed=s, dtype=dtype).tolist()) for s in seeds}
    assert len(drawn) == len(seeds)


def test_an_offset_counts_in_64_bits(executor: hg.Executor) -> None:
    def drawn(count: int, offset: int) -> Any:
        return hg.random_uniform(executor, (count,), seed=5, offset=offset).to_numpy()

    assert np.array_equal(drawn(64, 2**32 - 8)[32:], drawn(32, 2**32))
    assert np.array_equal(drawn(64, 2**64 - 8)[32:], drawn(32, 0))
    assert not np.array_equal(drawn(32, 2**32), drawn(32, 0))


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("draw", [hg.random_uniform, hg.random_normal])
def test_a_key_in_memory_draws_what_its_numbers_do(
    executor: hg.Executor, draw: Callable[..., Any], dtype: str
) -> None:
    needs(executor, dtype)
    seed, offset = 2**63 + 12345, 2**32 - 3

    @hg.jit
    def kept(key: hg.Tensor) -> hg.Tensor:
        return draw(executor, (5, 7), seed=Key(key), offset=2, dtype=dtype)

    found = kept(executor.tensor(np.array([seed, offset], np.uint64)))
    wanted = draw(executor, (5, 7), seed=seed, offset=offset + 2, dtype=dtype)
    assert found.dtype == wanted.dtype
    near = dict.fromkeys(("f16", "bf16"), 1e-2) | {"f32": 1e-6, "f64": 1e-14}
    got, want = (x.to_numpy().astype(np.float64) for x in (found, wanted))
    np.testing.assert_allclose(got, want, rtol=near[dtype], atol=near[dtype])


def test_dropout_by_a_key_leaves_out_the_same(executor: hg.Executor) -> None:
    def kept(x: hg.Tensor, key: Any) -> hg.Tensor:
        key = Key(key)
        return hg.dropout(x, p=0.5, seed=key)

    x, key = executor.ones((5, 7)), executor.tensor(np.array([2**40, 6], np.uint64))
    found = hg.jit(kept)(x, key)
    assert np.array_equal(found.to_numpy(), hg.dropout(x, p=0.5, seed=2**40, offset=6).to_numpy())


def test_what_is_no_key_is_refused(executor: hg.Executor) -> None:
    for key in (np.zeros(2, np.uint32), np.zeros(4, np.uint64)):
        with pytest.raises(hg.ShapeError, match="a key is two u64"):
            hg.random_words(executor.tensor(key), shape=(2,))
        with pytest.raises(hg.ShapeError, match="a key is two u64"):
            hg.random_gamma(executor.ones((2,)), executor.tensor(key))


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_a_seed_that_does_not_fit_is_refused(executor: hg.Executor, seed: int) -> None:
    with pytest.raises(hg.UnsupportedDType, match=f"u64 cannot hold {seed}"):
        hg.random_uniform(executor, (2,), seed=seed)
