"""Tensors inside a function that somebody follows, to trace or to differentiate it: what they have for a buffer."""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn, TypeVar

from hologram.foundation.errors import GradientError, TraceError
from hologram.frontend.complex_numbers import TracedParts
from hologram.frontend.tensor import Tensor
from hologram.machine.layout import Layout

T = TypeVar("T", bound="Inside")


class Held:
    """Stands for the buffer of a tensor that is followed; `who` is the function. Its memory is not for asking."""

    __slots__ = ("executor", "is_part", "who")
    error: ClassVar[type[TraceError | GradientError]]
    asked: ClassVar[str]  # whose memory it is
    kept: ClassVar[str]  # what the function did, of which a tensor was kept
    instead: ClassVar[str] = ""

    def __init__(self, executor: Any, who: str) -> None:
        self.executor = executor
        self.who = who
        self.is_part = False  # of a complex tensor: a copy, where a view is elsewhere

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise self.error(f"{self.who}: {name} is asked of the memory of {self.asked}")

    def check_writable(self, argument: bool, advice: str) -> None:
        """Refuses to write to an argument, or where it would write to a copy alone."""
        if self.is_part:
            raise self.error(
                f"{self.who}: a part of a complex tensor is written to, which is a copy here; make the number of its "
                "parts, hg.complex(real, imag)"
            )
        if argument:
            raise self.error(f"{self.who}: an argument is written to; {advice}")

    @property
    def block(self) -> NoReturn:
        """None is ever launched on: who asks runs outside of the function."""
        raise self.error(
            f"{self.who}: a tensor of its {self.kept} was kept and used after it, or in another thread; return what is "
            f"to be used outside{self.instead}"
        )


class Inside(TracedParts, Tensor):
    """A Tensor of such a function."""

    __slots__ = ()

    def __init__(self, buffer: Held, layout: Layout) -> None:
        super().__init__(buffer, layout)  # type: ignore[arg-type]

    def _view(self: T, layout: Layout) -> T:
        return type(self)(self.buffer, layout)  # type: ignore[arg-type]
