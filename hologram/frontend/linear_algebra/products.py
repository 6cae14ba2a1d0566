"""Products of vectors and matrices, their diagonals and traces: composed of operations, so they stay on the device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hologram.foundation import dtypes
from hologram.foundation.errors import ShapeError
from hologram.frontend.array_api.creation import asarray
from hologram.frontend.tensor import Tensor
from hologram.machine.arguments import sequence
from hologram.machine.axes import normalize_axis, whole
from hologram.machine.layout import Layout
from hologram.opset import contraction, movement
from hologram.opset import matmul as products
from hologram.opset.arrange import matrix_transpose as transposed


def _beside(x1: Any, x2: Any) -> tuple[Tensor, Tensor]:
    """Two tensors, made where the one that is there is."""
    known = next((x for x in (x1, x2) if isinstance(x, Tensor)), None)
    device = None if known is None else known.executor
    a, b = (asarray(x, device=None if isinstance(x, Tensor) else device) for x in (x1, x2))
    return a, b


def matmul(x1: Any, x2: Any, /) -> Tensor:
    """The matrix product; see hg.matmul."""
    return products.matmul(*_beside(x1, x2))


def tensordot(x1: Any, x2: Any, /, *, axes: int | Sequence[Sequence[int]] = 2) -> Tensor:
    """Sums of products over several axes; see hg.tensordot."""
    return contraction.tensordot(*_beside(x1, x2), axes=axes)


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Tensor:
    """The dot products of the vectors along an axis; see hg.vecdot."""
    a, b = _beside(x1, x2)
    axis = whole(axis, "linalg.vecdot: axis")
    if not -min(a.ndim, b.ndim) <= axis < 0 and axis != max(a.ndim, b.ndim) - 1:
        normalize_axis(axis, min(a.ndim, b.ndim), "linalg.vecdot")
    if a.ndim and b.ndim and a.shape[axis] != b.shape[axis]:
        raise ShapeError(
            f"linalg.vecdot: vectors of one length are needed, got shapes {a.shape} and {b.shape}"
        )
    return products.vecdot(a, b, axis=axis)


def matrix_transpose(x: Any, /) -> Tensor:
    """The last two axes exchanged, a view."""
    return transposed(asarray(x))


def outer(x1: Any, x2: Any, /) -> Tensor:
    """The products of each element of a vector with each of another."""
    a, b = _beside(x1, x2)
    if a.ndim != 1 or b.ndim != 1:
        raise ShapeError(f"linalg.outer: two vectors are needed, got shapes {a.shape} and {b.shape}")
    return a[:, None] * b[None, :]


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Tensor:
    """The vector products along an axis of size 3; all other axes broadcast."""
    a, b = _beside(x1, x2)
    axis = whole(axis, "linalg.cross: axis")
    for x in (a, b):
        k = normalize_axis(axis, x.ndim, "linalg.cross")
        if x.shape[k] != 3:
            raise ShapeError(f"linalg.cross: axis {axis} must have size 3, got shape {x.shape}")

    def part(x: Tensor, k: int) -> Tensor:
        return x.select(normalize_axis(axis, x.ndim, "linalg.cross"), k)

    parts = [
        part(a, (k + 1) % 3) * part(b, (k + 2) % 3) - part(a, (k + 2) % 3) * part(b, (k + 1) % 3)
        for k in range(3)
    ]
    ndim = parts[0].ndim + 1
    return movement.stack(parts, axis=axis if axis < 0 else axis - max(a.ndim, b.ndim) + ndim)


def diagonal(x: Any, /, *, offset: int = 0, axis1: int = -2, axis2: int = -1) -> Tensor:
    """The diagonals of matrices along the last axis, a view: `offset` above the main one, or below where negative."""
    a = asarray(x)
    first, second = (normalize_axis(k, a.ndim, "linalg.diagonal") for k in (axis1, axis2))
    if first == second:
        raise ShapeError(f"linalg.diagonal: two axes are needed, got {axis1} and {axis2}")
    return a._view(_diagonal(a.layout, whole(offset, "linalg.diagonal: offset"), first, second))


def _diagonal(layout: Layout, offset: int, first: int, second: int) -> Layout:
    rows, columns = layout.shape[first], layout.shape[second]
    length = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    row, column = layout.strides[first], layout.strides[second]
    start = (max(offset, 0) * column - min(offset, 0) * row) if length else 0
    kept = [k for k in range(layout.ndim) if k not in (first, second)]
    return replace(
        layout,
        shape=(*(layout.shape[k] for k in kept), length),
        strides=(*(layout.strides[k] for k in kept), row + column),
        offset=layout.offset + start,
    )


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None, axis1: int = -2, axis2: int = -1) -> Tensor:
    """The sums of diagonals; see diagonal, and hg.sum for the dtype."""
    wanted = None if dtype is None else dtypes.dtype(dtype).name
    return diagonal(x, offset=offset, axis1=axis1, axis2=axis2).sum(axis=-1, dtype=wanted)


def multi_dot(arrays: Sequence[Any], /) -> Tensor:
    """The product of several matrices, in the order that takes the fewest operations; ends may be vectors."""
    tensors = [asarray(x) for x in sequence(arrays, "linalg.multi_dot: arrays")]
    if len(tensors) < 2:
        raise ValueError(f"linalg.multi_dot: at least two arrays are needed, got {len(tensors)}")
    row, column = tensors[0].ndim == 1, tensors[-1].ndim == 1
    shaped = list(tensors)
    shaped[0] = shaped[0][None, :] if row else shaped[0]
    shaped[-1] = shaped[-1][:, None] if column else shaped[-1]
    product = _in_best_order(shaped)
    product = product[0] if row else product
    return product[..., 0] if column else product


def _in_best_order(matrices: Sequence[Tensor]) -> Tensor:
    """By the cost of every part of the chain (Cormen et al., "Matrix-chain multiplication")."""
    sizes = [m.shape[0] for m in matrices] + [matrices[-1].shape[1]]
    best: dict[tuple[int, int], tuple[int, int]] = {(k, k): (0, k) for k in range(len(matrices))}
    for length in range(2, len(matrices) + 1):
        for i in range(len(matrices) - length + 1):
            j = i + length - 1
            best[i, j] = min(
                (best[i, k][0] + best[k + 1, j][0] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            )

    def made(i: int, j: int) -> Tensor:
        k = best[i, j][1]
        return matrices[i] if i == j else products.matmul(made(i, k), made(k + 1, j))

    return made(0, len(matrices) - 1)


def kron(x1: Any, x2: Any, /) -> Tensor:
    """Kronecker's product: each element of the first times all of the second."""
    a, b = _beside(x1, x2)
    ndim = max(a.ndim, b.ndim)
    a, b = (x.reshape((1,) * (ndim - x.ndim) + x.shape) for x in (a, b))
    wide = a.reshape([n for size in a.shape for n in (size, 1)])
    thin = b.reshape([n for size in b.shape for n in (1, size)])
    return (wide * thin).reshape([m * n for m, n in zip(a.shape, b.shape, strict=True)])
