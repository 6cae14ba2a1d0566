"""Kernels, what they are bound to, and the launches that come of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from hologram.atlas.program import Launchable
from hologram.foundation.dtypes import Number
from hologram.foundation.errors import ShapeError
from hologram.foundation.frozen import frozen

T = TypeVar("T")


@frozen(slots=True)
class Binding:
    """Bytes of a memory that a launch binds to one parameter."""

    memory: Any  # the backend's own handle
    offset: int  # bytes, a multiple of 256
    nbytes: int


Bindings = Sequence[Binding]
Scalars = Sequence[Number]
Launch = Callable[[], Any]


# A launch that is told at the call where its operands lie: a list of places (see Device.place), and of numbers where
# the plan left some open (plan.Given).
Prepared = Callable[[list[Any]], Any]


@frozen(slots=True)
class Area:
    """Bytes that begin `first` bytes behind the place that is argument number `argument`."""

    argument: int
    first: int
    nbytes: int


@frozen
class Call:
    """A step of a plan, compiled: what it is launched with, and where in the arguments its operands lie."""

    kernel: Kernel
    areas: tuple[Area, ...]
    scalars: tuple[Number, ...]
    grid: tuple[int, ...]

    def spans(self, arguments: Sequence[Any]) -> list[Span]:
        """Its operands' memory, as arguments say."""
        return [(arguments[a.argument] + a.first, a.nbytes) for a in self.areas]


Span = tuple[int, int]  # a place, and bytes from there on


@frozen
class Draft:
    """A launch of words, which may be those of other sizes when it is finished; what depends on sizes is in them."""

    words: tuple[int, ...]
    finish: Callable[[Sequence[int]], Prepared]

    def launch(self) -> Prepared:
        """The launch of its own words."""
        return self.finish(self.words)


@frozen
class Repetition:
    """How a launch is repeated: as often as argument `times` says, while the byte at the place `flag` is not 0.

    From one turn to the next the places that `strides` names move on by so many bytes.
    """

    times: int
    flag: int | None
    strides: Mapping[int, int]


class Places(Protocol):
    """What knows the memory behind places: an executor's pool."""

    def find(self, place: int) -> tuple[Any, int]:
        """The memory and the offset that a place stands for."""
        ...

    def with_room(self, call: Callable[..., T], *arguments: Any) -> T:
        """Calls what takes memory of the device's; once more with the caches released, where there was no room."""
        ...


class Kernel(ABC):
    """Compiled code."""

    @abstractmethod
    def bind(self, bindings: Sequence[Binding], scalars: Sequence[Number], grid: Sequence[int]) -> Launch:
        """A call without arguments that enqueues the kernel.

        For a Program, `grid` is the size of every axis, in elements; for a Tile, workgroups along x, y and z. The
        launch keeps the memories alive.
        """

    @abstractmethod
    def source(self, grid: Sequence[int], scalars: Sequence[Number] = ()) -> str:
        """The text that a launch over this grid is compiled from; see Device.source."""

    def workgroups(self, grid: Sequence[int]) -> int | None:
        """How many workgroups a launch over this grid takes; None where the device has no such thing."""
        return None

    def schedule(self, spans: Sequence[Span], scalars: Sequence[Number], grid: Sequence[int]) -> str:
        """How that launch maps to threads, in a few words, where there is a choice; see bind."""
        return ""


def check_bindings(kernel: Launchable, bindings: Sequence[Binding], alignment: int) -> None:
    """Raises ShapeError unless there is a binding for each buffer, aligned and within its memory's `size`."""
    name = kernel.name
    if len(bindings) != len(kernel.buffers):
        raise ShapeError(f"{name} takes {len(kernel.buffers)} buffers, got {len(bindings)}")
    for b in bindings:
        if b.offset % alignment or b.offset + b.nbytes > b.memory.size:
            raise ShapeError(
                f"{name}: a binding must start at a multiple of {alignment} and lie within its memory of "
                f"{b.memory.size} bytes, got {b.nbytes} bytes at {b.offset}"
            )


def check_range(backend: str, memory: Any, offset: int, nbytes: int) -> None:
    """Raises ShapeError for bytes that do not lie in a memory of `size` bytes, of which `nbytes` were asked for."""
    if offset < 0 or nbytes < 0 or offset + nbytes > memory.size:
        raise ShapeError(
            f"{backend}: {nbytes} bytes at {offset} do not lie in a memory of {memory.nbytes} bytes"
        )


def nothing() -> None:
    """The launch over an empty grid."""


def in_turn(launches: Sequence[Launch]) -> Launch:
    """A call that calls each."""
    fixed = tuple(launches)

    def run() -> None:
        for launch in fixed:
            launch()

    return fixed[0] if len(fixed) == 1 else run
