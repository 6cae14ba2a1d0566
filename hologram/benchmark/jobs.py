"""Work ready to be timed, and what is wrong with a result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hologram.benchmark.models.declared import Arrays
from hologram.benchmark.timing import NoTime
from hologram.foundation.frozen import frozen

Call = Callable[[], Any]


@frozen
class Job:
    """Work ready to be timed: `call` computes and waits until it is done, `result` gives what it computed, `problem`
    says what is wrong with that, and `dispatches`, where it can be told, how many kernels a call launches.
    """

    call: Call
    result: Callable[[], NDArray[Any]] = lambda: np.empty(0)
    dispatches: Callable[[], int] | None = None
    problem: Callable[[NDArray[Any]], str] = lambda result: ""

    def check(self) -> None:
        """Calls once, and raises NoTime where the result is wrong."""
        self.call()
        if why := self.problem(self.result()):
            raise NoTime(f"wrong result: {why}")


def as_it_is(value: Any) -> Any:
    return value


def off(result: NDArray[Any], wanted: NDArray[Any], tolerance: float = 1e-4, scale: float = 1.0) -> str:
    """What is wrong with a result, nothing if it is right: errors are relative to the value, or to `scale`."""
    if np.shape(result) != np.shape(wanted):
        return f"its shape is {np.shape(result)}, not {np.shape(wanted)}"
    errors = np.abs(np.asarray(result, np.float64) - wanted) / np.maximum(np.abs(wanted), scale)
    worst = float(errors.max(initial=0.0))
    return "" if worst <= tolerance else f"it is off by {worst:.1e}, more than {tolerance:.0e}"


def in_place(
    inputs: Arrays,
    tensors: Sequence[Sequence[Any]],
    write: Callable[[Any, NDArray[Any]], object],
    read: Callable[[Any], NDArray[Any]],
    call: Call,
) -> Job:
    """A step that overwrites lists of tensors, one a row of the inputs, but for the last list; it gives the first's."""

    def result() -> NDArray[Any]:
        for rows, held in zip(list(inputs.values())[:-1], tensors, strict=False):
            for row, tensor in zip(rows, held, strict=True):
                write(tensor, row)
        call()
        return np.array([[read(tensor) for tensor in held] for held in tensors[:-1]])

    return Job(call, result)
