"""What tensors are made from, as arrays of the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from hologram import dtypes
from hologram.errors import ShapeError


def host_values(array: Any, dtype: Any) -> np.ndarray:
    """What a tensor is made from, as an array: Python floats become f32, unless a dtype is wanted."""
    known = isinstance(array, (np.ndarray, np.generic)) or hasattr(array, "__array__")
    try:
        values = np.asarray(array)
    except ValueError as error:
        raise ShapeError(f"tensor: the elements form no array: {error}") from error
    dtypes.dtype(values.dtype)  # refuses what is no number
    if dtype is not None:
        values = values.astype(dtypes.dtype(dtype).numpy, copy=False)
    elif not known and values.dtype == np.float64:
        values = values.astype(np.float32)
    return values
