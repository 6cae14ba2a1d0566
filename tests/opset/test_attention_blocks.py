"""Attention of many scores on the CPU, which goes by blocks that stay in a core's cache."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.backends import cuda
from hologram.opset import OPERATIONS
from hologram.opset.neural import attention_gradient
from hologram.opset.tiles.attention import blocks

SHAPES = {  # of queries, keys and values, the mask
    "no batch": ((50, 8), (37, 8), (37, 5), (50, 37)),
    "heads": ((3, 50, 8), (3, 37, 8), (3, 37, 8), (1, 37)),
    "shared keys": ((2, 4, 33, 8), (2, 1, 70, 8), (2, 1, 70, 8), (2, 1, 33, 70)),
    "many axes": ((2, 1, 3, 20, 4), (2, 2, 3, 41, 4), (2, 2, 1, 41, 6), (2, 1, 1, 20, 1)),
    "few rows": ((7, 2, 8), (7, 90, 8), (7, 90, 8), (7, 1, 90)),
}


def by_blocks(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    settings = {"MOST_BLOCKS": 0, "BLOCK_BYTES": block, "BLOCK_BYTES_OF_GPUS": block, "LEAST_ROWS": 3}
    for constant, value in settings.items():
        monkeypatch.setattr(blocks, constant, value)


@pytest.mark.parametrize("block", [64, 1000, 100_000])
@pytest.mark.parametrize("masked", ["", "bool", "float"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", SHAPES)
def test_blocks_give_the_same(
    name: str, causal: bool, masked: str, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_blocks(monkeypatch, block)
    rng = np.random.default_rng(len(name))
    *operands, of_mask = (rng.standard_normal(shape).astype(np.float32) for shape in SHAPES[name])
    mask: Any = None
    if masked:
        mask = of_mask > -0.5 if masked == "bool" else np.where(of_mask > 1, -np.inf, of_mask)
    with hg.Executor("cpu") as executor:  # one of its own: plans are kept
        tensors = [executor.tensor(x) for x in operands]
        given = () if mask is None else (executor.tensor(mask),)
        found = hg.scaled_dot_product_attention(*tensors, *given, causal=causal).to_numpy()
    exact = (x.astype(np.float64) for x in operands)
    wanted = OPERATIONS["scaled_dot_product_attention"].reference(*exact, mask, causal=causal)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("block", [64, 3000, 100_000])
@pytest.mark.parametrize("masked", ["", "bool", "float"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", SHAPES)
def test_blocks_give_the_same_gradients(
    name: str, causal: bool, masked: str, block: int, executor: hg.Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_blocks(monkeypatch, block)
    rng = np.random.default_rng(len(name))
    *operands, of_mask = (rng.standard_normal(shape).astype(np.float32) for shape in SHAPES[name])
    mask: Any = None
    if masked:
        mask = of_mask > -0.5 if masked == "bool" else np.where(of_mask > 1, -np.inf, of_mask)
    batch = np.broadcast_shapes(*(x.shape[:-2] for x in operands))
    cotangent = rng.standard_normal((*batch, operands[0].shape[-2], operands[2].shape[-1])).astype(np.float32)
    with hg.Executor(executor.backend) as ex:  # one of its own: plans are kept
        tensors = [ex.tensor(x) for x in operands]
        given = () if mask is None else (ex.tensor(mask),)

        def loss(*tensors: Any) -> Any:
            y = hg.scaled_dot_product_attention(*tensors, *given, causal=causal)
            return hg.sum(y * ex.tensor(cotangent))

        found = [g.to_numpy() for g in hg.grad(loss, argnums=(0, 1, 2))(*tensors)]
    for mine, theirs in zip(found, by_hand(operands, mask, cotangent, causal), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-3, atol=2e-5)


def by_hand(operands: Any, mask: Any, cotangent: Any, causal: bool) -> list[np.ndarray]:
    """The cotangents of q, k and v in f64, summed to their shapes."""
    q, k, v = (x.astype(np.float64) for x in operands)
    scale = 1 / np.sqrt(q.shape[-1])
    scores = q @ np.swapaxes(k, -1, -2) * scale
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isneginf(top), 0, top))
    total = weights.sum(-1, keepdims=True)
    weights /= np.where(total == 0, 1, total)
    of_weights = cotangent @ np.swapaxes(v, -1, -2)
    of_scores = weights * (of_weights - (weights * of_weights).sum(-1, keepdims=True)) * scale
    grown = (of_scores @ k, np.swapaxes(of_scores, -1, -2) @ q, np.swapaxes(weights, -1, -2) @ cotangent)
    results = []
    for x, like in zip(grown, operands, strict=True):
        full = (1,) * (x.ndim - like.ndim) + like.shape
        axes = tuple(n for n, (a, b) in enumerate(zip(x.shape, full, strict=True)) if a != b)
        results.append(x.sum(axes, keepdims=True).reshape(like.shape))
    return results


def test_the_gradient_s_kernels_are_for_the_device_that_plans_ask_about(executor: hg.Executor) -> None:
    """A target of matrix units has them, whatever the executor's own device is."""
    q = executor.zeros((2, 3, 64, 64), "f16")
    target = executor.target
    try:
        executor.target = replace(target, limits=replace(target.limits, copies_ahead=False))
        assert not attention_gradient.taken(q, q, q, q, ("q",), plain=True)
        executor.target = replace(target, limits=cuda.reference_limits())
        assert attention_gradient.taken(q, q, q, q, ("q",), plain=True)
    finally:
        executor.target = target


def test_memory_of_a_training_step_is_linear_in_the_length() -> None:
    def peak(length: int) -> int:
        with hg.Executor("cpu") as ex:
            q, k, v = (ex.tensor(np.zeros((1, length, 16), np.float32)) for _ in range(3))
            hg.grad(lambda *x: hg.sum(hg.scaled_dot_product_attention(*x, causal=True)), argnums=(0, 1, 2))(
                q, k, v
            )
            return ex.memory_stats()["peak"]

    peaks = [peak(length) for length in (2048, 4096, 8192)]
    assert peaks[2] - peaks[1] < 3 * (peaks[1] - peaks[0]), (
        peaks
    )  # four times, were a matrix of them all kept
    assert peaks[2] < 8192 * 8192 * 2, peaks
