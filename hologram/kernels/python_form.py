"""A kernel as the Python function that it is: run point by point on NumPy's arrays, with bounds checked.

The function's lines are its own, so breakpoints and prints work. What its names stand for is replaced where Python's
own would compute something else: functions of numbers, and dtypes, which convert as kernels do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from functools import cache, partial, wraps
from types import CellType, FunctionType, ModuleType
from typing import Any

import numpy as np

from hologram.atlas.arithmetic import COMPUTE, convert
from hologram.atlas.opcodes import Opcode
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.foundation.errors import BoundsError
from hologram.kernels import functions
from hologram.kernels.by_value import OWN, code_of, own
from hologram.kernels.language import ArrayType, Lane, running
from hologram.kernels.meeting import Meeting

Parameter = ArrayType | DType


class Checked:
    """An array that refuses what is no index of it."""

    __slots__ = ("array", "name")

    def __init__(self, name: str, array: np.ndarray) -> None:
        self.name = name
        self.array = array

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def ndim(self) -> int:
        return self.array.ndim

    @property
    def size(self) -> int:
        return self.array.size

    @property
    def dtype(self) -> Cast:
        return Cast(dtypes.dtype(self.array.dtype))

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, index: Any) -> Any:
        return self.array[self.place(index, "reads")]

    def __setitem__(self, index: Any, value: Any) -> None:
        self.array[self.place(index, "writes")] = value

    def place(self, index: Any, does: str) -> tuple[int, ...]:
        """The index, if it is one; raises BoundsError."""
        given = index if isinstance(index, tuple) else (index,)
        shape = self.array.shape
        whole = all(isinstance(i, (int, np.integer)) and not isinstance(i, bool) for i in given)
        if (
            not whole
            or len(given) != len(shape)
            or not all(0 <= i < n for i, n in zip(given, shape, strict=True))
        ):
            at = running.lane.index if running.lane is not None else "?"
            shown = ", ".join(map(str, given))
            raise BoundsError(
                f"{self.name}[{shown}] {does} outside of shape {shape}, at index {at} of the grid"
            )
        return given

    def __repr__(self) -> str:
        return f"{self.name}: {self.array!r}"


class Cast:
    """A dtype in the Python form: it converts, as it does in a kernel."""

    def __init__(self, dtype: DType) -> None:
        self.dtype = dtype

    def __call__(self, x: Any) -> Any:
        if hasattr(x, "NAMES"):  # a vector
            return type(x)(*[self(part) for part in x])
        with np.errstate(all="ignore"):
            if isinstance(x, int) and not isinstance(x, bool) and self.dtype.is_integer:
                x = np.asarray(x % (1 << 64), np.uint64)  # of any size; it wraps
            return convert(self.dtype, np.asarray(x))[()]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.dtype, name)  # `hg.i32.bits`

    def __eq__(self, other: object) -> bool:
        return (other.dtype if isinstance(other, Cast) else other) == self.dtype

    def __hash__(self) -> int:
        return hash(self.dtype)


def run(
    function: Any,
    parameters: Mapping[str, Parameter],
    grid: tuple[int, ...],
    workgroup: tuple[int, ...] | None,
    arguments: Sequence[Any],
) -> None:
    """Runs a kernel's function for each point of a grid, in row-major order; arrays are changed in place.

    With workgroups one after the other runs, and its lanes take turns at barriers.
    """
    given = [
        Checked(name, x) if isinstance(p, ArrayType) else Cast(p)(x)
        for (name, p), x in zip(parameters.items(), arguments, strict=True)
    ]
    bound: dict[Any, Any] = {}

    def rebound(one: Any) -> Callable[..., Any]:
        if one not in bound:
            bound[one] = _rebound(one)
        return bound[one]

    def one(here: Lane) -> None:
        before = running.lane, running.rebound
        running.lane, running.rebound, running.array = here, rebound, Checked
        try:
            with np.errstate(all="ignore"):
                rebound(function)(*given)
        finally:
            running.lane, running.rebound = before

    if workgroup is None:
        for index in np.ndindex(*grid):
            one(Lane(index, grid))
        return
    for group in np.ndindex(*(-(-n // size) for n, size in zip(grid, workgroup, strict=True))):
        meeting = Meeting(workgroup)
        lanes = []
        for thread in np.ndindex(*workgroup):
            index = tuple(g * n + t for g, n, t in zip(group, workgroup, thread, strict=True))
            if all(i < n for i, n in zip(index, grid, strict=True)):
                lanes.append(partial(one, Lane(index, grid, thread, group, meeting)))
        meeting.run(lanes)


# What names stand for.


def _rebound(function: Any) -> FunctionType:
    """The same code, whose names stand for what they mean in a kernel."""
    around = {name: meaning(value) for name, value in function.__globals__.items()}
    for name, meant in _BUILTINS.items():
        around.setdefault(name, meant)
    around[OWN] = own
    code = code_of(function)
    held = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    cells = tuple(CellType(meaning(held[name].cell_contents)) for name in code.co_freevars)
    found = FunctionType(code, around, function.__name__, function.__defaults__, cells)
    found.__kwdefaults__ = function.__kwdefaults__
    return found


class _Words:
    """A module, whose functions of numbers and dtypes are those of kernels."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module

    def __getattr__(self, name: str) -> Any:
        return meaning(getattr(self.module, name))


def meaning(value: Any) -> Any:
    """What an object around a kernel is in its Python form."""
    if isinstance(value, ModuleType):
        return _Words(value) if value.__name__ in ("hologram", "math", "numpy") else value
    if isinstance(value, DType):
        return Cast(value)
    if isinstance(value, type) and is_dataclass(value):
        return _as_kernels_have_it(value)
    known = functions.named().get(id(value))
    if known is not None:
        return _FAMILIES[known[0]](known[1], value)
    return _where if any(value is f for f in functions.CHOICES) else value


@cache
def _as_kernels_have_it(kind: type) -> type:
    """A dataclass whose methods are in their Python form too, like functions under `hg.func`."""
    methods = {name: f for one in reversed(kind.__mro__) for name, f in vars(one).items()}
    plain = {name: f for name, f in methods.items() if type(f) is FunctionType and name[:2] != "__"}
    return type(kind.__name__, (kind,), {name: _method(f) for name, f in plain.items()})


def _method(function: FunctionType) -> Callable[..., Any]:
    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        return (function if running.rebound is None else running.rebound(function))(*arguments, **named)

    return call


def _float(opcode: Opcode, function: Any) -> Callable[[Any], Any]:
    def apply(x: Any) -> Any:
        if hasattr(x, "NAMES"):
            return type(x)(*map(apply, x))
        plain = not isinstance(x, np.generic)
        dtype = dtypes.f64 if plain else dtypes.dtype(x.dtype)
        dtype = dtype if dtype.is_float else dtypes.f32
        result = COMPUTE[opcode](dtype, convert(dtype, np.asarray(x)))[()]
        return float(result) if plain else result

    return apply


def _number(opcode: Opcode, function: Any) -> Callable[[Any], Any]:
    return abs


def _fold(opcode: Opcode, function: Any) -> Callable[..., Any]:
    return _smallest if opcode is Opcode.MIN else _largest


def _whole(opcode: Opcode, function: Any) -> Callable[..., Any]:
    """Whole numbers of floats, within i32."""

    def apply(x: Any) -> Any:
        if not isinstance(x, (float, np.floating)):
            return x
        return _integer(COMPUTE[opcode](dtypes.f64, np.asarray(x, np.float64)))

    return apply


def _integer(x: Any) -> int:
    return int(Cast(dtypes.i32)(x))


def _same(opcode: Opcode, function: Any) -> Callable[..., Any]:
    return function


def _smallest(*numbers: Any) -> Any:
    return _extreme(numbers, lambda a, b: b < a)


def _largest(*numbers: Any) -> Any:
    return _extreme(numbers, lambda a, b: b > a)


def _extreme(numbers: Sequence[Any], better: Callable[[Any, Any], Any]) -> Any:
    """NaN if any is; the result has the dtype that all have in common."""
    numbers = tuple(numbers[0]) if len(numbers) == 1 else numbers
    result = numbers[0]
    for x in numbers[1:]:
        chosen = x if x != x or (result == result and better(result, x)) else result
        result = chosen if isinstance(chosen, (int, float)) else (result + x).dtype.type(chosen)
    return result


def _where(condition: Any, a: Any, b: Any) -> Any:
    return a if condition else b


_FAMILIES: dict[str, Callable[[Opcode, Any], Callable[..., Any]]] = {
    "float": _float,
    "number": _number,
    "fold": _fold,
    "whole": _whole,
    "power": _same,
}
_BUILTINS: dict[str, Callable[..., Any]] = {
    "min": _smallest,
    "max": _largest,
    "round": _whole(Opcode.ROUND, round),
    "int": _integer,
}
