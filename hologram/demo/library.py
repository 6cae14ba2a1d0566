"""An array library the demo's work is written for: hologram on some backend, or NumPy, by the same names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import hologram as hg


@dataclass(frozen=True)
class Library:
    """The functions of the Python array API standard, and what the two libraries do not share."""

    name: str
    functions: Any  # the module: hologram or numpy
    asarray: Callable[[np.ndarray], Any]
    softmax: Callable[[Any], Any]  # along the last axis


def numpy_library() -> Library:
    return Library("NumPy", np, np.asarray, _numpy_softmax)


def hologram_library(executor: hg.Executor) -> Library:
    return Library(f"hologram {executor.backend}", hg, executor.tensor, partial(hg.softmax, dim=-1))


def _numpy_softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return powers / np.sum(powers, axis=-1, keepdims=True)
