"""Fake quantisation: numbers as they would be after a trip through integers, for training that is aware of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import hologram as hg
from hologram.foundation import dtypes
from hologram.frontend.tensor import Tensor
from hologram_torch.kernels.registry import implements, register


def _wide(x: Tensor) -> Tensor:
    return x.astype(dtypes.f32) if x.dtype.bits == 16 else x


def _levels(x: Any, inverse: Any, zero: Any, low: float, high: float) -> tuple[Any, Any]:
    """The integer that each number becomes, and whether it was in range; NaN is the lowest, as on PyTorch's CPU."""
    level = hg.round(x * inverse) + zero
    inside = hg.logical_and(hg.greater_equal(level, low), hg.less_equal(level, high))
    return hg.where(hg.isnan(level), low, hg.clip(level, low, high)), inside


@hg.jit
def _quantised(
    x: Tensor, inverse: Any, scale: Any, zero: Any, low: float, high: float
) -> tuple[Tensor, Tensor]:
    level, inside = _levels(_wide(x), inverse, zero, low, high)
    return ((level - zero) * scale).astype(x.dtype, copy=False), inside


def _per_tensor(x: Tensor, scale: float, zero: float, low: int, high: int) -> tuple[Tensor, Tensor]:
    single = np.float32(scale)
    with np.errstate(divide="ignore"):
        inverse = float(np.float32(1) / single)
    return _quantised(x, inverse, float(single), float(zero), float(low), float(high))


def _refuse_range(name: str, low: int, high: int) -> None:
    if low > high:
        raise RuntimeError(
            f"hologram, {name}: `quant_min` should be less than or equal to `quant_max`, got {low} and {high}"
        )


@implements("fake_quantize_per_tensor_affine_cachemask")
def per_tensor(x: Any, scale: float, zero_point: int, quant_min: int, quant_max: int) -> Any:
    """Also which numbers were in range, and so have a derivative."""
    name = "fake_quantize_per_tensor_affine"
    _refuse_range(name, quant_min, quant_max)
    if not quant_min <= zero_point <= quant_max:
        raise RuntimeError(f"hologram, {name}: `zero_point` must be between `quant_min` and `quant_max`")
    return _per_tensor(x, scale, zero_point, quant_min, quant_max)


@hg.jit
def _switched(x: Tensor, scale: Tensor, zero: Tensor, on: Tensor, low: float, high: float) -> tuple[Any, Any]:
    scale = scale.reshape(()).astype(dtypes.f32, copy=False)
    zero = zero.reshape(()).astype(dtypes.f32, copy=False)
    level, inside = _levels(_wide(x), 1.0 / scale, zero, low, high)
    on = hg.not_equal(on.reshape(()), 0)
    quantised = ((level - zero) * scale).astype(x.dtype, copy=False)
    return hg.where(on, quantised, x), hg.logical_or(inside, hg.logical_not(on))


@implements("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams")
def per_tensor_by_tensors(
    x: Any, scale: Any, zero_point: Any, fake_quant_enabled: Any, quant_min: int, quant_max: int
) -> Any:
    _refuse_range("fake_quantize_per_tensor_affine", quant_min, quant_max)
    return _switched(x, scale, zero_point, fake_quant_enabled, float(quant_min), float(quant_max))


def _across(x: Tensor, values: Tensor, axis: int) -> Tensor:
    """A number for each slice along an axis, to be broadcast, in f32."""
    shape = tuple(values.size if k == axis % x.ndim else 1 for k in range(x.ndim))
    return values.astype(dtypes.f32, copy=False).reshape(shape)


@implements("fake_quantize_per_channel_affine_cachemask")
def per_channel(x: Any, scale: Any, zero_point: Any, axis: int, quant_min: int, quant_max: int) -> Any:
    name = "fake_quantize_per_channel_affine"
    _refuse_range(name, quant_min, quant_max)
    if scale.shape != zero_point.shape or scale.shape != (x.shape[axis],):
        raise RuntimeError(
            f"hologram, {name}: dimensions of scale and zero-point must be those of the axis, {x.shape[axis]}, "
            f"got {scale.shape} and {zero_point.shape}"
        )
    scale, zero = _across(x, scale, axis), _across(x, zero_point, axis)
    return _quantised(x, 1.0 / scale, scale, zero, float(quant_min), float(quant_max))


# With scales and zero points that are learnt. Esser et al., Learned step size quantization (2019).


@implements("_fake_quantize_learnable_per_tensor_affine", inferred=False)
def learnable_per_tensor(
    x: Any, scale: Any, zero_point: Any, quant_min: int, quant_max: int, grad_factor: float = 1.0
) -> Any:
    zero = min(max(round(zero_point.reshape(-1)[0].item()), quant_min), quant_max)
    return _per_tensor(x, scale.reshape(-1)[0].item(), zero, quant_min, quant_max)[0]


@implements("_fake_quantize_learnable_per_channel_affine", inferred=False)
def learnable_per_channel(
    x: Any, scale: Any, zero_point: Any, axis: int, quant_min: int, quant_max: int, grad_factor: float = 1.0
) -> Any:
    scale, zero = _across(x, scale, axis), _across(x, zero_point, axis)
    zero = hg.clip(hg.round(zero), float(quant_min), float(quant_max))
    return _quantised(x, 1.0 / scale, scale, zero, float(quant_min), float(quant_max))[0]


@hg.jit
def _slopes(
    cotangent: Tensor, x: Tensor, scale: Tensor, zero: Tensor, low: float, high: float, factor: float
) -> tuple[Tensor, Tensor, Tensor]:
    wide, slope = _wide(x), _wide(cotangent)
    level, inside = _levels(wide, 1.0 / scale, zero, low, high)
    near = (level - zero) * scale
    by_scale = slope * hg.where(inside, (near - wide) / scale, level - zero) * factor
    by_zero = hg.where(inside, 0.0, slope * (-scale * factor))
    return hg.where(inside, cotangent, 0.0).astype(x.dtype, copy=False), by_scale, by_zero


@implements("_fake_quantize_learnable_per_tensor_affine_backward", inferred=False)
def learnable_per_tensor_backward(
    cotangent: Any,
    x: Any,
    scale: Any,
    zero_point: Any,
    quant_min: int,
    quant_max: int,
    grad_factor: float = 1.0,
) -> Any:
    low, high = float(quant_min), float(quant_max)
    zero = hg.trunc(
        hg.clip(zero_point.reshape(()) + 0.5, low, high)
    )  # PyTorch rounds otherwise on the way forward
    by_x, by_scale, by_zero = _slopes(cotangent, x, scale.reshape(()), zero, low, high, float(grad_factor))
    sums = (hg.sum(v).reshape(1).astype(like.dtype) for v, like in ((by_scale, scale), (by_zero, zero_point)))
    return (by_x, *sums)


@implements("_fake_quantize_learnable_per_channel_affine_backward", inferred=False)
def learnable_per_channel_backward(
    cotangent: Any,
    x: Any,
    scale: Any,
    zero_point: Any,
    axis: int,
    quant_min: int,
    quant_max: int,
    grad_factor: float = 1.0,
) -> Any:
    low, high = float(quant_min), float(quant_max)
    zero = hg.clip(hg.round(_across(x, zero_point, axis)), low, high)
    by_x, by_scale, by_zero = _slopes(
        cotangent, x, _across(x, scale, axis), zero, low, high, float(grad_factor)
    )
    others = tuple(k for k in range(x.ndim) if k != axis % x.ndim)
    sums = [hg.sum(v, axis=others) if others else v for v in (by_scale, by_zero)]
    return by_x, sums[0].astype(scale.dtype, copy=False), sums[1].astype(zero_point.dtype, copy=False)


def _observed(
    x: torch.Tensor,
    observer_on: torch.Tensor,
    fake_quant_on: torch.Tensor,
    running_min: torch.Tensor,
    running_max: torch.Tensor,
    scale: torch.Tensor,
    zero_point: torch.Tensor,
    averaging_const: float,
    quant_min: int,
    quant_max: int,
    ch_axis: int,
    per_row_fake_quant: bool = False,
    symmetric_quant: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Running extremes, and quantised by what follows from them, which PyTorch computes on the host: of two numbers."""
    if observer_on.item():
        rows = x.movedim(ch_axis, 0).flatten(1) if per_row_fake_quant else x.reshape(1, -1)
        ends = torch.stack([rows.amin(1), rows.amax(1)], 1).float().cpu()
        state = (running_min, running_max, scale, zero_point)
        there = [t.cpu() for t in state]
        torch.ops.aten._fused_moving_avg_obs_fq_helper(
            ends, torch.ones(1, dtype=torch.long), fake_quant_on.cpu(), *there, averaging_const,
            quant_min, quant_max, 0, per_row_fake_quant, symmetric_quant,
        )  # fmt: skip
        for own, new in zip(state, there, strict=True):
            own.resize_(new.shape).copy_(new)
    aten = torch.ops.aten
    if not per_row_fake_quant:
        return aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
            x, scale, zero_point, fake_quant_on, quant_min, quant_max
        )
    if not fake_quant_on.item():
        return x.clone(), torch.ones_like(x, dtype=torch.bool)
    return aten.fake_quantize_per_channel_affine_cachemask(
        x, scale, zero_point, ch_axis, quant_min, quant_max
    )


register("_fused_moving_avg_obs_fq_helper", _observed)
