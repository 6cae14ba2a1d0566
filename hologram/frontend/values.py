"""What tensors are made from, as arrays of the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hologram.foundation import dtypes, lazy
from hologram.foundation.errors import ShapeError, UnsupportedDType
from hologram.runtime.launches.validation import held

if TYPE_CHECKING:
    from hologram.atlas import arithmetic
else:
    arithmetic = lazy.module("hologram.atlas.arithmetic")

_PYTHON = frozenset({bool, int, float, complex})
_NO_NUMBERS = "OSUMmV"  # kinds of NumPy's dtypes
_DOUBLE = (dtypes.f64, dtypes.c128, np.dtype(np.float64), np.dtype(np.complex128))


def host_values(array: Any, dtype: Any) -> np.ndarray:
    """What a tensor is made from, as an array: Python's floats become f32, unless a dtype is wanted.

    In lists, too, what has a dtype keeps it: `[np.float64(1.0), 2.0]` is f64. Arrays are converted as `astype` does.
    Python's numbers are not: those that the dtype cannot hold are refused.
    """
    if isinstance(array, float) and not isinstance(array, np.generic):  # a traced one too: its value is held
        array = float(array)
    known = isinstance(array, (np.ndarray, np.generic)) or hasattr(array, "__array__")
    try:
        values = np.asarray(array)
    except ValueError as error:
        raise ShapeError(f"tensor: the elements form no array: {error}") from error
    own: Any = values.dtype
    if not (own.kind == "O" and values.size and all(isinstance(x, int) for x in values.flat)):
        if own.kind in _NO_NUMBERS and not known:
            raise UnsupportedDType(
                f"tensor: numbers, arrays, or lists of them are needed, got {_kind(array)}"
            )
        own = dtypes.dtype(own)  # refuses what is no number; integers of any size are some
    elif dtype is None:
        raise UnsupportedDType(f"tensor: no integer dtype holds all of {values.tolist()}: name a float dtype")
    if dtype is None:
        single = {dtypes.f64: np.float32, dtypes.c128: np.complex64}.get(own)
        return values if known or single is None or _doubles(array) else values.astype(single)
    wanted = dtypes.dtype(dtype)
    if not known:
        return held(array, wanted, "tensor")
    with np.errstate(all="ignore"):
        return values if own is wanted else arithmetic.convert(wanted, values)


def _kind(given: Any) -> str:
    """What is no number: the type, or that of the first such item in lists."""
    if isinstance(given, (list, tuple)):
        for item in given:
            if np.asarray(item).dtype.kind in _NO_NUMBERS:
                return f"{_kind(item)} in a {type(given).__name__}"
    if given is None:
        return "None"
    return f"{'an' if type(given).__name__[0] in 'aeiou' else 'a'} {type(given).__name__}"


def _doubles(listed: Any) -> bool:
    """Whether lists hold something that is f64 or c128 by itself, as NumPy's numbers, arrays and tensors may be."""
    if not isinstance(listed, (list, tuple)):
        return getattr(listed, "dtype", bool) in _DOUBLE
    kinds = set(map(type, listed))
    return not kinds <= _PYTHON and any(_doubles(x) for x in listed)
