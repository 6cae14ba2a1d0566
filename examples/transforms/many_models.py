"""Many small models trained at once: the gradient of each one's loss, as one program.

python examples/transforms/many_models.py webgpu
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import hologram as hg


def loss(inner: Any, outer: Any, x: Any, y: Any) -> Any:
    """The mean square error of one model, tanh(x @ inner) @ outer, on its own examples (n, features)."""
    return hg.mean((hg.tanh(x @ inner) @ outer - y) ** 2)


# The gradients by `inner` and `outer` of each model, over the first axis of all arguments.
slopes = hg.jit(hg.vmap(hg.grad(loss, argnums=(0, 1))))


def inputs(models: int, examples: int = 32, features: int = 8, hidden: int = 16) -> tuple[np.ndarray, ...]:
    """Weights of each model, and its examples, whose targets are sums of features."""
    rng = np.random.default_rng(0)
    shapes = (models, features, hidden), (models, hidden), (models, examples, features)
    inner, outer, x = (rng.standard_normal(shape, dtype=np.float32) * 0.5 for shape in shapes)
    return inner, outer, x, x.sum(axis=-1)


if __name__ == "__main__":
    ex = hg.Executor(*sys.argv[1:])
    inner, outer, x, y = map(ex.tensor, inputs(1000))
    losses = hg.jit(hg.vmap(loss))
    print(f"1,000 models: a mean loss of {losses(inner, outer, x, y).mean().item():.3f}", end=", ")
    for _ in range(200):
        first, second = slopes(inner, outer, x, y)
        inner, outer = inner - 0.05 * first, outer - 0.05 * second
    print(f"after 200 steps of {losses(inner, outer, x, y).mean().item():.3f}")
