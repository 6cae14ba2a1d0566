"""Reaches into PyTorch's private parts: each is checked when it is made, and has a plain way beside it.

PyTorch promises nothing about these parts. Where one is not as a reach expects it, the plain way gives the same
results, slower, or does without something that the reach says. `hologram doctor --torch` prints every reach.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TypeVar

T = TypeVar("T")
VARIABLE = (
    "HOLOGRAM_TORCH_WITHOUT"  # read here: loading the table of knobs would load NumPy with `import torch`
)
ALL = "all"


class Unlike(Exception):
    """A private part is not as a reach expects it."""


# What a part that moved, or is another, shows itself by.
MISMATCHES = (
    AttributeError,
    ImportError,
    LookupError,
    OSError,
    TypeError,
    ValueError,
    NotImplementedError,
    Unlike,
)


@dataclass
class Reach:
    """A private part of PyTorch's: what it is, and what happens where it is not as expected."""

    name: str
    part: str
    otherwise: str
    problem: str = ""  # empty: the part is as expected


REACHES: dict[str, Reach] = {}  # those made so far


def reach(name: str, part: str, otherwise: str, find: Callable[[], T], plain: T) -> T:
    """Returns what `find` gives, or `plain` where PyTorch's part is not as expected; notes which in REACHES.

    `find` looks the part up, or changes it. It raises one of MISMATCHES before it changes anything.
    """
    made = REACHES[name] = Reach(name, part, otherwise)
    if left_out(name):
        made.problem = f"left out by {VARIABLE}"
        return plain
    try:
        return find()
    except MISMATCHES as error:
        made.problem = str(error) or type(error).__name__
        return plain


def left_out(name: str) -> bool:
    """Whether the environment variable names a reach: by its name, or by "all" without the name behind a minus."""
    words = {word.strip().lower() for word in os.environ.get(VARIABLE, "").split(",")}
    return name.lower() in words or (ALL in words and f"-{name}".lower() not in words)


def expect(holds: bool, what: str) -> None:
    """Raises Unlike, with what was expected, unless it holds."""
    if not holds:
        raise Unlike(what)


def settle(name: str, part: str, otherwise: str, module: str) -> None:
    """A reach by a module of ours that has private parts among its imports: loads it and calls its `settle`."""
    reach(name, part, otherwise, lambda: import_module(f"hologram_torch.{module}").settle(), None)
