"""Where calls run that have no tensor among their operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from hologram.foundation.dtypes import bool_, f32, u64, weak
from hologram.machine.strided import Strided


class Default:
    """The seam to the default executor, which the frontend opens: it stands above, and says so when it is imported.

    `executor(device)` is the default one for None, else that of a device (its name, or an executor).
    """

    executor: ClassVar[Callable[[Any], Any]]


def filled(executor: Any, number: bool | int | float | complex) -> Any:
    """A number as a tensor without axes; one of a call while a function is traced, which may be another each time."""
    beyond = type(number) is int and number > weak(bool_, number).highest
    return executor.full((), number, u64 if beyond else weak(bool_, number))


def without_numbers(executor: Any, operands: Sequence[Any]) -> list[Any]:
    """Operands with tensors in the places of numbers, floats of the dtype of what stands beside them."""
    known = next((x.dtype for x in operands if isinstance(x, Strided)), f32)

    def made(x: Any) -> Any:
        if isinstance(x, float):
            return executor.full((), x, weak(known, x))
        return filled(executor, x) if isinstance(x, int) else x

    return list(map(made, operands))
