"""The exclusive or of all elements' bits."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from hologram_torch.kernels.registry import register


def _folded(x: torch.Tensor, dim: int) -> torch.Tensor:
    """Half of an axis over the other half, until one element is left."""
    while (n := x.shape[dim]) > 1:
        half = n // 2
        folded = x.narrow(dim, 0, half) ^ x.narrow(dim, half, half)
        x = folded if n % 2 == 0 else torch.cat([folded, x.narrow(dim, n - 1, 1)], dim)
    return x if n else torch.zeros_like(x.sum(dim, keepdim=True))


def _hash_tensor(
    x: torch.Tensor, dim: Sequence[int] = (), *, keepdim: bool = False, mode: int = 0
) -> torch.Tensor:
    """Along axes, all if none is named: of floats as doubles, of the rest as 64-bit integers."""
    if mode:
        raise RuntimeError(f"hologram, hash_tensor: mode must be 0, got {mode}")
    bits = x.double().view(torch.int64) if x.is_floating_point() else x.to(torch.int64)
    axes = sorted({d % x.ndim for d in dim} or range(x.ndim), reverse=True) if x.ndim else []
    for axis in axes:
        bits = _folded(bits, axis)
        bits = bits if keepdim else bits.squeeze(axis)
    return bits.view(torch.uint64)


def _hash_tensor_out(
    x: torch.Tensor, dim: Sequence[int] = (), *, keepdim: bool = False, mode: int = 0, out: torch.Tensor
) -> torch.Tensor:
    if out.dtype != torch.uint64:
        raise RuntimeError(f"hologram, hash_tensor: an output of uint64 is needed, got {out.dtype}")
    hashes = _hash_tensor(x, dim, keepdim=keepdim, mode=mode)
    return out.resize_(hashes.shape).copy_(hashes)


register("hash_tensor", _hash_tensor)
register("hash_tensor.out", _hash_tensor_out)
