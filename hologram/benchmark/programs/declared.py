"""What a program is: how it is built in a place, what each of its steps is given, and how much time it may take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hologram.foundation.frozen import frozen

Array = NDArray[Any]
Arrays = tuple[Array, ...]
Step = Callable[..., Any]


@frozen(eq=False)
class Program:
    """`build(place)` gives the step, a function of arrays; `inputs(random)` are those of one step.

    `limit` is the most that a step may take, in times of its best peer; `parts` says how many times it does what is
    counted: the tokens of a text, say. A step's result may differ from the peer's by `tolerance` of the largest value.
    """

    name: str
    about: str
    build: Callable[[Any], Step]
    inputs: Callable[[np.random.Generator], Arrays]
    limit: float
    parts: int = 1
    tolerance: float = 1e-3
    jitted: bool = False  # functions under `hg.jit`, or JAX's; else PyTorch's modules

    def given(self, number: int) -> Arrays:
        """The inputs of a step, the same for everyone."""
        return self.inputs(np.random.default_rng(number))


def program(
    limit: float, inputs: Callable[[np.random.Generator], Arrays], **more: Any
) -> Callable[[Callable[[Any], Step]], Program]:
    """Makes a function that builds a step in a place a program of its name, described by its docstring."""

    def declare(build: Callable[[Any], Step]) -> Program:
        about = (build.__doc__ or "").partition("\n")[0].rstrip(".")
        return Program(build.__name__.strip("_"), about, build, inputs, limit, **more)

    return declare
