"""Fourier transforms: what torch.fft, stft and istft come down to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import hologram as hg
from hologram.frontend import fft
from hologram.frontend.tensor import Tensor
from hologram_torch.kernels.registry import implements

DIVISORS = (lambda n: 1.0, math.sqrt, float)  # by ATen's number of a normalisation


def _scaled(x: Tensor, count: int, normalization: int) -> Tensor:
    return x * (1.0 / DIVISORS[normalization](count)) if normalization else x


def _along(x: Tensor, dims: Sequence[int], inverse: bool) -> Tensor:
    for axis in dims:
        x = fft.transformed(x.transpose(axis, -1), inverse).transpose(axis, -1)
    return x


def _count(x: Tensor, dims: Sequence[int]) -> int:
    return math.prod(x.shape[axis] for axis in dims)


@implements("_fft_c2c")
def c2c(x: Tensor, dim: list[int], normalization: int, forward: bool) -> Any:
    return _scaled(_along(x, dim, not forward), _count(x, dim), normalization)


@implements("_fft_r2c")
def r2c(x: Tensor, dim: list[int], normalization: int, onesided: bool) -> Any:
    count = _count(x, dim)
    if not onesided:
        return _scaled(_along(x.astype(x.dtype.complex), dim, False), count, normalization)
    *others, last = dim
    return _scaled(_along(hg.fft.rfft(x, axis=last), others, False), count, normalization)


@implements("_fft_c2r")
def c2r(x: Tensor, dim: list[int], normalization: int, last_dim_size: int) -> Any:
    *others, last = dim
    count = _count(x, others) * last_dim_size
    numbers = hg.fft.irfft(_along(x, others, True), n=last_dim_size, axis=last, norm="forward")
    return _scaled(numbers, count, normalization)
