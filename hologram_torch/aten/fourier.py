"""Fourier transforms: what torch.fft, stft and istft come down to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from hologram.frontend import fft
from hologram.frontend.tensor import Tensor
from hologram_torch.kernels.registry import implements

DIVISORS = (lambda n: 1.0, math.sqrt, float)  # by ATen's number of a normalisation


def _scale(count: int, normalization: int) -> float:
    return 1.0 / DIVISORS[normalization](count)


def _along(x: Tensor, dims: Sequence[int], inverse: bool, scale: float = 1.0) -> Tensor:
    """Along one axis after another, the last of which scales."""
    for k, axis in enumerate(dims):
        x = fft.transformed(x, inverse, axis, scale if k == len(dims) - 1 else 1.0)
    return x


def _count(x: Tensor, dims: Sequence[int]) -> int:
    return math.prod(x.shape[axis] for axis in dims)


@implements("_fft_c2c")
def c2c(x: Tensor, dim: list[int], normalization: int, forward: bool) -> Any:
    return _along(x, dim, not forward, _scale(_count(x, dim), normalization))


@implements("_fft_r2c")
def r2c(x: Tensor, dim: list[int], normalization: int, onesided: bool) -> Any:
    scale = _scale(_count(x, dim), normalization)
    if not onesided:
        return _along(x.astype(x.dtype.complex), dim, False, scale)
    *others, last = dim
    return _along(fft.of_reals(x, x.shape[last], last, scale), others, False)


@implements("_fft_c2r")
def c2r(x: Tensor, dim: list[int], normalization: int, last_dim_size: int) -> Any:
    *others, last = dim
    scale = _scale(_count(x, others) * last_dim_size, normalization)
    x = _along(x, others, True).narrow(last, 0, last_dim_size // 2 + 1)
    return fft.to_reals(x, last_dim_size, last, scale)
