"""Arguments made fit for a launch: numbers of a dtype, sizes, names; refused with a message where they are none."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from hologram.foundation import dtypes, lazy
from hologram.foundation.dtypes import DType, Number
from hologram.foundation.errors import OutOfMemory, ShapeError, UnsupportedDType
from hologram.machine.axes import whole

if TYPE_CHECKING:
    from hologram.atlas import arithmetic
else:  # for what NumPy lacks
    arithmetic = lazy.module("hologram.atlas.arithmetic")


def held(numbers: Any, dtype: DType, who: str) -> np.ndarray:
    """Python's numbers (one, or nested lists of some) as an array of a dtype; floats round once, and may overflow.

    Raises UnsupportedDType for a number that the dtype cannot hold: nothing wraps round, is cut off, or becomes true.
    """
    with np.errstate(all="ignore"):
        try:
            exact = np.asarray(numbers)
            if exact.dtype.kind in "OSU":  # NumPy would read text, and None as NaN
                for one in exact.flat:
                    if not isinstance(one, (int, float, complex, np.generic)) or isinstance(
                        one, (str, bytes)
                    ):
                        raise TypeError(f"{one!r} is no number")
            if dtype.is_complex:
                return np.asarray(exact, np.complex128).astype(dtype.numpy)
            if exact.dtype.kind == "c":
                raise TypeError("it is no real number")
            if dtype.is_float:
                exact = np.asarray(exact, np.float64)
                return arithmetic.narrow(exact, dtype) if dtype.is_foreign else exact.astype(dtype.numpy)
            array = np.asarray(numbers, dtype.numpy)
        except (OverflowError, TypeError, ValueError) as error:  # a NaN is a ValueError
            raise UnsupportedDType(f"{who}: {dtype} cannot hold {_briefly(numbers)}: {error}") from error
    if (array != exact).any():
        raise UnsupportedDType(f"{who}: {dtype} cannot hold {exact[array != exact].flat[0]}")
    return array


def _briefly(numbers: Any) -> str:
    text = repr(numbers)
    return text if len(text) <= 60 else f"{text[:40]}... ({len(text)} characters)"


def operation_of(kernel: str) -> str:
    """What a user calls of which a kernel is made: `add` of `atlas_add_u8`; a kernel of a user's own is that itself."""
    name, _, dtype = kernel.removeprefix("atlas_").rpartition("_")
    generated = kernel.startswith("atlas_") and any(d.name == dtype for d in dtypes.ALL)
    return name if generated else kernel


def fitted(value: Any, dtype: DType, who: str) -> Number:
    """The number as its dtype holds it; floats are rounded later, by who packs them.

    Raises TypeError for what is no number, UnsupportedDType for one that the dtype cannot hold: nothing wraps round.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, complex):
        if not dtype.is_complex:
            raise UnsupportedDType(f"{who}: {dtype} cannot hold {value}")
        return value  # type: ignore[return-value]
    if not isinstance(value, (bool, int, float)):
        raise TypeError(f"{who} must be a number, got {type(value).__name__}")
    if dtype is dtypes.bool_:
        return bool(value)
    if dtype.is_inexact:
        try:
            return value if isinstance(value, float) else float(value)
        except OverflowError as error:
            raise UnsupportedDType(
                f"{who}: {dtype} cannot hold an integer of {int(value).bit_length()} bits"
            ) from error
    inside = dtype.lowest <= value <= dtype.highest
    if (isinstance(value, float) and not value.is_integer()) or not inside:
        raise UnsupportedDType(f"{who}: {dtype} cannot hold {value}")
    return int(value) if isinstance(value, float) else value + 0


def cache_key(value: Any) -> Any:
    """What stands for an attribute or scalar in a key: NaN is NaN, and equals of other types or signs are others."""
    if type(value) in _EXACT:
        return value
    if type(value) is bool:
        return "true" if value else "false"
    if type(value) is float or isinstance(value, (float, np.floating)):
        if value != value:
            return "nan"
        if value == 0.0 and math.copysign(1.0, value) < 0.0:
            return "-0.0"
        return (float, value) if value.is_integer() else value
    if isinstance(value, (list, tuple)):
        return tuple(map(cache_key, value))
    if isinstance(value, complex):
        return complex, cache_key(value.real), cache_key(value.imag)
    return value


_EXACT = frozenset({int, str, type(None)})  # what stands for itself: most attributes


def sizes(given: Any, who: str) -> tuple[int, ...]:
    """A size or a sequence of them, as integers.

    Raises TypeError for anything but integers, ShapeError for negative ones, OutOfMemory past 2^63 elements.
    """
    items = given
    if type(given) is not tuple:
        items = (given,) if isinstance(given, (int, np.integer)) else given
        if not isinstance(items, (tuple, list, np.ndarray)):
            raise TypeError(f"{who}: sizes must be integers, got {given!r}")
    try:
        return _sizes(*items)
    except TypeError as error:
        raise TypeError(f"{who}: sizes must be integers, got {given!r}") from error
    except ShapeError as error:
        raise ShapeError(f"{who}: sizes must not be negative, got {given}") from error
    except OutOfMemory as error:
        raise OutOfMemory(f"{who}: {given} has more elements than any memory") from error


@lru_cache(maxsize=8192, typed=True)  # True and 1.0 are no sizes, though they equal 1
def _sizes(*given: Any) -> tuple[int, ...]:
    numbers = tuple(whole(n, "a size") for n in given)
    if any(n < 0 for n in numbers):
        raise ShapeError
    if math.prod(numbers) >= 1 << 63:
        raise OutOfMemory
    return numbers


def same_names(who: str, what: str, wanted: Sequence[str], given: Mapping[str, Any]) -> None:
    """Raises unless a mapping has exactly the names wanted."""
    if not isinstance(given, Mapping):
        raise TypeError(f"{who}: {what} must be a mapping from names, got {type(given).__name__}")
    if set(wanted) != set(given):
        raise ShapeError(
            f"{who}: {what} must be {', '.join(wanted) or 'none'}, got {', '.join(map(str, given)) or 'none'}"
        )
