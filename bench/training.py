"""A small training step: a classifier of 64 inputs, 128 hidden units and 10 classes, its gradients written by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

RATE = 0.1
INPUTS, HIDDEN_UNITS, CLASSES = 64, 128, 10

Array = NDArray[np.float32]


def inputs(batch: int, rng: np.random.Generator) -> dict[str, Array]:
    """Examples, their classes as rows of one 1, and parameters."""

    def normal(*shape: int) -> Array:
        return rng.standard_normal(shape, dtype=np.float32) * np.float32(0.1)

    classes = np.eye(CLASSES, dtype=np.float32)[rng.integers(0, CLASSES, batch)]
    w1, w2 = normal(INPUTS, HIDDEN_UNITS), normal(HIDDEN_UNITS, CLASSES)
    return {
        "x": normal(batch, INPUTS),
        "y": classes,
        "w1": w1,
        "b1": normal(HIDDEN_UNITS),
        "w2": w2,
        "b2": normal(CLASSES),
    }


def step(library: Any, x: Any, y: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> tuple[Any, ...]:
    """The parameters after one step down the cross-entropy of softmax, in any array API library; 27 operations."""
    hidden = library.maximum(x @ w1 + b1, 0.0)
    scores = hidden @ w2 + b2
    e = library.exp(scores - library.max(scores, axis=1, keepdims=True))
    d = (e / library.sum(e, axis=1, keepdims=True) - y) * (1.0 / x.shape[0])
    below = (d @ w2.T) * (hidden > 0.0)
    w1, b1 = w1 - RATE * (x.T @ below), b1 - RATE * library.sum(below, axis=0)
    w2, b2 = w2 - RATE * (hidden.T @ d), b2 - RATE * library.sum(d, axis=0)
    return w1, b1, w2, b2


def flat(parameters: Any) -> Any:
    """All parameters in a row."""
    return np.concatenate([np.asarray(p).reshape(-1) for p in parameters])
