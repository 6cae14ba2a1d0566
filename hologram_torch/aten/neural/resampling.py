"""Interpolation, padding by reflection or repetition, and pooling by means: an axis at a time, by tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

import hologram as hg
from hologram.foundation import dtypes
from hologram.frontend.tensor import Tensor
from hologram.opset.neural.resampling import resample
from hologram.runtime.dispatch import deferred
from hologram.runtime.launches.recording import constant
from hologram_torch.kernels import tables
from hologram_torch.kernels.fused import fused
from hologram_torch.kernels.operators import present
from hologram_torch.kernels.registry import add
from hologram_torch.kernels.tables import Rule, Table

MAX_KEPT = 256  # tables in a device's memory


@lru_cache(maxsize=MAX_KEPT)
def _kept(executor: Any, table: Table, dtype: Any) -> tuple[Tensor, Tensor | None]:
    return _made(executor, table, dtype)


def _made(executor: Any, table: Table, dtype: Any) -> tuple[Tensor, Tensor | None]:
    weights = None if table.weights is None else executor.tensor(table.weights.astype(dtype.numpy))
    positions = table.positions.reshape(-1) if weights is None else table.positions
    return executor.tensor(np.ascontiguousarray(positions)), weights


@fused
def _along(x: Tensor, axes: list[int], kept: list[Any]) -> Tensor:
    """x resampled along axes, in the dtype that sums are computed in."""
    for axis, (positions, weights) in zip(axes, kept, strict=True):
        if weights is None:
            x = hg.index_select(x, positions, axis=axis)
        else:
            x = resample(x.astype(x.dtype.computed, copy=False), positions, weights, axis=axis)
    return x


def resampled(x: Tensor, along: Sequence[Table]) -> Tensor:
    """x resampled along its last axes, one table for each; integers are computed as f64."""
    if x.dtype.is_integer and any(t.weights is not None for t in along):
        x = x.astype(dtypes.f64 if x.dtype.bits > 16 else dtypes.f32)
    make = _made if deferred() else _kept
    kept = [list(make(x.executor, t, x.dtype.computed)) for t in along]
    for each in kept:
        for own in each:
            if own is not None:
                constant(own.buffer)
    return _along(x, list(range(x.ndim - len(along), x.ndim)), kept)


def _real(x: Tensor) -> Any:
    return np.float64 if x.dtype is dtypes.f64 or x.dtype.is_integer else np.float32


# Interpolation.


def _tables(
    rule: Rule, x: Tensor, lengths: Any, results: Any, aligned: bool, scales: Sequence[Any]
) -> list[Table]:
    scales = (*scales, *(None,) * (len(results) - len(scales)))
    real = _real(x)
    return [rule(n, m, s, aligned, real) for n, m, s in zip(lengths, results, scales, strict=True)]


def _in_bytes(x: Tensor, along: Sequence[Table]) -> Tensor:
    """As PyTorch does with integers of 8 bits: the last axis first, rounded after each, weights of 16 bits."""
    for axis in reversed(range(x.ndim - len(along), x.ndim)):
        table = along[axis - x.ndim]
        if table.weights is not None:
            largest = float(np.abs(table.weights).max(initial=0.0))
            bits = next((b for b in range(22) if int(0.5 + largest * 2 ** (b + 1)) >= 2**15), 22)
            whole = np.trunc(table.weights * 2.0**bits + np.copysign(0.5, table.weights)) * 2.0**-bits
            table = Table(table.positions, whole, table.length)
        moved = resampled(x.swapaxes(axis, -1), [table]).swapaxes(axis, -1)
        x = hg.clip(hg.floor(moved + 0.5), 0, 255).astype(dtypes.u8) if moved.dtype is not x.dtype else moved
    return x


def _upsampling(rule: Rule, with_corners: bool) -> Callable[..., Any]:
    def compute(x: Tensor, output_size: Any, *rest: Any, **named: Any) -> Tensor:
        rest = (*rest, *named.values())
        aligned, scales = (rest[0], rest[1:]) if with_corners else (False, rest)
        along = _tables(rule, x, x.shape[2:], output_size, aligned, scales)
        return _in_bytes(x, along) if x.dtype is dtypes.u8 else resampled(x, along)

    return compute


def _upsampling_backward(rule: Rule, with_corners: bool) -> Callable[..., Any]:
    def compute(cotangent: Tensor, output_size: Any, input_size: Any, *rest: Any, **named: Any) -> Tensor:
        rest = (*rest, *named.values())
        aligned, scales = (rest[0], rest[1:]) if with_corners else (False, rest)
        along = _tables(rule, cotangent, input_size[2:], output_size, aligned, scales)
        return resampled(cotangent, [t.transposed for t in along])

    return compute


INTERPOLATIONS: tuple[tuple[str, Rule, bool], ...] = (  # whether they ask if corners are aligned
    ("upsample_nearest1d", tables.nearest, False),
    ("upsample_nearest2d", tables.nearest, False),
    ("upsample_nearest3d", tables.nearest, False),
    ("_upsample_nearest_exact1d", tables.nearest_exact, False),
    ("_upsample_nearest_exact2d", tables.nearest_exact, False),
    ("_upsample_nearest_exact3d", tables.nearest_exact, False),
    ("upsample_linear1d", tables.linear, True),
    ("upsample_bilinear2d", tables.linear, True),
    ("upsample_trilinear3d", tables.linear, True),
    ("upsample_bicubic2d", tables.cubic, True),
    ("_upsample_bilinear2d_aa", tables.linear_smooth, True),
    ("_upsample_bicubic2d_aa", tables.cubic_smooth, True),
    ("_upsample_lanczos2d_aa", tables.lanczos_smooth, True),
)

for _name, _rule, _corners in INTERPOLATIONS:
    if any(present(_name)):
        add(_name, _upsampling(_rule, _corners))
        add(f"{_name}_backward", _upsampling_backward(_rule, _corners))


# Padding.


def _padded(rule: Rule, x: Tensor, padding: Sequence[int]) -> list[Table]:
    """Padding is given from the last axis on."""
    axes = len(padding) // 2
    pairs = [padding[2 * k : 2 * k + 2] for k in reversed(range(axes))]
    return [rule(n, *pair) for n, pair in zip(x.shape[x.ndim - axes :], pairs, strict=True)]


def _padding(rule: Rule) -> Callable[..., Any]:
    return lambda x, padding: resampled(x, _padded(rule, x, padding))


def _padding_backward(rule: Rule) -> Callable[..., Any]:
    def compute(cotangent: Tensor, x: Tensor, padding: Sequence[int]) -> Tensor:
        along = [t.transposed for t in _padded(rule, x, padding)]
        if not cotangent.dtype.is_complex:
            return resampled(cotangent, along)
        return hg.complex(*(resampled(part(cotangent), along) for part in (hg.real, hg.imag)))

    return compute


for _axes in (1, 2, 3):
    for _name, _rule in (("reflection_pad", tables.reflected), ("replication_pad", tables.replicated)):
        add(f"{_name}{_axes}d", _padding(_rule))
        add(f"{_name}{_axes}d_backward", _padding_backward(_rule))


# Means of windows.


def _adaptive(x: Tensor, output_size: Sequence[int]) -> list[Table]:
    return [
        tables.adaptive(n, m) for n, m in zip(x.shape[x.ndim - len(output_size) :], output_size, strict=True)
    ]


def _adaptive_pooling_backward(axes: int) -> Callable[..., Any]:
    def compute(cotangent: Tensor, x: Tensor) -> Tensor:
        along = _adaptive(x, cotangent.shape[cotangent.ndim - axes :])
        return resampled(cotangent, [t.transposed for t in along])

    return compute


for _axes in (2, 3):
    add(f"_adaptive_avg_pool{_axes}d", lambda x, output_size: resampled(x, _adaptive(x, output_size)))
    add(f"_adaptive_avg_pool{_axes}d_backward", _adaptive_pooling_backward(_axes))


def _window_tables(
    axes: int,
    x: Tensor,
    kernel: Any,
    stride: Any,
    padding: Any,
    ceil: bool,
    padded: bool,
    divisor: int | None,
) -> list[Table]:
    kernel = tables.per_axis(kernel, axes)
    stride = tables.per_axis(stride, axes) if stride else kernel
    padding = tables.per_axis(padding, axes)
    divisors = [divisor, *(None if divisor is None else 1,) * (axes - 1)]
    return [
        tables.means(n, k, s, p, ceil, padded, d)
        for n, k, s, p, d in zip(x.shape[x.ndim - axes :], kernel, stride, padding, divisors, strict=True)
    ]


def _mean_pooling(axes: int) -> Callable[..., Any]:
    def compute(
        x: Tensor,
        kernel: Any,
        stride: Any = (),
        padding: Any = (0,),
        ceil: bool = False,
        padded: bool = True,
        divisor: int | None = None,
        *,
        ceil_mode: bool | None = None,
        count_include_pad: bool | None = None,
        divisor_override: int | None = None,
    ) -> Tensor:
        ceil = ceil if ceil_mode is None else ceil_mode
        padded = padded if count_include_pad is None else count_include_pad
        divisor = divisor if divisor_override is None else divisor_override
        along = _window_tables(axes, x, kernel, stride, padding, ceil, padded, divisor)
        if x.dtype.is_float:
            return resampled(x, along)
        sums = resampled(x, [Table(t.positions, np.sign(t.weights), t.length) for t in along])  # type: ignore[arg-type]
        counts = tables.whole([np.rint(1.0 / np.abs(t.weights).max(axis=1)) for t in along])  # type: ignore[union-attr]
        return hg.trunc(hg.divide(sums, x.executor.tensor(counts.astype(sums.dtype.numpy)))).astype(x.dtype)

    return compute


def _mean_pooling_backward(axes: int) -> Callable[..., Any]:
    def compute(cotangent: Tensor, x: Tensor, *settings: Any) -> Tensor:
        return resampled(cotangent, [t.transposed for t in _window_tables(axes, x, *settings)])

    return compute


for _axes in (2, 3):
    add(f"avg_pool{_axes}d", _mean_pooling(_axes))
    add(f"avg_pool{_axes}d_backward", _mean_pooling_backward(_axes))
