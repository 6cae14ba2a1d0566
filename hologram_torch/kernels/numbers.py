"""Python's numbers as elements of a dtype."""

from __future__ import annotations

import functools
import math
from typing import Any

import torch

from hologram.foundation.dtypes import DType
from hologram.frontend.tensor import Tensor
from hologram_torch.tensors.dtypes import torch_dtype


def converted(value: Any, dtype: DType) -> Any:
    """A number as PyTorch converts it: integers wrap round, fractions are cut off."""
    if not dtype.is_integer:
        return dtype.python(value)
    low, span = dtype.lowest, 1 << dtype.bits
    return (int(value) - low) % span + low


@functools.cache
def bounds(dtype: DType) -> tuple[float, float]:
    """The numbers between which a dtype holds all, but for their fractions."""
    if dtype.kind == "bool":
        return -math.inf, math.inf
    part = dtype.part
    return (-part.largest, part.largest) if part.is_float else (dtype.lowest, dtype.highest)


def is_within(value: bool | int | float, dtype: DType) -> bool:
    """Whether it is certain that PyTorch finds no fault with a number for an element of a dtype."""
    low, high = bounds(dtype)
    return low <= value <= high or (dtype.is_inexact and (math.isinf(value) or math.isnan(value)))


def element(value: Any, like: Tensor) -> Any:
    """A number as PyTorch writes it to a tensor; raises RuntimeError where it refuses to.

    It is less strict with one element than with more.
    """
    if isinstance(value, complex) or not is_within(value, like.dtype):
        value = torch.full((2 if like.size > 1 else 1,), value, dtype=torch_dtype(like.dtype)).tolist()[0]
    return converted(value, like.dtype)


def scalar(x: Tensor, value: Any) -> Tensor:
    """A number as a tensor without axes, of the dtype of another and beside it."""
    return x.executor.full((), converted(value, x.dtype), x.dtype)
