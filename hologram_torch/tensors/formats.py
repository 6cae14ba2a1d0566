"""Which tensors PyTorch takes for images, or volumes, whose channels lie side by side."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def is_channels_last(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether sizes and strides, of elements, are such a tensor's; the rule is that of c10/core/MemoryFormat.h."""
    ndim = len(shape)
    if ndim not in (4, 5) or not strides[1]:
        return False
    least = 0
    for axis in (1, *range(ndim - 1, 1, -1), 0):
        # With one place and one channel it is row by row as well, which counts.
        if not shape[axis] or strides[axis] < least or (axis == 0 and strides[1] == least):
            return False
        least = strides[axis] * shape[axis]
    return True


def memory_format(x: torch.Tensor) -> torch.memory_format:
    """The format that PyTorch suggests for results of a tensor."""
    if not is_channels_last(x.shape, x.stride()):
        return torch.contiguous_format
    return torch.channels_last if x.ndim == 4 else torch.channels_last_3d
