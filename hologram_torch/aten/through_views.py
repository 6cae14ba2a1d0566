"""What is written through a view into a copy of the whole, the derivatives of views, and whether two are the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from hologram_torch.kernels.registry import register


def _as_strided_scatter(
    x: torch.Tensor,
    source: torch.Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> torch.Tensor:
    """A copy of a tensor, laid out as it is, with the source written through a view."""
    offset = x.storage_offset() if storage_offset is None else storage_offset
    copy = _laid_out_alike(x)
    copy.as_strided(size, stride, offset).copy_(source)
    return copy


def _laid_out_alike(x: torch.Tensor) -> torch.Tensor:
    """A copy of all that a tensor's storage holds, seen as the tensor sees it."""
    held = x.untyped_storage().nbytes() // x.element_size()
    flat = x.as_strided((held,), (1,), 0).clone()
    return flat.as_strided(x.shape, x.stride(), x.storage_offset())


def _scatter(name: str, view: Callable[..., torch.Tensor]) -> None:
    """Registers the form of a view that gives a copy of the whole with a source written through it."""

    def scatter(x: torch.Tensor, source: torch.Tensor, *where: Any, **named: Any) -> torch.Tensor:
        overlaps = any(n > 1 and not step for n, step in zip(x.shape, x.stride(), strict=True))
        copy = x.clone() if overlaps else _laid_out_alike(x)
        part = view(copy, *where, **named)
        if part.shape != source.shape:
            raise RuntimeError(
                f"hologram, {name}: expected src to have a size equal to the slice of self. "
                f"src size = {list(source.shape)}, slice size = {list(part.shape)}"
            )
        part.copy_(source)
        return copy

    register(name, scatter)  # not recorded: how much the storage holds is no part of a structure


def _view_backward(view: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """The derivative of a view: a cotangent where it looks, 0 elsewhere."""

    def backward(cotangent: torch.Tensor, sizes: Sequence[int], *where: Any) -> torch.Tensor:
        gradient = cotangent.new_zeros(sizes)
        view(gradient, *where).copy_(cotangent)
        return gradient

    return backward


def _view_copy(x: torch.Tensor, size: Sequence[int]) -> torch.Tensor:
    """The elements row by row in memory of their own, whether or not there is a view of that shape."""
    viewed = x.reshape(size)
    copied = viewed.untyped_storage()._cdata != x.untyped_storage()._cdata
    return viewed if copied else viewed.clone(memory_format=torch.contiguous_format)


register("view_copy", _view_copy)
register("select_backward", _view_backward(torch.select), recorded=True)
register("slice_backward", _view_backward(torch.ops.aten.slice.Tensor), recorded=True)
register("as_strided_scatter", _as_strided_scatter)
_scatter("select_scatter", torch.select)
_scatter("slice_scatter", torch.ops.aten.slice.Tensor)
_scatter("diagonal_scatter", torch.diagonal)


def _is_set_to(x: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether both see the same elements of one memory, in the same way."""
    same = x.untyped_storage()._cdata == other.untyped_storage()._cdata
    return (
        same
        and x.shape == other.shape
        and x.stride() == other.stride()
        and x.storage_offset() == other.storage_offset()
    )


register("is_set_to", _is_set_to)
