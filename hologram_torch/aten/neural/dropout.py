"""Elements left out at random, with the mask that the way back reads."""

from __future__ import annotations

from typing import Any

import torch

import hologram as hg
from hologram.foundation import dtypes
from hologram.frontend.tensor import Tensor
from hologram.machine.layout import Layout
from hologram_torch.aten.random import uniform
from hologram_torch.kernels.fused import fused, told
from hologram_torch.kernels.registry import register
from hologram_torch.kernels.results import placed, write
from hologram_torch.kernels.strides import iterated
from hologram_torch.tensors.memory import hologram_tensor, torch_tensor


@told
def _dropped(x: Tensor, number: Tensor, p: float) -> tuple[Tensor, Tensor]:
    kept = hg.greater_equal(number, p)
    return hg.where(kept, x * (1.0 / (1.0 - p)), 0.0).astype(x.dtype, copy=False), kept


def native_dropout(x: torch.Tensor, p: float, train: bool | None) -> tuple[torch.Tensor, torch.Tensor]:
    """x / (1 - p) where a random number is at least p, else 0; and where that is."""
    if train is False or p == 0:
        return x.clone(), torch.ones_like(x, dtype=torch.bool)
    if p == 1:
        return torch.zeros_like(x), torch.zeros_like(x, dtype=torch.bool)
    if not x.is_floating_point():
        raise RuntimeError(f"hologram, native_dropout: floats are needed, got {x.dtype}")
    results = _dropped(hologram_tensor(x), uniform(x, None, dtypes.f32), p)
    strides = iterated(x.shape, [x.stride()])
    result, kept = (torch_tensor(placed(r, Layout(r.dtype, r.shape, strides), ())) for r in results)
    return result, kept


register("native_dropout", native_dropout)


@fused
def _leaky(x: Tensor, number: Tensor, lower: float, upper: float) -> tuple[Tensor, Tensor]:
    slope = hg.where(hg.less_equal(x, 0), lower + number * (upper - lower), 1.0).astype(x.dtype, copy=False)
    return x * slope, slope


def rrelu_with_noise(
    x: torch.Tensor, noise: torch.Tensor, lower: Any = 1 / 8, upper: Any = 1 / 3, training: bool = False,
    generator: torch.Generator | None = None,
) -> torch.Tensor:  # fmt: skip
    """x above 0, elsewhere x by a random slope, which `noise` keeps; by the mean slope out of training."""
    if not training:
        rows = x.contiguous()  # as PyTorch's results lie
        return torch.nn.functional.leaky_relu(rows, (lower + upper) / 2)
    result, slope = _leaky(hologram_tensor(x), uniform(x, generator), float(lower), float(upper))
    write(slope, hologram_tensor(noise))
    return torch_tensor(result)


register("rrelu_with_noise", rrelu_with_noise)
register("rrelu_with_noise_", lambda x, *given, **named: x.copy_(rrelu_with_noise(x, *given, **named)))
