"""`import hologram.einops` lets einops' functions take Tensors: rearrange, reduce, repeat, einsum, pack and unpack.

einops finds its backends among the subclasses of one class, and asks each whether a tensor is its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from einops._backends import AbstractBackend  # pyright: ignore[reportMissingImports]

from hologram.frontend.array_api.creation import asarray
from hologram.frontend.tensor import Tensor
from hologram.opset import arrange, contraction, creation, movement


class HologramBackend(AbstractBackend):
    """What einops asks of a library."""

    framework_name = "hologram"

    def is_appropriate_type(self, tensor: Any) -> bool:
        return isinstance(tensor, Tensor)

    def from_numpy(self, x: Any) -> Tensor:
        return asarray(x)

    def to_numpy(self, x: Tensor) -> Any:
        return x.to_numpy()

    def arange(self, start: int, stop: int) -> Tensor:
        return creation.arange(start=start, stop=stop)

    def transpose(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        return x.permute(tuple(axes))

    def stack_on_zeroth_dimension(self, tensors: Sequence[Tensor]) -> Tensor:
        return movement.stack(list(tensors), axis=0)

    def add_axis(self, x: Tensor, new_position: int) -> Tensor:
        return arrange.expand_dims(x, axis=new_position)

    def tile(self, x: Tensor, repeats: Sequence[int]) -> Tensor:
        return arrange.tile(x, repetitions=tuple(repeats))

    def concat(self, tensors: Sequence[Tensor], axis: int) -> Tensor:
        return movement.concat(list(tensors), axis=axis)

    def is_float_type(self, x: Tensor) -> bool:
        return x.dtype.is_inexact

    def einsum(self, pattern: str, *x: Tensor) -> Tensor:
        return contraction.einsum(list(x), subscripts=pattern)
