"""Tensors without elements: they know shape and dtype, and what is done to them is recorded."""

from __future__ import annotations

from typing import Any, NoReturn

from hologram.foundation.errors import TraceError
from hologram.frontend.inside import Held, Inside
from hologram.frontend.jit.number import TracedNumber
from hologram.frontend.tensor import full
from hologram.machine.layout import Layout
from hologram.runtime.engine import Engine


class Storage(Held):
    """What a traced tensor has for a buffer: the number of its value, which changes when it is written to.

    `trace` is the one that it belongs to.
    """

    __slots__ = ("is_input", "layout", "trace", "value")
    error = TraceError
    asked = "a traced tensor, which has none before the function runs"
    kept = "trace"

    def __init__(
        self, executor: Engine, trace: object, who: str, value: int | None, layout: Layout, is_input: bool
    ) -> None:
        super().__init__(executor, who)
        self.trace = trace
        self.value = value
        self.layout = layout
        self.is_input = is_input

    @property
    def shape(self) -> tuple[int, ...]:
        return self.layout.shape

    @property
    def size(self) -> int:
        return self.layout.size


class Traced(Inside):
    """A Tensor inside a function that is being traced."""

    __slots__ = ()
    buffer: Storage  # type: ignore[assignment]

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(value, TracedNumber):
            number: Any = value  # it passes for one
            value = full(self.executor, (), number, self.dtype)
        super().__setitem__(index, value)

    def __repr__(self) -> str:
        return f"Tensor(traced, shape={self.shape}, dtype={self.dtype})"

    def _unknown(self, what: str, instead: str) -> NoReturn:
        raise TraceError(
            f"{self.buffer.who}: {what} of a traced tensor of shape {self.shape} and dtype {self.dtype} cannot be told "
            f"before the function runs; {instead}"
        )

    def to_numpy(self, *, copy: bool = True, out: Any = None) -> NoReturn:
        self._unknown("the elements", "return the tensor and read it outside")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        self._unknown("the elements", "use hg functions instead of NumPy's, or return the tensor")

    def _item(self) -> NoReturn:
        self._unknown("the value", "compute with the tensor itself, or return it")

    def tolist(self) -> NoReturn:
        self._unknown("the elements", "return the tensor and read it outside")

    def __bool__(self) -> NoReturn:  # noqa: PLE0304  (it raises)
        self._unknown(
            "the truth",
            "choose with hg.where instead of `if`, loop a fixed number of times, or make what it depends on a Python "
            "argument",
        )

    def __int__(self) -> NoReturn:
        self._unknown("the value", "compute with the tensor itself, or pass the number as a Python argument")

    def __float__(self) -> NoReturn:
        self._unknown("the value", "compute with the tensor itself, or pass the number as a Python argument")

    def __index__(self) -> NoReturn:  # noqa: PLE0305  (it raises)
        self._unknown("the value", "pass the index as a Python argument, or use hg.index_select")

    def __dlpack__(self, **wishes: Any) -> NoReturn:
        self._unknown("the memory", "return the tensor and hand it on outside")
