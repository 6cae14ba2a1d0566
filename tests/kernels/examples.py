"""Cases that compute something in the manner of others' examples, beside NumPy or plain Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import hologram as hg

Pair = tuple[Any, Any]  # what a device computes, and what is right
Case = Callable[[hg.Executor], Pair]


class Cases(dict[str, Case]):
    """Cases by their names."""

    def case(self, function: Case) -> Case:
        """Adds a function under its name."""
        self[function.__name__] = function
        return function


def check(case: Case, executor: hg.Executor) -> None:
    """Raises AssertionError unless a device computes what is right."""
    found, want = case(executor)
    np.testing.assert_allclose(np.asarray(found, np.float64), np.asarray(want), rtol=2e-4, atol=2e-4)
