"""A kernel with a gradient, for any dtype of floats, and what it is tried with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

N = 6  # a number of kernels
NEXT = np.array([3, 1, 0, 5, 3, 2], np.int32)


@lru_cache
def made_of(maker: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The maker of a kernel, which makes it once for each dtype."""
    return lru_cache(maker)


@dataclass(frozen=True, eq=False)
class Case:
    """A kernel that takes arguments and, last, the array that it writes."""

    maker: Callable[[Any], Any]
    grid: Any
    shape: tuple[int, ...]
    given: tuple[Any, ...]

    @cached_property
    def name(self) -> str:
        return self.maker.__name__

    @property
    def kernel(self) -> Callable[[Any], Any]:
        return made_of(self.maker)

    def arguments(self) -> list[Any]:
        """Shapes as floats between 0.5 and 1.5; everything else as it is."""
        rng = np.random.default_rng(len(self.name))
        return [0.5 + rng.random(x) if isinstance(x, tuple) else x for x in self.given]


class Cases(list[Case]):
    """Cases in the order in which they are added."""

    def case(self, *given: Any, grid: Any = N, shape: tuple[int, ...] = (N,)) -> Callable[[Any], Any]:
        """Adds a maker's. Each argument is a shape of floats, an array of integers, or a number."""
        return lambda maker: self.append(Case(maker, grid, shape, given)) or maker
