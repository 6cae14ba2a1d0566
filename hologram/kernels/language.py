"""The words of kernels beside Python's own. In the Python form of a kernel they do what they say."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import update_wrapper
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from hologram.atlas.opcodes import Opcode
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

    __name__: str

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        update_wrapper(self, function)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        function = self.function if running.rebound is None else running.rebound(self.function)
        return function(*arguments, **named)

    def __reduce__(self) -> str:
        return self.function.__qualname__  # by its name, as functions are


def func(function: Callable[..., Any]) -> Func:
    """Makes a function one that kernels may call; it is inlined, and its arguments need no annotations."""
    if not isinstance(function, FunctionType):
        raise KernelError(f"hg.func: a function is needed, got {type(function).__name__}")
    return Func(function)


def static(value: Any) -> Any:
    """A value that is known when a kernel is compiled: `for k in hg.static(range(3))` is written out round by round."""
    return value


class Lane:
    """Where the Python form of a kernel stands: a point of the grid, in a workgroup where the kernel has such."""

    def __init__(
        self,
        index: tuple[int, ...],
        grid: tuple[int, ...],
        thread: tuple[int, ...] = (),
        group: tuple[int, ...] = (),
        meeting: Any = None,
    ) -> None:
        self.index = index
        self.grid = grid
        self.thread = thread
        self.group = group
        self.meeting = meeting  # of the threads of its workgroup
        self.shared_so_far = 0  # arrays that it asked for


class _Running(threading.local):
    lane: Lane | None = None
    rebound: Callable[[Any], Callable[..., Any]] | None = None  # functions as their Python form calls them
    array: Callable[[str, np.ndarray], Any]  # one with its bounds checked


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


def thread_index(axis: int | None = None) -> Any:
    """Where in its workgroup the lane is, as `index` says where in the grid."""
    return _one_or_all(in_a_workgroup("thread_index").thread, axis)


def workgroup_index(axis: int | None = None) -> Any:
    """Which workgroup the lane is in, as `index` says where in the grid."""
    return _one_or_all(in_a_workgroup("workgroup_index").group, axis)


def in_a_workgroup(word: str) -> Lane:
    """The lane that the Python form of a kernel with workgroups is at."""
    here = lane(word)
    if here.meeting is None:
        raise KernelError(f"hg.{word}() needs a kernel with workgroups: @hg.kernel(workgroup=64)")
    return here


# Memory.


def local(shape: int | tuple[int, ...], dtype: Any) -> Any:
    """An array that each lane has for itself; it begins as zeros. Its shape is known when the kernel is compiled."""
    lane("local")
    return running.array("hg.local(...)", np.zeros(shape, _dtype(dtype).numpy))


def shared(shape: int | tuple[int, ...], dtype: Any) -> Any:
    """An array that the lanes of a workgroup share; it begins as zeros. See `barrier`."""
    here = in_a_workgroup("shared")
    arrays, number = here.meeting.arrays, here.shared_so_far
    here.shared_so_far += 1
    if number == len(arrays):
        arrays.append(running.array("hg.shared(...)", np.zeros(shape, _dtype(dtype).numpy)))
    return arrays[number]


def barrier() -> None:
    """All lanes of the workgroup meet here, and see what the others stored in shared memory before."""
    in_a_workgroup("barrier").meeting.wait()


def _dtype(given: Any) -> DType:
    return dtypes.dtype(getattr(given, "dtype", given))


def _atomic(name: str, update: Callable[[Any, Any], Any], about: str) -> Callable[..., Any]:
    def atomic(array: Any, index: Any, value: Any) -> Any:
        lane(f"atomic_{name}")
        old = array[index]
        with np.errstate(all="ignore"):
            array[index] = update(old, type(old)(value))
        return old

    atomic.__name__ = atomic.__qualname__ = f"atomic_{name}"
    atomic.__doc__ = (
        f"{about}, as one step that no other lane comes between; gives the element as it was before."
    )
    return atomic


atomic_add = _atomic("add", lambda old, x: old + x, "Adds to an element")
atomic_min = _atomic("min", lambda old, x: min(old, x), "Makes an element the smaller of itself and a value")
atomic_max = _atomic("max", lambda old, x: max(old, x), "Makes an element the larger of itself and a value")
atomic_and = _atomic("and", lambda old, x: old & x, "Clears bits of an element")
atomic_or = _atomic("or", lambda old, x: old | x, "Sets bits of an element")
atomic_xor = _atomic("xor", lambda old, x: old ^ x, "Flips bits of an element")
atomic_exchange = _atomic("exchange", lambda old, x: x, "Stores an element")


def atomic_compare_exchange(array: Any, index: Any, expected: Any, value: Any) -> Any:
    """Stores an element where it is what is expected, as one step; gives the element as it was before."""
    lane("atomic_compare_exchange")
    old = array[index]
    if old == expected:
        array[index] = value
    return old


ATOMICS: dict[Opcode, Callable[..., Any]] = {
    Opcode.ATOMIC_ADD: atomic_add,
    Opcode.ATOMIC_MIN: atomic_min,
    Opcode.ATOMIC_MAX: atomic_max,
    Opcode.ATOMIC_AND: atomic_and,
    Opcode.ATOMIC_OR: atomic_or,
    Opcode.ATOMIC_XOR: atomic_xor,
    Opcode.ATOMIC_EXCHANGE: atomic_exchange,
    Opcode.ATOMIC_COMPARE_EXCHANGE: atomic_compare_exchange,
}
WORDS = (
    *("Array", "func", "static", "index", "grid_size", "thread_index", "workgroup_index"),
    *("local", "shared", "barrier", *(word.__name__ for word in ATOMICS.values())),
)
