"""Attention of heads that share keys, which are not repeated for them: results, gradients and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.foundation.errors import ShapeError
from hologram.opset import OPERATIONS
from tests.opset.test_attention_blocks import by_blocks, by_hand

pytestmark = pytest.mark.sampled(3)

OF_MASKS = {"none": None, "pairs": (33, 41), "one": (2, 1, 33, 41), "heads": (6, 1, 41)}


@pytest.mark.parametrize("block", [64, 3000, 100_000])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("of_mask", OF_MASKS)
def test_heads_that_share_keys(
    of_mask: str,
    causal: bool,
    turned: bool,
    block: int,
    executor: hg.Executor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    by_blocks(monkeypatch, block)
    rng = np.random.default_rng(block)
    shapes = ((2, 6, 33, 8), (2, 2, 41, 8), (2, 2, 41, 5))
    operands = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    cotangent = rng.standard_normal((2, 6, 33, 5)).astype(np.float32)
    shape = OF_MASKS[of_mask]
    mask = None if shape is None else rng.random(shape) < 0.7
    with hg.Executor(executor.backend) as ex:  # one of its own: plans are kept
        tensors = [ex.tensor(x) for x in operands]
        if turned:  # positions first, then heads
            tensors = [ex.tensor(np.swapaxes(x, 1, 2).copy()).permute((0, 2, 1, 3)) for x in operands]
        given = () if mask is None else (ex.tensor(mask),)

        def attend(*tensors: Any) -> Any:
            return hg.scaled_dot_product_attention(*tensors, *given, causal=causal, enable_gqa=True)

        found = attend(*tensors).to_numpy()
        loss = hg.grad(lambda *x: hg.sum(attend(*x) * ex.tensor(cotangent)), argnums=(0, 1, 2))
        gradients = [g.to_numpy() for g in loss(*tensors)]
    exact = [x.astype(np.float64) for x in operands]
    wanted = OPERATIONS["scaled_dot_product_attention"].reference(
        *exact, mask, causal=causal, enable_gqa=True
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    q, k, v = (x.reshape((2, 2, n, *x.shape[2:])) for x, n in zip(operands, (3, 1, 1), strict=True))
    if mask is not None and shape is not None:
        mask = np.broadcast_to(mask, (*np.broadcast_shapes(shape[:-2], (2, 6)), *shape[-2:]))
        mask = mask.reshape((2, 2, 3, *mask.shape[-2:]))
    slopes = by_hand((q, k, v), mask, cotangent.reshape((2, 2, 3, *cotangent.shape[2:])), causal)
    for mine, theirs in zip(gradients, slopes, strict=True):
        np.testing.assert_allclose(mine, theirs.reshape(mine.shape), rtol=1e-3, atol=2e-5)


@pytest.mark.parametrize(
    "shapes",
    [
        ((2, 5, 8), (2, 5, 8), (1, 5, 8)),
        ((3, 5, 8), (2, 5, 8), (2, 5, 8)),
        ((5, 8), (5, 8), (5, 8)),
        ((0, 5, 8), (0, 5, 8), (0, 5, 8)),
    ],
)
def test_heads_that_cannot_share_are_refused(shapes: Any, executor: hg.Executor) -> None:
    given = [executor.zeros(shape) for shape in shapes]
    with pytest.raises(ShapeError, match="enable_gqa needs"):
        hg.scaled_dot_product_attention(*given, enable_gqa=True)


@pytest.mark.parametrize("heads", [2, 3, 16])
@pytest.mark.parametrize("name", ["mask", "lengths", "slopes", "sinks"])
def test_numbers_of_other_heads_are_refused(name: str, heads: int, executor: hg.Executor) -> None:
    """2 heads with keys of their own and 8 that share them: neither 2 nor 3 masks are one for each."""
    q, k = executor.zeros((1, 8, 4, 16)), executor.zeros((1, 2, 6, 16))
    shape, dtype = (heads, 4, 6) if name == "mask" else (heads,), "i32" if name == "lengths" else "f32"
    given: Any = {name: executor.zeros(shape, dtype)}
    with pytest.raises(ShapeError, match=f"the {name} must be of one head or of 8, got {heads}"):
        hg.scaled_dot_product_attention(q, k, k, **given, enable_gqa=True)


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_memory_of_a_training_step_is_linear_in_the_length(dtype: str) -> None:
    """Of 4 heads that share 2 keys: scores of all would be 16, 64 and 256 MiB in f32."""

    def peak(length: int) -> int:
        with hg.Executor("cpu") as ex:
            q, k, v = (ex.zeros((heads, length, 32), dtype) for heads in (4, 2, 2))
            attend = lambda *x: hg.scaled_dot_product_attention(*x, causal=True, enable_gqa=True)  # noqa: E731
            hg.grad(lambda *x: hg.sum(attend(*x)), argnums=(0, 1, 2))(q, k, v)
            return ex.memory_stats()["peak"]

    peaks = [peak(length) for length in (1024, 2048, 4096)]
    assert peaks[2] < 32 << 20, peaks
    assert peaks[2] - peaks[1] < 3 * max(peaks[1] - peaks[0], 1 << 20), peaks
