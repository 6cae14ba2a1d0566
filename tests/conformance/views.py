"""Tensors of the host as views on the device: everything else in their memory is poison, which no result may show."""

from __future__ import annotations

from collections.abc import Callable

import torch


def poison(shape: torch.Size, dtype: torch.dtype) -> torch.Tensor:
    """NaN, or of integers a number that is no position in anything small."""
    number = float("nan") if dtype.is_floating_point or dtype.is_complex else 101
    return (
        torch.full(shape, number, dtype=dtype) if dtype is not torch.bool else torch.ones(shape, dtype=dtype)
    )


def _between(x: torch.Tensor) -> torch.Tensor:
    around = poison(x.shape, x.dtype)
    return torch.stack([around, x, around])


def offset(x: torch.Tensor, device: str) -> torch.Tensor:
    """Contiguous, and neither the first nor the last in its memory."""
    return _between(x).to(device)[1]


def stepped(x: torch.Tensor, device: str) -> torch.Tensor:
    """Every second element along each axis, from the second on."""
    wide = poison(torch.Size([2 * n + 1 for n in x.shape]), x.dtype)
    inner = (slice(1, None, 2),) * x.ndim
    wide[inner] = x
    return wide.to(device)[inner]


def transposed(x: torch.Tensor, device: str) -> torch.Tensor:
    """The axes the other way round, in one column of what lies there."""
    order = tuple(reversed(range(x.ndim)))
    turned = x.permute(order)
    wide = torch.stack([poison(turned.shape, x.dtype), turned], -1)
    return wide.to(device)[..., 1].permute(order)


def first_repeated(x: torch.Tensor, device: str) -> torch.Tensor:
    """The first of the tensor along its first axis, repeated along that."""
    return offset(x[:1], device).expand(x.shape)


def last_repeated(x: torch.Tensor, device: str) -> torch.Tensor:
    """The first of the tensor along its last axis, repeated along that."""
    return stepped(x[..., :1], device).expand(x.shape)


def other(x: torch.Tensor, device: str) -> torch.Tensor:
    """In memory of another dtype: bytes, or of complex numbers pairs of floats."""
    if x.dtype.is_complex:
        return torch.view_as_complex(offset(torch.view_as_real(x.resolve_conj()), device))
    if not x.numel():
        return offset(x, device)
    between = _between(x)
    memory = between.reshape(-1).view(torch.uint8).to(device)
    return memory.view(x.dtype).reshape(between.shape)[1]


KINDS: tuple[Callable[[torch.Tensor, str], torch.Tensor], ...] = (
    offset,
    stepped,
    transposed,
    first_repeated,
    last_repeated,
    other,
)


def seen(x: torch.Tensor, device: str, kind: Callable[[torch.Tensor, str], torch.Tensor]) -> torch.Tensor:
    """A tensor as a view of a kind; what has no axes is one from an offset, and what is sparse stays as it is."""
    if x.layout is not torch.strided:
        return x.to(device)
    return (kind if x.ndim else offset)(x.detach(), device)
