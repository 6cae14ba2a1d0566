"""What a tuner chooses between: ways to run a kernel, and the problems that one choice serves."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from hologram.foundation.dtypes import DType
from hologram.foundation.frozen import frozen


@frozen
class Candidate:
    """One way to run a kernel: its shader's stem, constants of its prelude, threads of a workgroup along x and y.

    `parts` are those a long sum is cut into, to be added up by a launch of its own.
    """

    stem: str
    constants: tuple[tuple[str, int], ...]
    threads: tuple[int, int]
    parts: int = 1

    def constant(self, name: str) -> int:
        return dict(self.constants)[name]

    def __str__(self) -> str:
        shown = [f"{self.threads[0]} x {self.threads[1]} threads"] if any(self.threads) else []
        shown += [f"{name.lower()} {value}" for name, value in self.constants]
        return ", ".join([self.stem, *shown, *([f"{self.parts} parts"] if self.parts > 1 else [])])


@frozen
class Problem:
    """Calls of a kernel that share a choice: sizes up to the same powers of two, operands that lie alike.

    `lines` is what else the kernel tells apart: of a product, whether a and b lie along k.
    """

    kernel: str
    dtype: DType
    asked: tuple[int, ...]  # sizes of one of them
    lines: tuple[bool, ...] = ()

    @functools.cached_property
    def sizes(self) -> tuple[int, ...]:
        """Each a power of two, rounded up."""
        return tuple(1 << max(n - 1, 0).bit_length() for n in self.asked)

    @property
    def _key(self) -> tuple[Any, ...]:
        return self.kernel, self.dtype, self.sizes, self.lines

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Problem) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


# What a plan is handed: the choice for a problem, where one was measured.
Choices = Callable[[Problem], Candidate | None]


def chosen(asked: Problem, ways: Sequence[Candidate], choices: Choices) -> Candidate:
    """The measured way, if it is one of those that a device can go, else the first of them."""
    tuned = choices(asked) if len(ways) > 1 else None
    return tuned if tuned is not None and tuned in ways else ways[0]


def untuned(problem: Problem) -> Candidate | None:
    """No choice was measured."""
    return None
