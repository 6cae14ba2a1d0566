"""Scales and activations that are no ordinary numbers: infinite, NaN, denormal, zero; and random shapes."""

from __future__ import annotations

import numpy as np
import pytest

import hologram as hg
from hologram.opset.packed.formats import FORMATS
from hologram.opset.packed.gguf import KINDS
from hologram.opset.packed.repacking import planes_of
from tests.packed.blocks import blocks, reference
from tests.packed.test_products import close, random


def special_blocks(kind: str, shape: tuple[int, int], seed: int) -> np.ndarray:
    data = blocks(np.random.default_rng(seed), kind, *shape, special=True)
    if kind == "MXFP4":  # whose larger exponents make weights that f32 does not hold
        data[:: KINDS[kind].nbytes] %= 200
    half = data.size // 2  # the first rows are ordinary
    data[:half] = blocks(np.random.default_rng(seed), kind, *shape)[:half]
    return data


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [1, 5, 30])
def test_scales_that_are_not_finite_make_results_that_are_not(kind, rows, executor):
    shape = (40, 512)
    data = special_blocks(kind, shape, rows)
    packed, weights = hg.Packed.from_gguf(data, kind, shape, executor), reference(data, kind, shape)
    x, exact = random(executor, rows, shape[1])
    found = hg.linear(x, packed).to_numpy()
    finite = np.isfinite(weights).all(1)
    assert not np.isfinite(found[:, ~finite]).any()
    exact_weights = weights[finite].astype(np.float64)
    wanted = exact @ exact_weights.T
    bound = 2.0**-15 * (np.abs(exact).max() * np.abs(exact_weights).sum(1)) + 1e-37
    assert (np.abs(found[:, finite] - wanted) <= bound).all()
    assert finite.sum() >= 20
    assert finite.sum() < 40 or kind == "MXFP4"  # which has no such scales


def test_denormal_scales_count(executor):
    codes = np.ones((3, 64), np.int8)
    scales = np.full((3, 2), 6e-8, np.float16)
    packed = hg.Packed.from_planes(planes_of(FORMATS["Q8_0"], codes, scales), "Q8_0", (3, 64), executor)
    for rows in (1, 20):
        found = hg.linear(executor.ones((rows, 64)), packed).to_numpy()
        assert np.allclose(found, 64 * float(np.float16(6e-8)), rtol=1e-5, atol=0)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("rows", [1, 3, 40])
def test_activations_that_are_not_finite_spoil_their_row_alone(value, rows, executor):
    data = blocks(np.random.default_rng(1), "Q4_1", 7, 96)
    packed = hg.Packed.from_gguf(data, "Q4_1", (7, 96), executor)
    x = np.random.default_rng(2).normal(0, 1, (rows, 96)).astype(np.float32)
    x[rows // 2, 50] = value
    found = np.isfinite(hg.linear(executor.tensor(x), packed).to_numpy())
    assert not found[rows // 2].any()
    assert found[: rows // 2].all()
    assert found[rows // 2 + 1 :].all()


@pytest.mark.parametrize("scale", [0.0, 1e-42, 1e-25, 1e25])
def test_activations_of_any_magnitude(scale, executor):
    data = blocks(np.random.default_rng(3), "Q6_K", 9, 256)
    packed = hg.Packed.from_gguf(data, "Q6_K", (9, 256), executor)
    x = (np.random.default_rng(4).normal(0, 1, (2, 256)) * scale).astype(np.float32)
    found = hg.linear(executor.tensor(x), packed).to_numpy()
    weights = reference(data, "Q6_K", (9, 256)).astype(np.float64)
    wanted = x.astype(np.float64) @ weights.T
    bound = 2.0**-15 * np.abs(x).max() * np.abs(weights).sum(1) + 1e-33
    assert (np.abs(found - wanted) <= bound).all()


@pytest.mark.parametrize("seed", range(24))
def test_random_shapes(seed, executor):
    rng = np.random.default_rng(seed)
    kind = rng.choice(
        [*KINDS, "int8", "int4g32", "int8g128", "uint4g64", "uint8", "uint4g16", "int4g96", "f8e4m3"]
    )
    size = KINDS[kind].size if kind in KINDS else 32
    n, k, m = (
        int(rng.integers(1, 80)),
        size * int(rng.integers(1, 5)),
        int(rng.choice([1, 2, 3, 4, 6, 7, 9, 16, 17])),
    )
    if kind in KINDS:
        data = blocks(rng, kind, n, k)
        packed = hg.Packed.from_gguf(data, kind, (n, k), executor)
        weights = reference(data, kind, (n, k)).astype(np.float64)
    else:
        packed = hg.Packed.quantize(rng.normal(0, 1, (n, k)), kind, executor)
        weights = packed.dequantize().to_numpy().astype(np.float64)
    x, exact = random(executor, m, k, seed=seed)
    close(hg.linear(x, packed), exact, weights)
