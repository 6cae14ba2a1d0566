"""Functions that give several tensors, as many as their arguments say: views, without a copy."""

from __future__ import annotations

from typing import Any

from hologram.foundation.errors import ShapeError
from hologram.foundation.sizes import fixed_range
from hologram.frontend.array_api.creation import asarray
from hologram.frontend.tensor import Tensor
from hologram.machine.axes import broadcast, integers, normalize_axis


def broadcast_arrays(*arrays: Any) -> list[Tensor]:
    """Each of the arrays, repeated to the shape that all of them broadcast to."""
    tensors = [asarray(x) for x in arrays]
    shape = broadcast([t.shape for t in tensors], "broadcast_arrays")
    return [t.expand(shape) for t in tensors]


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that arrays of these shapes broadcast to; raises ShapeError where there is none."""
    return broadcast([integers(shape, "broadcast_shapes: a size") for shape in shapes], "broadcast_shapes")


def meshgrid(*arrays: Any, indexing: str = "xy", sparse: bool = False) -> list[Tensor]:
    """The coordinates of a grid, from those along each axis; 'xy' exchanges the first two axes, 'ij' does not.

    With `sparse` each has its own axis only, and together they broadcast to the grid.
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing must be 'xy' or 'ij', got {indexing!r}")
    tensors = [asarray(x) for x in arrays]
    if any(t.ndim > 1 for t in tensors):
        raise ShapeError(f"meshgrid: tensors of one axis are needed, got shapes {[t.shape for t in tensors]}")
    places = list(range(len(tensors)))
    if indexing == "xy" and len(tensors) > 1:
        places[:2] = 1, 0
    shape = [1] * len(tensors)
    for t, place in zip(tensors, places, strict=True):
        shape[place] = t.size
    lying = [
        t.reshape([t.size if k == place else 1 for k in range(len(tensors))])
        for t, place in zip(tensors, places, strict=True)
    ]
    return lying if sparse else [t.expand(shape) for t in lying]


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices of x along an axis, which disappears."""
    x = asarray(x)
    k = normalize_axis(axis, x.ndim, "unstack")
    return tuple(x.select(k, position) for position in fixed_range(x.shape[k]))
