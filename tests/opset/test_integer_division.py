"""Integer division and remainder: exact for all of 8 bits, and of wider ones where quotients are nearly whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hologram as hg
from tests.needs import needs

WIDE = [np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {"//": lambda a, b: a // b, "%": lambda a, b: a % b}


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    with np.errstate(all="ignore"):
        yield


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_every_pair_of_8_bits(dtype: type[np.integer], name: str, executor: hg.Executor) -> None:
    every = np.arange(256).astype(np.uint8).view(dtype)
    x, y = (side.ravel().copy() for side in np.meshgrid(every, every))
    divide = OPERATORS[name]
    np.testing.assert_array_equal(divide(executor.tensor(x), executor.tensor(y)).to_numpy(), divide(x, y))
    for number in every.tolist():
        got = divide(executor.tensor(every), number).to_numpy()
        np.testing.assert_array_equal(got, divide(every, dtype(number)))


def _near_multiples(dtype: type[np.integer]) -> tuple[np.ndarray, np.ndarray]:
    """Dividends and divisors of all magnitudes, and multiples of the divisors with their neighbours."""
    rng, facts = np.random.default_rng(3), np.iinfo(dtype)
    shifts = rng.integers(0, facts.bits, (2, 50_000)).astype(dtype)
    x, y = rng.integers(facts.min, facts.max, (2, 50_000), dtype=dtype, endpoint=True) >> shifts
    edges = [
        0,
        1,
        2,
        3,
        7,
        facts.max,
        facts.min,
        facts.max - 1,
        facts.min + 1,
        *([-1, -2, -7] if facts.min else []),
    ]
    pairs = np.meshgrid(np.array(edges, dtype), np.array(edges, dtype))
    x, y = (np.concatenate([a, b.ravel()]) for a, b in zip((x, y), pairs, strict=True))
    multiple = (y * (x // np.where(y == 0, 1, y))).astype(dtype)
    return np.concatenate([x, multiple, multiple - dtype(1), multiple + dtype(1)]), np.tile(y, 4)


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("dtype", WIDE)
def test_near_multiples(dtype: type[np.integer], name: str, executor: hg.Executor) -> None:
    needs(executor, dtype)
    x, y = _near_multiples(dtype)
    divide = OPERATORS[name]
    np.testing.assert_array_equal(divide(executor.tensor(x), executor.tensor(y)).to_numpy(), divide(x, y))
    facts = np.iinfo(dtype)
    negative = (-1, -3, facts.min + 1) if facts.min else ()
    half = 1 << facts.bits // 2
    for number in (
        0,
        1,
        2,
        7,
        10,
        641,
        half - 1,
        half + 1,
        facts.max,
        facts.min,
        facts.max // 2 + 2,
        *negative,
    ):
        multiple = x // dtype(number or 1) * dtype(number)
        x = np.concatenate([x[:50_000], multiple[:20_000], multiple[:20_000] - dtype(1)])
        t, want = executor.tensor(x), divide(x, dtype(number))
        np.testing.assert_array_equal(divide(t, number).to_numpy(), want)
        np.testing.assert_array_equal(hg.jit(lambda t, n=number: divide(t, n))(t).to_numpy(), want)
