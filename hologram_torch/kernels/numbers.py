"""Python's numbers as elements of a dtype."""

from __future__ import annotations

import math

from hologram.dtypes import DType
from hologram.frontend.tensor import Tensor


def converted(value: bool | int | float, dtype: DType) -> bool | int | float:
    """A number as PyTorch converts it: integers wrap round, fractions are cut off."""
    if dtype.kind == "bool":
        return bool(value)
    if not dtype.is_integer:
        return float(value)
    low, span = lowest(dtype), 1 << dtype.bits
    return (int(value) - int(low)) % span + int(low)


def scalar(x: Tensor, value: bool | int | float) -> Tensor:
    """A number as a tensor without axes, of the dtype of another and beside it."""
    return x.executor.full((), converted(value, x.dtype), x.dtype)


def lowest(dtype: DType) -> int | float:
    """What every number of a dtype is at least."""
    if dtype.is_float:
        return -math.inf
    return -(1 << dtype.bits - 1) if dtype.kind == "int" else 0


def highest(dtype: DType) -> int | float:
    """What every number of a dtype is at most."""
    if dtype.is_float:
        return math.inf
    return (1 << dtype.bits - (dtype.kind == "int")) - 1
