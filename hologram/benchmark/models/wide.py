"""Functions in NumPy and double precision, which references are made of."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray


def erf(x: NDArray[Any]) -> NDArray[Any]:
    """NumPy has none: SciPy's, or Python's one by one."""
    return _erf()(x)


@cache
def _erf() -> Callable[[NDArray[Any]], NDArray[Any]]:
    try:
        from scipy import special
    except ImportError:
        return np.vectorize(math.erf, otypes=[np.float64])
    return special.erf


def wide_gelu(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(x * 0.5 * (1.0 + erf(x / math.sqrt(2.0))))


def wide_softmax(x: NDArray[np.float64]) -> NDArray[np.float64]:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)
