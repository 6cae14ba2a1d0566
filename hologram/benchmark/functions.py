"""Functions that compilers are given whole, each declared once in a library's words, and what their inputs are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hologram.benchmark.models.declared import Words
from hologram.foundation.frozen import frozen

Array = NDArray[np.float32]
HIDDEN = 1024  # columns between the two layers of mlp
HEADS, FEATURES = 8, 64  # of attention, whose size is the number of queries and keys
TENSORS = 50  # that adam steps; its size is that of one
INPUTS, HIDDEN_UNITS, CLASSES, RATE = 64, 128, 10, 0.1  # of the classifier that training_step trains


@frozen
class Adam:
    """The constants of an Adam step (Kingma and Ba 2015, algorithm 1)."""

    rate: float = 1e-3
    first: float = 0.9  # decay of the gradients' mean
    second: float = 0.999  # decay of the squares' mean
    epsilon: float = 1e-8
    step: int = 10

    @property
    def first_correction(self) -> float:
        return 1 - self.first**self.step

    @property
    def second_correction(self) -> float:
        return 1 - self.second**self.step

    @property
    def size(self) -> float:
        """The rate, corrected: what the quotient is multiplied by."""
        return self.rate / self.first_correction


ADAM = Adam()


def chain(words: Words, a: Any, b: Any) -> Any:
    return words.sigmoid(a * b + a) * words.xp.tanh(b) + words.xp.exp(a)


def mlp(words: Words, x: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
    return words.linear(words.gelu(words.linear(x, w1, b1)), w2, b2)


def adam(words: Words, p: list[Any], m: list[Any], v: list[Any], g: list[Any]) -> tuple[list[Any], ...]:
    """Parameters and both means after a step."""
    m = [ADAM.first * a + (1 - ADAM.first) * b for a, b in zip(m, g, strict=True)]
    v = [ADAM.second * a + (1 - ADAM.second) * (b * b) for a, b in zip(v, g, strict=True)]
    scales = [words.xp.sqrt(b * (1 / ADAM.second_correction)) + ADAM.epsilon for b in v]
    return [a - ADAM.size * b / c for a, b, c in zip(p, m, scales, strict=True)], m, v


def training_step(xp: Any, x: Any, y: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> tuple[Any, ...]:
    """The parameters after one step down the cross-entropy of softmax, in any array API library; 27 operations."""
    hidden = xp.maximum(x @ w1 + b1, 0.0)
    scores = hidden @ w2 + b2
    e = xp.exp(scores - xp.max(scores, axis=1, keepdims=True))
    d = (e / xp.sum(e, axis=1, keepdims=True) - y) * (1.0 / x.shape[0])
    below = (d @ w2.T) * (hidden > 0.0)
    w1, b1 = w1 - RATE * (x.T @ below), b1 - RATE * xp.sum(below, axis=0)
    w2, b2 = w2 - RATE * (hidden.T @ d), b2 - RATE * xp.sum(d, axis=0)
    return w1, b1, w2, b2


def flat(parameters: Any) -> Any:
    """All parameters in a row."""
    return np.concatenate([np.asarray(p).reshape(-1) for p in parameters])


def two_layers(side: int, rng: np.random.Generator) -> dict[str, Array]:
    """A batch as long as its rows, and weights that keep the size of what passes them."""

    def layer(rows: int, columns: int) -> Array:
        return rng.standard_normal((rows, columns), dtype=np.float32) / np.float32(math.sqrt(rows))

    b1, b2 = (rng.standard_normal(size, dtype=np.float32) for size in (HIDDEN, side))
    x = rng.standard_normal((side, side), dtype=np.float32)
    return {"x": x, "w1": layer(side, HIDDEN), "b1": b1, "w2": layer(HIDDEN, side), "b2": b2}


def parameters(size: int, rng: np.random.Generator) -> dict[str, Array]:
    """Parameters, both running means, and gradients, a row a tensor."""
    p, g, m, v = (rng.standard_normal((TENSORS, size), dtype=np.float32) for _ in range(4))
    return {"p": p, "m": m * np.float32(0.1), "v": v * v, "g": g}


def examples(batch: int, rng: np.random.Generator) -> dict[str, Array]:
    """Examples of the classifier, their classes as rows of one 1, and its parameters."""

    def normal(*shape: int) -> Array:
        return rng.standard_normal(shape, dtype=np.float32) * np.float32(0.1)

    classes = np.eye(CLASSES, dtype=np.float32)[rng.integers(0, CLASSES, batch)]
    w1, w2 = normal(INPUTS, HIDDEN_UNITS), normal(HIDDEN_UNITS, CLASSES)
    x, b1 = normal(batch, INPUTS), normal(HIDDEN_UNITS)
    return {"x": x, "y": classes, "w1": w1, "b1": b1, "w2": w2, "b2": normal(CLASSES)}
