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
from hologram.opset.tiles import attention

SHAPES = {  # of queries, keys and values, the mask
    "no batch": ((50, 8), (37, 8), (37, 5), (50, 37)),
    "heads": ((3, 50, 8), (3, 37, 8), (3, 37, 8), (1, 37)),
    "shared keys": ((2, 4, 33, 8), (2, 1, 70, 8), (2, 1, 70, 8), (2, 1, 33, 70)),
    "many axes": ((2, 1, 3, 20, 4), (2, 2, 3, 41, 4), (2, 2, 1, 41, 6), (2, 1, 1, 20, 1)),
    "few rows": ((7, 2, 8), (7, 90, 8), (7, 90, 8), (7, 1, 90)),
}


@pytest.mark.parametrize("block", [64, 1000, 100_000])
@pytest.mark.parametrize("masked", ["", "bool", "float"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", SHAPES)
def test_blocks_give_the_same(
    name: str, causal: bool, masked: str, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for constant, value in (("MANY_BYTES", 0), ("BLOCK_BYTES", block), ("LEAST_ROWS", 3)):
        monkeypatch.setattr(attention, constant, value)
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


def test_the_gradient_s_kernels_are_for_the_device_that_plans_ask_about(executor: hg.Executor) -> None:
    """A target of matrix units has them, whatever the executor's own device is."""
    q = executor.zeros((2, 3, 64, 64), "f16")
    target = executor.target
    try:
        executor.target = replace(target, limits=replace(target.limits, copies_ahead=False))
        assert not attention_gradient.taken(q, q, q, q, ("q",))
        executor.target = replace(target, limits=cuda.reference_limits())
        assert attention_gradient.taken(q, q, q, q, ("q",))
    finally:
        executor.target = target
