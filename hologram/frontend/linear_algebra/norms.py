"""Norms of vectors and matrices, and condition numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from hologram.foundation.errors import LinAlgError, ShapeError
from hologram.frontend.array_api.creation import asarray
from hologram.frontend.linear_algebra.factors import svdvals
from hologram.frontend.linear_algebra.solving import inv
from hologram.frontend.tensor import Tensor
from hologram.machine.arguments import number
from hologram.machine.axes import normalize_axes, normalize_axis
from hologram.opset import norms

Axes = int | Sequence[int] | None


def vector_norm(x: Any, /, *, axis: Axes = None, keepdims: bool = False, ord: float = 2) -> Tensor:
    """(sum |x|^ord)^(1 / ord) along axes, all of them for None: inf is the largest magnitude, 0 counts what is not 0.

    The derivative of a norm that is 0 is 0.
    """
    order = float(number(ord, "linalg.vector_norm: ord"))
    return norms.vector_norm(_magnitudes(asarray(x)), axis=axis, order=order, keepdims=keepdims)


def _magnitudes(x: Tensor) -> Tensor:
    """Of complex numbers, whose norms are those of their magnitudes; of others what they are."""
    return x.abs() if x.dtype.is_complex else x


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: float | str | None = "fro") -> Tensor:
    """Norms of matrices: 'fro' of Frobenius, 'nuc' the sum of the singular values, 2 and -2 their extremes.

    1 and -1 are the extremes of the columns' sums of magnitudes, inf and -inf those of the rows'.
    """
    a = asarray(x)
    if a.ndim < 2:
        raise LinAlgError(f"linalg.matrix_norm: matrices are needed, got shape {a.shape}")
    found = _matrix_norm(a, ord)
    return found[..., None, None] if keepdims else found


def _matrix_norm(a: Tensor, ord: float | str | None) -> Tensor:
    if ord in ("fro", None):
        return norms.vector_norm(_magnitudes(a), axis=(-2, -1), order=2.0)
    if ord == "nuc":
        return svdvals(a).sum(axis=-1)
    if ord not in (1, -1, 2, -2, math.inf, -math.inf):
        raise ValueError(
            f"linalg.matrix_norm: ord must be 'fro', 'nuc', 1, -1, 2, -2, inf or -inf, got {ord!r}"
        )
    if ord in (2, -2):
        values = svdvals(a)
    else:
        values = norms.vector_norm(_magnitudes(a), axis=-2 if ord in (1, -1) else -1, order=1.0)
    if not values.shape[-1]:
        if ord < 0:  # type: ignore[operator]
            raise ShapeError(
                f"linalg.matrix_norm: ord={ord} of no elements has no value, got shape {a.shape}"
            )
        return values.sum(axis=-1)
    return values.max(axis=-1) if ord > 0 else values.min(axis=-1)  # type: ignore[operator]


def norm(x: Any, ord: float | str | None = None, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """NumPy's: of all elements, of vectors along one axis, or of matrices along two (see vector_norm, matrix_norm)."""
    a = asarray(x)
    if axis is None and ord is None:
        return vector_norm(a, keepdims=keepdims)
    axes = normalize_axes(axis, a.ndim, "linalg.norm")
    if len(axes) == 1:
        if isinstance(ord, str):
            raise ValueError(f"linalg.norm: ord={ord!r} is a norm of matrices, got one axis")
        return vector_norm(a, axis=axes[0], keepdims=keepdims, ord=2 if ord is None else ord)
    if len(axes) != 2:
        raise ValueError(f"linalg.norm: one axis or two are needed, got {axis} of shape {a.shape}")
    given: Any = (0, 1) if axis is None else axis
    rows, columns = (normalize_axis(k, a.ndim, "linalg.norm") for k in given)
    moved = a.permute((*(k for k in range(a.ndim) if k not in axes), rows, columns))
    found = matrix_norm(moved, ord=ord)
    for k in axes if keepdims else ():
        found = found.unsqueeze(k)
    return found


def cond(x: Any, /, p: float | str | None = None) -> Tensor:
    """Condition numbers: the largest singular value over the smallest, or norm(x) norm(inv(x)) by another norm."""
    if p in (None, 2, -2):
        s = svdvals(x)
        return s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    return matrix_norm(x, ord=p) * matrix_norm(inv(x), ord=p)
