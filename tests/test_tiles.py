"""The tile kernels in the forms that the tests' own adapter would not choose."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

import hologram as hg
from hologram.opset import OPERATIONS


@pytest.fixture(params=[False, True], ids=["workgroup", "register"])
def adapter(request: pytest.FixtureRequest, executor: hg.Executor) -> Iterator[hg.Executor]:
    """The executor, taken for one whose device is, or is not, played by a CPU."""
    limits = executor.limits
    executor.limits = replace(limits, software=request.param)
    executor.launches.clear()
    yield executor
    executor.limits = limits
    executor.launches.clear()


PRODUCTS = [
    ((1, 1), (1, 1)),
    ((3, 5, 70), (70, 9)),
    ((65, 33), (33, 130)),
    ((2, 1, 17, 16), (3, 16, 12)),
    ((130, 64), (64, 68)),
]


@pytest.mark.parametrize(("left", "right"), PRODUCTS, ids=str)
def test_matmul_reads_any_layout(left: tuple[int, ...], right: tuple[int, ...], adapter: hg.Executor) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, s).astype(np.float32) for s in (left, right))
    expected = a @ b
    crossed = (
        adapter.tensor(np.ascontiguousarray(np.swapaxes(a, -1, -2))),
        adapter.tensor(np.ascontiguousarray(np.swapaxes(b, -1, -2))),
    )
    views = [t.permute((*range(t.ndim - 2), t.ndim - 1, t.ndim - 2)) for t in crossed]
    for x, y in (
        (adapter.tensor(a), adapter.tensor(b)),
        (views[0], adapter.tensor(b)),
        (adapter.tensor(a), views[1]),
    ):
        np.testing.assert_array_equal(hg.matmul(x, y).to_numpy(), expected)


def test_linear_has_an_epilogue(adapter: hg.Executor) -> None:
    rng = np.random.default_rng(0)
    x, w, bias = (rng.integers(-4, 5, s).astype(np.float32) for s in ((2, 33, 20), (70, 20), (70,)))
    out = hg.linear(*map(adapter.tensor, (x, w, bias)), activation="relu").to_numpy()
    np.testing.assert_array_equal(out, np.maximum(x @ w.T + bias, 0))


def test_attention_masked_and_strided(adapter: hg.Executor) -> None:
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((2, n, 3, 40)).astype(np.float32) for n in (70, 90, 90))
    keep = rng.random((2, 1, 70, 90)) < 0.7
    keep[:, :, 5] = False
    heads = [adapter.tensor(x).permute((0, 2, 1, 3)) for x in (q, k, v)]
    out = hg.scaled_dot_product_attention(*heads, adapter.tensor(keep), causal=True).to_numpy()
    reference = OPERATIONS["scaled_dot_product_attention"].reference
    expected = reference(*(x.astype(np.float64).transpose(0, 2, 1, 3) for x in (q, k, v)), keep, causal=True)
    np.testing.assert_allclose(out, expected, atol=2e-6)
    assert not out[:, :, 5].any()


@pytest.mark.parametrize("shape", [(1, 70_000), (3, 5_001), (2, 256)], ids=str)
def test_cumsum_carries(shape: tuple[int, ...], adapter: hg.Executor) -> None:
    x = np.random.default_rng(0).integers(-9, 10, shape).astype(np.float32)
    np.testing.assert_array_equal(hg.cumsum(adapter.tensor(x), axis=1).to_numpy(), np.cumsum(x, axis=1))
    crossed = adapter.tensor(np.ascontiguousarray(x.T))
    np.testing.assert_array_equal(hg.cumsum(crossed, axis=0).to_numpy(), np.cumsum(x, axis=1).T)


def test_more_products_than_workgroups(adapter: hg.Executor) -> None:
    a = np.random.default_rng(0).integers(-4, 5, (66_000, 2, 3)).astype(np.float32)
    b = np.ones((3, 6), np.float32)
    np.testing.assert_array_equal(hg.matmul(adapter.tensor(a), adapter.tensor(b)).to_numpy(), a @ b)
