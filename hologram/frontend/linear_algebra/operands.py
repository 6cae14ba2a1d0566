"""What the functions of hg.linalg are given, checked, and what they say of matrices that fail."""

from __future__ import annotations

from typing import Any

import numpy as np

from hologram.foundation.dtypes import f32
from hologram.foundation.errors import LinAlgError, ShapeError, UnsupportedDType
from hologram.frontend.array_api.creation import asarray
from hologram.frontend.tensor import Tensor
from hologram.opset.forms.types import promoted
from hologram.runtime.dispatch import deferred

DTYPES = ("f32", "f64", "c64", "c128")


def matrices(who: str, *arrays: Any, axes: int = 2) -> list[Tensor]:
    """Tensors of one dtype of DTYPES, of so many axes at least; of integers f32, as elsewhere."""
    known = next((x for x in arrays if isinstance(x, Tensor)), None)
    device = None if known is None else known.executor
    made = [asarray(x, device=None if isinstance(x, Tensor) else device) for x in arrays]
    for x in made:
        if x.ndim < axes:
            what = "matrices are" if axes == 2 else "at least one axis is"
            raise LinAlgError(f"linalg.{who}: {what} needed, got shape {x.shape}")
    dtype = promoted([x.dtype for x in made])
    dtype = dtype if dtype.is_inexact else f32
    if dtype.name not in DTYPES:
        raise UnsupportedDType(
            f"linalg.{who}: f32, f64, c64 or c128 is needed, got {dtype}: convert it, as x.astype('f32')"
        )
    return [x.astype(dtype, copy=False) for x in made]


def matrix(who: str, x: Any) -> Tensor:
    """One operand; see matrices."""
    if type(x) is Tensor and x.ndim >= 2 and x.dtype.name in DTYPES:
        return x
    return matrices(who, x)[0]


def square(who: str, x: Any) -> Tensor:
    """An operand of square matrices."""
    made = matrix(who, x)
    if made.shape[-1] != made.shape[-2]:
        raise LinAlgError(f"linalg.{who}: square matrices are needed, got shape {made.shape}")
    return made


def succeeded(who: str, info: Tensor, why: str) -> None:
    """Raises LinAlgError for the first matrix that failed; not while a function is traced, where nobody can know.

    `why` says what is wrong with a matrix, of which the code is {code}.
    """
    if deferred():
        return
    codes = info.to_numpy()
    if not np.count_nonzero(codes):
        return
    place = tuple(map(int, np.argwhere(codes)[0]))
    which = f"matrix {place[0] if len(place) == 1 else place} of the batch" if place else "the matrix"
    more = np.count_nonzero(codes) - 1
    others = f" ({more} more of {codes.size} likewise)" if more else ""
    raise LinAlgError(f"linalg.{who}: {which} {why.format(code=int(codes[place]))}{others}")


def vector_axis(who: str, x: Tensor, size: int, axis: int) -> None:
    """Refuses an axis of another size."""
    if x.shape[axis] != size:
        raise ShapeError(f"linalg.{who}: axis {axis} must have size {size}, got shape {x.shape}")
