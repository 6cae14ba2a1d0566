"""The dtype that operands of several dtypes are brought to, by PyTorch's rules of type promotion.

The rules are those of https://docs.pytorch.org/docs/stable/tensor_attributes.html#type-promotion-doc.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto
from functools import reduce
from typing import Any

import torch


class Promotion(Enum):
    """What becomes of the dtype of the operands."""

    DEFAULT = auto()  # it is the result's
    INT_TO_FLOAT = auto()  # integers and bools give floats
    COMPLEX_TO_FLOAT = auto()  # complex numbers give floats
    BOOL_TO_LONG = auto()  # bools give int64
    ALWAYS_BOOL = auto()  # the result is bool, computed in it


def promoted(operands: Iterable[Any], kind: Promotion) -> torch.dtype:
    """The dtype of a result of tensors and numbers.

    Tensors with axes decide, then those without, then numbers; a later one counts where its kind of number (bool,
    integer, float, complex) is a higher one than those before it have.
    """
    dtype: torch.dtype | None = None
    for group in _groups(operands):
        found = reduce(torch.promote_types, group) if group else None
        if found is not None and (dtype is None or _rank(found) > _rank(dtype)):
            dtype = found if dtype is None else _raised(dtype, found)
    if dtype is None:
        raise ValueError("a tensor or a number is needed, got none")
    if kind is Promotion.ALWAYS_BOOL:
        return torch.bool
    if kind is Promotion.INT_TO_FLOAT and _rank(dtype) < FLOAT:
        return torch.get_default_dtype()
    if kind is Promotion.COMPLEX_TO_FLOAT and dtype.is_complex:
        return dtype.to_real()
    return torch.int64 if kind is Promotion.BOOL_TO_LONG and dtype == torch.bool else dtype


BOOL, INTEGER, FLOAT, COMPLEX = range(4)


def _rank(dtype: torch.dtype) -> int:
    if dtype.is_complex:
        return COMPLEX
    return FLOAT if dtype.is_floating_point else BOOL if dtype == torch.bool else INTEGER


def _raised(dtype: torch.dtype, higher: torch.dtype) -> torch.dtype:
    """Floats become complex numbers of their own precision; all else becomes what is higher."""
    return dtype.to_complex() if _rank(dtype) == FLOAT else higher


def _groups(operands: Iterable[Any]) -> tuple[list[torch.dtype], ...]:
    """The dtypes of tensors with axes, of tensors without, and of numbers."""
    groups: tuple[list[torch.dtype], ...] = ([], [], [])
    for x in operands:
        if isinstance(x, torch.Tensor):
            groups[0 if x.ndim else 1].append(x.dtype)
        else:
            groups[2].append(_of_number(x))
    return groups


def _of_number(x: Any) -> torch.dtype:
    if isinstance(x, bool):
        return torch.bool
    if isinstance(x, complex):
        return torch.get_default_dtype().to_complex()
    return torch.get_default_dtype() if isinstance(x, float) else torch.int64
