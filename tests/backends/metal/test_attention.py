"""Attention by simdgroup matrices on the emulated Mac: every tile, however operands lie, and rows that have nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.machine.choices import Candidate
from hologram.opset.tiles.attention.units import UNITS, unit_ways
from tests.backends.metal.test_device import Executor
from tests.devices import limits

TOLERANCE = {dtypes.f32: 8e-6, dtypes.f16: 2e-3, dtypes.bf16: 2e-2}
LIMITS = limits(
    software=False, subgroup=32, shared_bytes=32 << 10, max_workgroup_threads=1024, matrix_attention=True,
    matrix_dtypes=frozenset(TOLERANCE),
)  # fmt: skip


@pytest.fixture(name="executor")
def _executor() -> Iterator[hg.Executor]:
    with Executor() as executor:
        yield executor


def reference(q: Any, k: Any, v: Any, mask: Any = None, causal: bool = False) -> np.ndarray:
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores + mask
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    top = np.maximum(scores.max(-1, keepdims=True), np.finfo(np.float64).min)
    weights = np.exp(scores - top)
    total = weights.sum(-1, keepdims=True)
    return weights / np.where(total == 0, 1, total) @ v


def attended(executor: hg.Executor, dtype: DType, *arrays: np.ndarray, **attributes: Any) -> np.ndarray:
    """What the device makes of arrays, and of the mask as it is; and that the kernel at hand ran."""
    q, k, v = (executor.tensor(x).astype(dtype) for x in arrays)
    mask = attributes.pop("mask", None)
    given = None if mask is None else executor.tensor(mask.astype(np.float32))
    with executor.profile() as profile:
        found = hg.scaled_dot_product_attention(q, k, v, given, **attributes)
    assert f"atlas_{UNITS}" in {launch.subject.kernel for launch in profile.launches}
    return found.astype(hg.float32).to_numpy().astype(np.float64)


def rounded(dtype: DType, *arrays: np.ndarray) -> list[np.ndarray]:
    return [x.astype(dtype.numpy).astype(np.float32) for x in arrays]


def operands(
    rows: int, keys: int, head: int, values: int, seed: int = 0, spread: float = 1.0
) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = ((2, rows, head), (2, keys, head), (2, keys, values))
    return [
        rng.standard_normal(s).astype(np.float32) * (spread if n < 2 else 1) for n, s in enumerate(shapes)
    ]


WAYS = sorted({way for head in (16, 128) for way in unit_ways(dtypes.f16, head, LIMITS)}, key=str)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_every_tile(way: Candidate, causal: bool, executor: hg.Executor) -> None:
    executor.target = replace(executor.target, choices=lambda problem: way)
    arrays: Any = rounded(dtypes.f16, *operands(70, 150, 12, 9))
    found = attended(executor, dtypes.f16, *arrays, causal=causal)
    np.testing.assert_allclose(found, reference(*arrays, causal=causal), atol=TOLERANCE[dtypes.f16])


@pytest.mark.parametrize("head", [1, 16, 40, 128])
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_every_head(dtype: DType, head: int, executor: hg.Executor) -> None:
    """Scores far apart: maxima grow from turn to turn, by more than is let be."""
    arrays: Any = rounded(dtype, *operands(33, 140, head, max(1, head - 3), head, 3.0))
    found = attended(executor, dtype, *arrays)
    np.testing.assert_allclose(found, reference(*arrays), atol=TOLERANCE[dtype] * 4)


def test_maxima_that_grow_by_little_and_by_much(executor: hg.Executor) -> None:
    q, k, v = operands(20, 200, 16, 16)
    q[:], k[:] = 1.0, 0.0
    k[0] = np.linspace(0, 9, 200)[:, None]  # each turn a little more
    k[1] = np.linspace(-40, 40, 200)[:, None]
    np.testing.assert_allclose(attended(executor, dtypes.f32, q, k, v), reference(q, k, v), atol=1e-5)


def test_masks_and_groups(executor: hg.Executor) -> None:
    rng = np.random.default_rng(5)
    q = rng.standard_normal((2, 3, 2, 21, 16)).astype(np.float32)
    k, v = (rng.standard_normal((2, 3, 1, 50, 16)).astype(np.float32) for _ in range(2))
    mask = np.where(rng.random((21, 50)) < 0.3, -np.inf, rng.standard_normal((21, 50)))
    mask[4] = -np.inf  # a row that sees nothing gives zeros
    mask[6] = np.finfo(np.float32).min  # hides nothing: all are alike
    found = attended(executor, dtypes.f32, q, k, v, mask=mask)
    wanted = reference(q, k, v, mask)
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert not found[..., 4, :].any()


def test_views_and_a_row_of_nan_that_stays_one(executor: hg.Executor) -> None:
    q, k, v = operands(40, 64, 16, 16)
    q[0, 7, 3] = np.nan
    tensors = [executor.tensor(np.ascontiguousarray(x.swapaxes(1, 2))).permute((0, 2, 1)) for x in (q, k, v)]
    found = hg.scaled_dot_product_attention(*tensors).to_numpy()
    wanted = reference(q, k, v)
    assert np.isnan(found[0, 7]).all()
    assert np.isnan(found).sum() == 16
    np.testing.assert_allclose(found, wanted, atol=1e-5)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_what_is_masked_is_not_looked_at(dtype: DType, executor: hg.Executor) -> None:
    q, k, v = operands(20, 40, 16, 16)
    keep = np.ones((20, 40), bool)
    keep[:, 7], keep[:, 30], k[:, 7], k[:, 30] = False, False, np.nan, np.inf
    tensors = [executor.tensor(x).astype(dtype) for x in (q, k, v)]
    found = (
        hg.scaled_dot_product_attention(*tensors, mask=executor.tensor(keep)).astype(hg.float32).to_numpy()
    )
    rest = [7, 30]
    wanted = reference(q, np.delete(k, rest, 1), np.delete(v, rest, 1))
    np.testing.assert_allclose(found, wanted, atol=10 * TOLERANCE[dtype])


def test_its_gradient_is_composed(executor: hg.Executor) -> None:
    arrays = operands(9, 9, 8, 8)
    q, k, v = (executor.tensor(x) for x in arrays)
    found = hg.grad(lambda q: hg.sum(hg.scaled_dot_product_attention(q, k, v)))(q).to_numpy()
    step = 1e-6
    q64, k64, v64 = (x.astype(np.float64) for x in arrays)
    for place in ((0, 0, 0), (1, 5, 3)):
        moved = [q64.copy(), q64.copy()]
        moved[0][place] += step
        moved[1][place] -= step
        wanted = (reference(moved[0], k64, v64).sum() - reference(moved[1], k64, v64).sum()) / (2 * step)
        np.testing.assert_allclose(found[place], wanted, atol=1e-4)
