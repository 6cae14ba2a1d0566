"""What an expression of a kernel can be while it is compiled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from hologram.atlas.builder import Value
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.foundation.frozen import frozen


@frozen(eq=False)
class Number:
    """A number that is known when the kernel runs.

    `place` is the same number as an `index`, where it is made of coordinates, sizes and counters: what memory is
    addressed by. `positive` says that it is never below 0.
    """

    value: Value
    place: Value | None = None
    positive: bool = False

    @property
    def dtype(self) -> DType:
        return self.value.dtype


@frozen(eq=False)
class Literal:
    """A number that is known when the kernel is compiled; it takes the dtype of what it meets."""

    number: bool | int | float


@frozen(eq=False)
class Several:
    """A few values: a tuple, a vector or a dataclass, which `kind` makes of its parts."""

    kind: type
    names: tuple[str, ...]  # of the parts; of a tuple none
    items: tuple[Any, ...]

    def remade(self, items: Sequence[Any]) -> Several:
        return Several(self.kind, self.names, tuple(items))


@frozen(eq=False)
class Array:
    """Memory: an argument, or an array that a lane or its workgroup has."""

    name: str  # in the program
    dtype: DType
    shape: tuple[Any, ...]  # Numbers or Literals
    space: str  # "buffer", "shared" or "local"
    called: str  # in the source


@frozen(eq=False)
class Static:
    """Any other Python object, known when the kernel is compiled: a function, a module, a dtype."""

    value: Any


@frozen(eq=False)
class Method:
    """A method of a value."""

    owner: Any
    name: str


@frozen(eq=False)
class Unset:
    """A variable that some way to here has not assigned."""

    why: str


def several(kind: type, items: Sequence[Any]) -> Several:
    """Parts as a tuple, a vector or a dataclass."""
    if is_dataclass(kind):
        return Several(kind, tuple(f.name for f in fields(kind)), tuple(items))
    return Several(kind, tuple(getattr(kind, "NAMES", ())), tuple(items))


def default_dtype(number: bool | int | float) -> DType:
    """The dtype of a number that meets no other."""
    if isinstance(number, bool):
        return dtypes.bool_
    if isinstance(number, float):
        return dtypes.f32
    return dtypes.i32 if dtypes.i32.lowest <= number <= dtypes.i32.highest else dtypes.i64


def leaves(value: Any) -> Iterator[Any]:
    """The parts of a value that have no parts."""
    if isinstance(value, Several):
        for item in value.items:
            yield from leaves(item)
    else:
        yield value


def rebuilt(like: Any, parts: Iterator[Any]) -> Any:
    """A value of the same form from other parts."""
    if isinstance(like, Several):
        return like.remade([rebuilt(item, parts) for item in like.items])
    return next(parts)


def spelled(value: Any) -> str:
    """What a value is, in an error's words."""
    if isinstance(value, Number):
        return str(value.dtype)
    if isinstance(value, Literal):
        return repr(value.number)
    if isinstance(value, Several):
        inner = ", ".join(map(spelled, value.items))
        return f"{'' if value.kind is tuple else value.kind.__name__}({inner})"
    if isinstance(value, Array):
        return f"array of {value.dtype} with {len(value.shape)} axes"
    if isinstance(value, Static):
        shown = getattr(value.value, "__name__", None) or repr(value.value)
        return f"{type(value.value).__name__} {shown}"
    return "something unset" if isinstance(value, Unset) else type(value).__name__.lower()
