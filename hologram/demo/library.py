"""An array library the demo's work is written for: hologram on some backend, or NumPy, by the same names."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

import hologram as hg
from hologram.foundation.frozen import frozen


@frozen
class Library:
    """The functions of the Python array API standard, and what the two libraries do not share."""

    name: str
    functions: Any  # the module: hologram or numpy
    asarray: Callable[[np.ndarray], Any]
    # A step with gradients, which replaces its first two arguments; None: it has neither gradients nor a compiler.
    compiled: Callable[[Callable[..., Any]], Callable[..., Any]] | None


def numpy_library() -> Library:
    return Library("NumPy", np, np.asarray, None)


def hologram_library(executor: hg.Executor) -> Library:
    compiled = cache(partial(hg.jit, donate=(0, 1)))
    return Library(f"hologram {executor.backend}", hg, executor.tensor, compiled)
