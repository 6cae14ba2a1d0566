"""Sums, products and what is made of them, of many elements: within what their declarations state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.foundation.dtypes import DType
from hologram.opset import OPERATIONS
from hologram.opset.tiles import product
from tests.accuracy import bound

MANY = 10_000_000
FEWER = 4_000_000  # where a CPU emulates the device
EACH = 12  # sums that lie crosswise


def constant(n: int) -> np.ndarray:
    """Numbers whose rounding errors all go one way."""
    return np.full(n, 0.1, np.float32)


def mixed(n: int) -> np.ndarray:
    """Few large numbers between many small ones, of one sign."""
    found = np.random.default_rng(1).random(n, dtype=np.float32) * np.float32(0.01)
    found[:: n // 100] = 1.0
    return found


def factors(n: int) -> np.ndarray:
    return np.random.default_rng(2).uniform(0.999, 1.001, n).astype(np.float32)


# A name: the operation, what it is called with, what NumPy makes of f64, and how many elements are behind a result.
Case = tuple[str, Callable[[Any], Any], Callable[[Any], Any], Callable[[int], Any]]


def crosswise(x: Any) -> Any:
    return x[: x.shape[0] // EACH * EACH].reshape(-1, EACH)


def one_place(x: hg.Tensor) -> tuple[hg.Tensor, hg.Tensor]:
    return x.executor.zeros((3,), x.dtype), x.executor.zeros(x.shape, hg.i32)


def two_rows(x: Any) -> Any:
    return x[: x.shape[0] // 2 * 2].reshape(2, -1)


def running_logarithm(x: Any) -> Any:
    return np.log(np.cumsum(np.exp(x), axis=0))


def whole(n: int) -> int:
    return n


CASES: dict[str, Case] = {
    "all": ("sum", hg.sum, np.sum, whole),
    "along axis 0": (
        "sum",
        lambda x: hg.sum(crosswise(x), axis=0),
        lambda x: crosswise(x).sum(0),
        lambda n: n // EACH,
    ),
    "few columns": (
        "sum",
        lambda x: hg.sum(two_rows(x).reshape(-1, 2), axis=0),
        lambda x: two_rows(x).reshape(-1, 2).sum(0),
        lambda n: n // 2,
    ),
    "every second": ("sum", lambda x: hg.sum(x[::2]), lambda x: x[::2].sum(), lambda n: n // 2),
    "rows": (
        "sum",
        lambda x: hg.sum(x[: x.shape[0] // 250 * 250].reshape(250, -1), axis=1),
        lambda x: x[: x.shape[0] // 250 * 250].reshape(250, -1).sum(1),
        lambda n: n // 250,
    ),
    "mean": ("mean", hg.mean, np.mean, whole),
    "variance": ("var", hg.var, np.var, whole),
    "deviation": ("std", hg.std, np.std, whole),
    "norm": ("vector_norm", hg.vector_norm, np.linalg.norm, whole),
    "logarithm": ("logsumexp", hg.logsumexp, lambda x: np.log(np.exp(x).sum()), whole),
    "running": ("cumsum", lambda x: hg.cumsum(x, axis=0), np.cumsum, lambda n: np.arange(1, n + 1)),
    "running along axis 0": (
        "cumsum",
        lambda x: hg.cumsum(crosswise(x), axis=0),
        lambda x: crosswise(x).cumsum(0),
        lambda n: np.arange(1, n // EACH + 1)[:, None],
    ),
    "running logarithm": ("logcumsumexp", hg.logcumsumexp, running_logarithm, lambda n: np.arange(1, n + 1)),
    "running logarithm along axis 0": (
        "logcumsumexp",
        lambda x: hg.logcumsumexp(crosswise(x), axis=0),
        lambda x: running_logarithm(crosswise(x)),
        lambda n: np.arange(1, n // EACH + 1)[:, None],
    ),
    "running logarithm of 0": (
        "logcumsumexp",
        lambda x: hg.logcumsumexp(x * 0),
        lambda x: running_logarithm(x * 0),
        lambda n: 0,
    ),
    "dot": ("dot_along", lambda x: hg.vecdot(x, x), lambda x: x @ x, whole),
    "matrix": (
        "matmul",
        lambda x: two_rows(x) @ two_rows(x).mT,
        lambda x: two_rows(x) @ two_rows(x).T,
        lambda n: n // 2,
    ),
    "wide matrix": (
        "matmul",
        lambda x: x[:200_000].reshape(10, -1) @ x[:640_000].reshape(-1, 32),
        lambda x: x[:200_000].reshape(10, -1) @ x[:640_000].reshape(-1, 32),
        lambda n: 20_000,
    ),
    "at one place": (
        "scatter_add",
        lambda x: hg.scatter_add(*one_place(x), x, dim=0)[:1],
        lambda x: x.sum()[None],
        whole,
    ),
    "of one segment": (
        "scatter_add",
        lambda x: hg.segment_sum(x, one_place(x)[1], num_segments=1),
        lambda x: x.sum()[None],
        whole,
    ),
}
PRODUCTS: dict[str, Case] = {
    "all": ("prod", hg.prod, np.prod, whole),
    "running": ("cumprod", lambda x: hg.cumprod(x, axis=0), np.cumprod, lambda n: np.arange(1, n + 1)),
    "at one place": (
        "scatter_reduce",
        lambda x: hg.scatter_reduce(one_place(x)[0] + 1, one_place(x)[1], x, dim=0, reduce="prod")[:1],
        lambda x: x.prod()[None],
        whole,
    ),
}


def holds(executor: hg.Executor, case: Case, given: np.ndarray) -> None:
    name, function, reference, count = case
    got = function(executor.tensor(given)).to_numpy().astype(np.float64)
    want = np.asarray(reference(given.astype(np.float64)))
    allowed = bound(OPERATIONS[name], hg.f32, want, float(given.max()), count(given.size))
    worst = np.max(np.abs(got - want) / allowed)
    assert worst <= 1, f"{worst} of what {name} allows"


def length(executor: hg.Executor) -> int:
    return FEWER if executor.limits.software else MANY


@pytest.mark.parametrize("numbers", [constant, mixed])
@pytest.mark.parametrize("name", CASES)
def test_sums(executor: hg.Executor, name: str, numbers: Callable[[int], np.ndarray]) -> None:
    holds(executor, CASES[name], numbers(length(executor)))


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(executor: hg.Executor, name: str) -> None:
    holds(executor, PRODUCTS[name], factors(length(executor) // 10))


def test_running_sums_count_past_what_floats_hold(executor: hg.Executor) -> None:
    n = 20_000_000  # beyond 2^24, where 1 more makes no difference
    assert hg.cumsum(executor.ones((n,), hg.f32), axis=0)[-1].item() == n


@pytest.mark.parametrize("dtype", [hg.f16, hg.bf16], ids=str)
def test_narrow_sums_come_back_from_what_they_do_not_hold(executor: hg.Executor, dtype: DType) -> None:
    x = executor.tensor(np.repeat([7.0, -7.0], 50_000), dtype)
    assert hg.sum(x).item() == 0
    assert hg.sum(x.reshape(-1, 4), axis=0).tolist() == [0] * 4
    zeros = executor.zeros((2,), dtype)
    places = executor.zeros(x.shape, hg.i32)
    assert hg.scatter_add(zeros, places, x, dim=0).tolist() == [0, 0]
    assert hg.cumsum(x, axis=0)[-1].item() == 0


@pytest.mark.parametrize("most", [0, product.MOST_PARTS], ids=["one by one", "at once"])
def test_products_by_pieces(executor: hg.Executor, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(product, "MOST_PARTS", most)
    rng, k = np.random.default_rng(3), 20_001 + bool(most)  # a shape of its own
    a, b = rng.random((2, 7, k), dtype=np.float32), rng.random((k, 11), dtype=np.float32)
    x, y = executor.tensor(a), executor.tensor(b)
    want = a.astype(np.float64) @ b.astype(np.float64)
    turned = executor.tensor(np.ascontiguousarray(b.T))
    for got in (
        x @ y,
        x @ turned.mT,
        (y.mT @ x.mT).mT,
        hg.linear(x, turned, executor.full((11,), -2.0)) + 2.0,
    ):
        np.testing.assert_allclose(got.to_numpy(), want, rtol=1e-5)
