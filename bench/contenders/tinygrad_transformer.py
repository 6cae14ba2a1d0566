"""The training step of bench.torch_training in tinygrad, on its WEBGPU device: one TinyJit with AdamW of its own."""

# pyright: reportMissingImports=false, reportPrivateImportUsage=false

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from tinygrad import Context, Tensor, TinyJit
from tinygrad.nn.optim import AdamW

from bench.contenders import with_tinygrad  # noqa: F401  (it chooses the device before tinygrad is imported)

Weights = Mapping[str, Any]


def _linear(x: Any, weights: Weights, name: str) -> Any:
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def _norm(x: Any, weights: Weights, name: str) -> Any:
    return x.layernorm(eps=1e-5) * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def _block(x: Any, weights: Weights, name: str, heads: int) -> Any:
    batch, tokens, width = x.shape
    three = _linear(_norm(x, weights, f"{name}.before"), weights, f"{name}.attend")
    q, k, v = (each.reshape(batch, tokens, heads, -1).transpose(1, 2) for each in three.split(width, dim=2))
    seen = q.scaled_dot_product_attention(k, v, is_causal=True)
    x = x + _linear(seen.transpose(1, 2).reshape(batch, tokens, width), weights, f"{name}.join")
    wide = _linear(_norm(x, weights, f"{name}.between"), weights, f"{name}.widen").gelu()
    return x + _linear(wide, weights, f"{name}.narrow")


def step(
    arrays: Mapping[str, np.ndarray], layers: int, heads: int, tokens: np.ndarray, targets: np.ndarray
) -> Callable[[], float]:
    """A step of training from the weights of bench.torch_training's Transformer; it gives the loss."""
    weights = {name: Tensor(array).realize() for name, array in arrays.items() if name != "head.weight"}
    x, y = Tensor(tokens.astype(np.int32)).realize(), Tensor(targets.astype(np.int32)).realize()
    places = Tensor(np.arange(tokens.shape[1], dtype=np.int32)).realize()
    optimiser = AdamW(list(weights.values()), lr=1e-3, weight_decay=0.01)

    @TinyJit
    def updated() -> Any:
        with Context(TRAINING=1):
            optimiser.zero_grad()
            h = weights["token.weight"][x] + weights["place.weight"][places]
            for k in range(layers):
                h = _block(h, weights, f"blocks.{k}", heads)
            scores = _norm(h, weights, "last") @ weights["token.weight"].T
            loss = scores.flatten(0, 1).sparse_categorical_crossentropy(y.flatten()).backward()
            return loss.realize(*optimiser.schedule_step())

    return lambda: updated().item()
