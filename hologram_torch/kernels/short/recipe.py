"""Recipes: what a call of a structure launches, and what its results are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hologram.foundation.frozen import frozen
from hologram.machine.layout import Layout
from hologram.runtime.launches.launcher import Structure
from hologram.runtime.memory.allocation import BufferSpec
from hologram_torch.watch import Complaint

BY_VALUE = object()  # in a recipe's place: its floats are part of the key


@frozen(slots=True)
class Made:
    """A result: what a layout sees of the new buffer of that number; `whole` where it spans all of it."""

    number: int
    layout: Layout
    whole: bool


@frozen(slots=True)
class Same:
    """A result: the tensor among the arguments of that number."""

    number: int


@frozen(slots=True)
class Recipe:
    """What a call launches, if anything, on the tensors' places, new buffers of kinds, its floats and numbers.

    Results are new tensors (Made), tensors among the arguments (Same), or what all such calls give; `form` puts them
    together, None for a single one. `only` is the layout of one that is all there is, and is the first new buffer,
    whole. Floats are arguments of the launch within `bounds`; beyond them PyTorch may refuse them.
    `flags` are numbers of new buffers whose element says that a complaint is due; where one is set, the launch has
    written to no argument.
    """

    engine: Any
    structure: Structure | None
    kinds: tuple[BufferSpec, ...]
    numbers: tuple[Any, ...]
    results: tuple[Any, ...]
    form: Callable[[Sequence[Any]], Any] | None
    only: Layout | None
    index: int
    bounds: tuple[float, float]
    flags: tuple[tuple[int, Complaint], ...]
