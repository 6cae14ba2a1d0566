"""Arguments of NumPy's functions as tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from hologram.foundation.dtypes import DType, f32, f64
from hologram.foundation.errors import TraceError, UnsupportedDType
from hologram.frontend.array_api.creation import asarray
from hologram.frontend.tensor import Tensor
from hologram.machine.arguments import pair
from hologram.machine.axes import normalize_axis
from hologram.opset.forms.further import into, only
from hologram.runtime.dispatch import deferred


def beside(*arrays: Any) -> list[Tensor]:
    """All of them as tensors, where the first tensor among them is.

    Python's floats take its dtype if it has floats, integers if it has numbers.
    """
    known = next((x for x in arrays if isinstance(x, Tensor)), None)
    if known is None:
        return [asarray(x) for x in arrays]
    return [x if isinstance(x, Tensor) else known.executor.tensor(x, _weak(x, known.dtype)) for x in arrays]


def _weak(x: Any, dtype: DType) -> DType | None:
    """The dtype that a number takes beside another; None where it keeps its own."""
    if isinstance(x, (bool, np.generic)):
        return None
    fits = dtype.is_float if isinstance(x, float) else isinstance(x, int) and dtype.kind != "bool"
    return dtype if fits else None


def written(result: Tensor, out: Any, who: str, where: Any = True) -> Any:
    """The result, in `out` if there is one: those elements of it that `where` says, which needs one."""
    if out is None:
        if where is not True:
            raise TypeError(f"{who}: `where` needs an `out`, whose other elements stay")
        return result
    return into(result, only(out, who), who, where)


def both_written(
    results: tuple[Tensor, Tensor], first: Any, second: Any, out: Any, who: str, where: Any
) -> tuple[Any, Any]:
    """Two results, in outputs that are given by place or as a pair; see written."""
    if out is not None and (first is not None or second is not None):
        raise TypeError(f"{who}: outputs come by place or as out=, got both")
    if out is not None:
        if not isinstance(out, tuple):
            raise TypeError(f"{who}: out must be a tuple of two tensors or arrays, got {type(out).__name__}")
        first, second = pair(out, f"{who}: out")
    if where is not True and (first is None or second is None):
        raise TypeError(f"{who}: `where` needs both outputs, whose other elements stay")
    return written(results[0], first, who, where), written(results[1], second, who, where)


def floating(x: Any, who: str) -> Tensor:
    """A tensor of floats: of integers and bools f32; complex numbers are refused."""
    made = asarray(x)
    if made.dtype.is_complex:
        raise UnsupportedDType(f"{who}: real numbers are needed, got {made.dtype}")
    return inexact(made)


def inexact(x: Any) -> Tensor:
    """A tensor of floats or of complex numbers: of integers and bools f32."""
    made = asarray(x)
    return made if made.dtype.is_inexact else made.astype(f32)


def exact(x: Tensor) -> DType:
    """The widest floats of its device, where whole numbers and shares are counted."""
    return f64 if f64 in x.executor.limits.dtypes else f32


def widened(x: Tensor) -> Tensor:
    """Floats or complex numbers as the widest of its device, in which NumPy computes them whatever they are."""
    wide = exact(x)
    return x.astype(wide.complex if x.dtype.is_complex else wide, copy=False)


def rows(x: Tensor, axis: Any, who: str) -> tuple[Tensor, tuple[int, ...]]:
    """x with the axes that are folded as one, the last; and the shape of the result where they are kept."""
    if axis is None:
        return x.reshape(x.size), (1,) * x.ndim
    axes = tuple(
        normalize_axis(a, x.ndim, who) for a in (axis if isinstance(axis, (tuple, list)) else (axis,))
    )
    rest = [k for k in range(x.ndim) if k not in axes]
    moved = x.permute((*rest, *axes))
    shape = moved.shape[: len(rest)]
    width = 1
    for a in axes:
        width *= x.shape[a]
    return moved.reshape((*shape, width)), tuple(1 if k in axes else n for k, n in enumerate(x.shape))


def on_host(x: Any, who: str) -> np.ndarray:
    """Numbers that say what is computed, so that they must be known: of a tensor they are waited for."""
    if isinstance(x, Tensor):
        if deferred():
            raise TraceError(
                f"{who} must be numbers in a traced function, got a tensor whose elements nobody knows yet"
            )
        return x.to_numpy()
    return np.asarray(x)
