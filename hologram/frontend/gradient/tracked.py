"""Tensors inside a function that is differentiated: what they hold, and which value of the tape it is."""

from __future__ import annotations

from collections.abc import Callable
from operator import index
from typing import Any

from hologram.foundation.errors import GradientError
from hologram.frontend.inside import Held, Inside
from hologram.frontend.tensor import Tensor
from hologram.machine.layout import Layout
from hologram.runtime.dispatch import traced_by


class Variable:
    """A value that cotangents flow to; `layout` is how it lies, without gaps."""

    __slots__ = ("layout",)

    def __init__(self, layout: Layout) -> None:
        self.layout = layout


class Cell(Held):
    """What a tracked tensor has for a buffer: a tensor beneath the tape, another one after it was written to.

    `variable` is None where the value does not depend on what the function is differentiated with respect to.
    """

    __slots__ = ("is_argument", "tape", "tensor", "variable")
    error = GradientError
    asked = "a tensor that is differentiated"
    kept = "making"
    instead = " (has_aux=True)"

    def __init__(
        self, tape: Any, who: str, tensor: Tensor, variable: Variable | None, is_argument: bool = False
    ) -> None:
        super().__init__(tensor.executor, who)
        self.tape = tape
        self.tensor = tensor
        self.variable = variable
        self.is_argument = is_argument


class Tracked(Inside):
    """A Tensor inside a function that is differentiated."""

    __slots__ = ()
    buffer: Cell  # type: ignore[assignment]

    @property
    def beneath(self) -> Tensor:
        """The same elements, as the tape computes on them."""
        return self.buffer.tensor._view(self.layout)

    def _constant(self, what: str) -> Tensor:
        if self.buffer.variable is not None:
            raise GradientError(
                f"{self.buffer.who}: {what} of a tensor that depends on what it is differentiated with respect to has "
                "no derivative: use hg.stop_gradient(x) for a constant, or return the tensor (has_aux=True)"
            )
        return self.beneath

    def __repr__(self) -> str:
        return f"Tensor(differentiated, shape={self.shape}, dtype={self.dtype})"

    def _read(self, what: Callable[[Tensor], Any], tensor: Tensor) -> Any:
        """What is read from a tensor beneath the tape, which must not listen then."""
        with traced_by(self.buffer.tape.outer):
            return what(tensor)

    def to_numpy(self, *, copy: bool = True, out: Any = None) -> Any:
        return self._read(lambda t: t.to_numpy(copy=copy, out=out), self._constant("to_numpy"))

    def _item(self) -> bool | int | float:
        return self._read(lambda t: t.item(), self._constant("item"))

    # Choices and positions are steps, whose derivative is 0.

    def __bool__(self) -> bool:
        return self._read(bool, self.beneath)

    def __int__(self) -> int:
        return self._read(int, self.beneath)

    def __index__(self) -> int:
        return self._read(index, self.beneath)

    def __dlpack__(self, **wishes: Any) -> Any:
        return self._read(lambda t: t.__dlpack__(**wishes), self._constant("the memory"))
