"""How long the gradient of each example alone is, as private learning and the search for odd examples want to know.

python examples/transforms/per_example.py webgpu
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import hologram as hg


def loss(inner: Any, outer: Any, x: Any, y: Any) -> Any:
    """The square error of tanh(x @ inner) @ outer, for one example x (features,)."""
    return (hg.tanh(x @ inner) @ outer - y) ** 2


@hg.jit
def lengths(inner: Any, outer: Any, x: Any, y: Any) -> Any:
    """The norms (n,) of the gradients by all weights, of n examples."""
    each = hg.vmap(hg.grad(loss, argnums=(0, 1)), in_axes=(None, None, 0, 0))
    first, second = each(inner, outer, x, y)
    return hg.sqrt(hg.sum(first**2, axis=(1, 2)) + hg.sum(second**2, axis=1))


def inputs(examples: int, features: int = 32, hidden: int = 64) -> tuple[np.ndarray, ...]:
    """Weights, and examples of which the first is not like the others."""
    rng = np.random.default_rng(0)
    inner = rng.standard_normal((features, hidden), dtype=np.float32) / np.float32(features**0.5)
    outer = rng.standard_normal(hidden, dtype=np.float32) / np.float32(hidden**0.5)
    x = rng.standard_normal((examples, features), dtype=np.float32)
    y = np.tanh(x @ inner) @ outer
    y[0] += 10
    return inner, outer, x, y


if __name__ == "__main__":
    ex = hg.Executor(*sys.argv[1:])
    found = lengths(*map(ex.tensor, inputs(256))).to_numpy()
    print(f"the longest gradient is that of example {found.argmax()}: {found.max():.1f}")
