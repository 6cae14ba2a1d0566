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


def host_values(array: Any, dtype: Any) -> np.ndarray:
    """What a tensor is made from, as an array: Python floats become f32, unless a dtype is wanted.

    Arrays are converted as `astype` does. Python's numbers are not: those that the dtype cannot hold are refused.
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
        own = dtypes.dtype(own)  # refuses what is no number; integers of any size are some
    elif dtype is None:
        raise UnsupportedDType(f"tensor: no integer dtype holds all of {values.tolist()}: name a float dtype")
    if dtype is None:
        single = {dtypes.f64: np.float32, dtypes.c128: np.complex64}.get(own)
        return values if known or single is None else values.astype(single)
    wanted = dtypes.dtype(dtype)
    if not known:
        return held(array, wanted, "tensor")
    with np.errstate(all="ignore"):
        return values if own is wanted else arithmetic.convert(wanted, values)
