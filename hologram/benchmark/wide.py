"""Functions in NumPy and double precision, which references are made of."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray


def wide_gelu(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(x * 0.5 * (1.0 + np.vectorize(math.erf, otypes=[np.float64])(x / math.sqrt(2.0))))


def wide_softmax(x: NDArray[np.float64]) -> NDArray[np.float64]:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)
