"""The words of kernels beside Python's own. In the Python form of a kernel they do what they say."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.foundation.errors import KernelError
from hologram.foundation.frozen import frozen


@frozen
class ArrayType:
    """What an argument's annotation `hg.Array[hg.f32, 2]` says: a dtype and a number of axes."""

    dtype: DType
    rank: int


class Array:
    """The annotation of an array: `hg.Array[hg.f32, 2]` has two axes; without a number it has one."""

    def __class_getitem__(cls, what: Any) -> Any:
        dtype, rank = what if isinstance(what, tuple) else (what, 1)
        if isinstance(rank, bool) or not isinstance(rank, int) or not 0 <= rank <= 8:
            raise KernelError(f"hg.Array: the number of axes must be 0 to 8, got {rank!r}")
        return ArrayType(dtypes.dtype(dtype), rank)

    if TYPE_CHECKING:  # what an array is in a kernel
        shape: tuple[int, ...]
        ndim: int
        size: int
        dtype: DType

        def __len__(self) -> int: ...
        def __getitem__(self, index: Any) -> Any: ...
        def __setitem__(self, index: Any, value: Any) -> None: ...


class Func:
    """A function that kernels call: it is written into them. From Python it is the function itself."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.__wrapped__ = function
        self.__name__ = getattr(function, "__name__", "function")
        self.__doc__ = function.__doc__

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        function = self.function if running.rebound is None else running.rebound(self.function)
        return function(*arguments, **named)


def func(function: Callable[..., Any]) -> Func:
    """Makes a function one that kernels may call; it is inlined, and its arguments need no annotations."""
    return Func(function)


def static(value: Any) -> Any:
    """A value that is known when a kernel is compiled: `for k in hg.static(range(3))` is written out round by round."""
    return value


class Lane:
    """Where the Python form of a kernel stands."""

    def __init__(self, index: tuple[int, ...], grid: tuple[int, ...]) -> None:
        self.index = index
        self.grid = grid


class _Running(threading.local):
    lane: Lane | None = None
    rebound: Callable[[Any], Callable[..., Any]] | None = None  # functions as their Python form calls them


running = _Running()


def lane(word: str) -> Lane:
    """The lane that the Python form of a kernel is at."""
    if running.lane is None:
        raise KernelError(f"hg.{word}() is for kernels: functions under @hg.kernel, and those that they call")
    return running.lane


def _one_or_all(numbers: tuple[int, ...], axis: int | None) -> Any:
    if axis is not None:
        return numbers[axis]
    return numbers[0] if len(numbers) == 1 else numbers


def index(axis: int | None = None) -> Any:
    """Where in the grid the kernel is: a number of a grid with one axis, else a tuple; or the number along an axis."""
    return _one_or_all(lane("index").index, axis)


def grid_size(axis: int | None = None) -> Any:
    """The size of the grid, as `index` gives the place in it."""
    return _one_or_all(lane("grid_size").grid, axis)
