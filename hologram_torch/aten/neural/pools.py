"""Pooling by the largest element, with the positions that PyTorch gives beside them, and what undoes it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import hologram as hg
from hologram.foundation import dtypes
from hologram.frontend.tensor import Tensor
from hologram_torch.aten.indexing import positions as places
from hologram_torch.kernels import tables
from hologram_torch.kernels.fused import fused
from hologram_torch.kernels.registry import add, implements


def _dense(table: np.ndarray, length: int) -> np.ndarray:
    """Positions of windows, of which those out of range stand for the first that is not."""
    inside = (table >= 0) & (table < length)
    first = table[np.arange(len(table)), inside.argmax(axis=1)]
    return np.where(inside, table, first[:, None])


@fused
def _largest(x: Tensor, kept: list[Tensor], number: Tensor, taps: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """The largest of each window, and where it is: `kept` are the windows' positions, `number` the flat ones."""
    axes = len(kept)
    outer = x.shape[: x.ndim - axes]
    for axis, positions in enumerate(kept, x.ndim - axes):
        x = hg.index_select(x, positions, axis=axis)
    results = tuple(p.size // t for p, t in zip(kept, taps, strict=True))
    split = [n for pair in zip(results, taps, strict=True) for n in pair]
    first = len(outer)
    order = [*range(first), *(first + 2 * k for k in range(axes)), *(first + 2 * k + 1 for k in range(axes))]
    windows = x.reshape(*outer, *split).permute(order).reshape(*outer, *results, math.prod(taps))
    place = hg.argmax(windows, axis=-1, keepdims=True)
    value = hg.gather(windows, place, dim=-1).squeeze(-1)
    return value, hg.gather(number.expand(windows.shape), place, dim=-1).squeeze(-1)


def largest(x: Tensor, windows: Sequence[np.ndarray]) -> tuple[Tensor, Tensor]:
    """Along the last axes, by the positions (results, taps) of windows along each."""
    lengths = x.shape[x.ndim - len(windows) :]
    dense = [_dense(w, n) for w, n in zip(windows, lengths, strict=True)]
    total: Any = 0
    for k, (positions, length) in enumerate(zip(dense, lengths, strict=True)):
        shape = [1] * (2 * len(dense))
        shape[k], shape[len(dense) + k] = positions.shape
        total = total * length + positions.reshape(shape)
    number = total.reshape(*(len(d) for d in dense), -1).astype(np.int64)
    kept = [x.executor.tensor(d.reshape(-1).astype(np.int32)) for d in dense]
    return _largest(x, kept, x.executor.tensor(number), tuple(d.shape[1] for d in dense))


def _windows(length: int, kernel: int, stride: int, padding: int, dilation: int, ceil: bool) -> np.ndarray:
    first, _ = tables.window_bounds(length, dilation * (kernel - 1) + 1, stride, padding, ceil)
    return first[:, None] + np.arange(kernel) * dilation


@fused
def _largest_in_images(x: Tensor, settings: dict[str, Any]) -> tuple[Tensor, Tensor]:
    value = hg.max_pool2d(x, **settings)
    return value, hg.max_pool2d_positions(x, value, **settings).astype(dtypes.i64)


def _max_pooling(axes: int) -> Callable[..., Any]:
    def compute(
        x: Tensor,
        kernel_size: Any,
        stride: Any = (),
        padding: Any = (0,),
        dilation: Any = (1,),
        ceil_mode: bool = False,
    ) -> tuple[Tensor, Tensor]:
        kernel = tables.per_axis(kernel_size, axes)
        stride = tables.per_axis(stride, axes) if stride else kernel
        padding, dilation = tables.per_axis(padding, axes), tables.per_axis(dilation, axes)
        if axes == 2 and not ceil_mode and x.size:
            settings = {"kernel_size": kernel, "stride": stride, "padding": padding, "dilation": dilation}
            value, place = _largest_in_images(x if x.ndim == 4 else x.unsqueeze(0), settings)
            return (value, place) if x.ndim == 4 else (value.squeeze(0), place.squeeze(0))
        lengths = x.shape[x.ndim - axes :]
        each = zip(lengths, kernel, stride, padding, dilation, strict=True)
        return largest(x, [_windows(*settings, ceil_mode) for settings in each])

    return compute


def _adaptive(axes: int) -> Callable[..., Any]:
    def compute(x: Tensor, output_size: Any) -> tuple[Tensor, Tensor]:
        lengths = x.shape[x.ndim - axes :]
        return largest(
            x, [tables.adaptive(n, m).positions for n, m in zip(lengths, output_size, strict=True)]
        )

    return compute


@fused
def _returned(cotangent: Tensor, positions: Tensor, shape: tuple[int, ...], axes: int) -> Tensor:
    """Every cotangent, added up at its position."""
    outer, size = math.prod(shape[:-axes]), math.prod(shape[-axes:])
    zeros = cotangent.executor.full((), 0, cotangent.dtype).expand((outer, size))
    flat = (v.reshape(outer, math.prod(cotangent.shape[-axes:])) for v in (positions, cotangent))
    return hg.scatter_add(zeros, *flat, dim=1).reshape(shape)


def _max_pooling_backward(axes: int) -> Callable[..., Any]:
    def compute(cotangent: Tensor, x: Tensor, *rest: Any, **named: Any) -> Tensor:
        positions = [*rest, *named.values()][-1]
        return _returned(cotangent, positions, x.shape, axes)

    return compute


for _axes in (2, 3):
    add(f"max_pool{_axes}d_with_indices", _max_pooling(_axes))
    add(f"max_pool{_axes}d_with_indices_backward", _max_pooling_backward(_axes))
    add(f"adaptive_max_pool{_axes}d", _adaptive(_axes))
    add(f"adaptive_max_pool{_axes}d_backward", _max_pooling_backward(_axes))
    add(f"fractional_max_pool{_axes}d_backward", _max_pooling_backward(_axes))


# Windows at random: Graham, Fractional max-pooling (2014), as PyTorch draws them.


def _fractional(axes: int) -> Callable[..., Any]:
    def compute(
        x: Tensor, kernel_size: Any, output_size: Any, random_samples: Tensor
    ) -> tuple[Tensor, Tensor]:
        outer, lengths = x.shape[: x.ndim - axes], x.shape[x.ndim - axes :]
        samples = random_samples.reshape(*outer, axes, *(1,) * axes)
        flat: Any = 0
        for k, (length, kernel, results) in enumerate(zip(lengths, kernel_size, output_size, strict=True)):
            # The last axis has the first sample, but PyTorch gives depth the first of three.
            sample = samples.select(len(outer), k if axes == 3 else axes - 1 - k)
            alpha = (length - kernel) / max(results - 1, 1)
            number = np.arange(results, dtype=x.dtype.numpy if x.dtype.bits > 16 else np.float32)
            shape = [1] * axes
            shape[k] = results
            number = x.executor.tensor(number.reshape(shape))
            first = hg.trunc((sample + number) * alpha) - hg.trunc(sample * alpha)
            first = hg.where(hg.greater_equal(number, results - 1), length - kernel, first).astype(dtypes.i64)
            taps = [1] * axes
            taps[k] = kernel
            taps = x.executor.tensor(np.arange(kernel, dtype=np.int64).reshape(taps))
            place = first.reshape(*first.shape, *(1,) * axes) + taps
            flat = flat * length + place
        windows = flat.reshape(*outer, math.prod(output_size), math.prod(kernel_size))
        rows = x.reshape(*outer, math.prod(lengths))
        elements = hg.gather(rows, windows.reshape(*outer, -1), dim=-1).reshape(windows.shape)
        best = hg.argmax(elements, axis=-1, keepdims=True)
        shape = (*outer, *output_size)
        return tuple(hg.gather(v, best, dim=-1).reshape(shape) for v in (elements, windows))  # type: ignore[return-value]

    return compute


add("fractional_max_pool2d", _fractional(2))
add("fractional_max_pool3d", _fractional(3))


# What undoes pooling.


def _unpooled(x: Tensor, indices: Tensor, output_size: Sequence[int], axes: int) -> Tensor:
    outer, size = x.shape[: x.ndim - axes], math.prod(output_size)
    places.check(f"max_unpool{axes}d", indices, size, kind=RuntimeError)
    zeros = x.executor.full((), 0, x.dtype).expand((*outer, size))
    flat = (v.reshape(*outer, math.prod(x.shape[x.ndim - axes :])) for v in (indices, x))
    return hg.scatter(zeros, *flat, dim=-1).reshape(*outer, *output_size)


@implements("max_unpool2d")
def max_unpool2d(x: Tensor, indices: Tensor, output_size: Any) -> Tensor:
    return _unpooled(x, indices, output_size, 2)


@implements("max_unpool3d")
def max_unpool3d(x: Tensor, indices: Tensor, output_size: Any, stride: Any, padding: Any) -> Tensor:
    return _unpooled(x, indices, output_size, 3)


# Windows as columns.


def _column_windows(
    x_lengths: Any, kernel: Any, dilation: Any, padding: Any, stride: Any
) -> list[np.ndarray]:
    each = zip(x_lengths, kernel, stride, padding, dilation, strict=True)
    return [_windows(*settings, False) for settings in each]


def _flat_windows(lengths: Sequence[int], windows: Sequence[np.ndarray]) -> np.ndarray:
    """The flat position of every tap of every window, (taps, windows); the number of elements for those outside."""
    rows, columns = windows
    inside = ((rows >= 0) & (rows < lengths[0])).T[:, None, :, None] & (
        (columns >= 0) & (columns < lengths[1])
    ).T[None, :, None, :]
    flat = rows.T[:, None, :, None] * lengths[1] + columns.T[None, :, None, :]
    count = rows.shape[1] * columns.shape[1]
    return np.where(inside, flat, lengths[0] * lengths[1]).reshape(count, -1).astype(np.int32)


@implements("im2col")
def im2col(x: Tensor, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Tensor:
    lengths = x.shape[-2:]
    settings = (tables.per_axis(v, 2) for v in (kernel_size, dilation, padding, stride))
    flat = _flat_windows(lengths, _column_windows(lengths, *settings))
    rows = x.reshape(*x.shape[:-2], math.prod(lengths))
    columns = hg.index_select(rows, x.executor.tensor(flat.reshape(-1)), axis=-1)
    return columns.reshape(*x.shape[:-3], x.shape[-3] * flat.shape[0], flat.shape[1])


@implements("col2im")
def col2im(x: Tensor, output_size: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Tensor:
    settings = (tables.per_axis(v, 2) for v in (kernel_size, dilation, padding, stride))
    flat = _flat_windows(output_size, _column_windows(output_size, *settings))
    size, channels = math.prod(output_size), x.shape[-2] // len(flat)
    rows = x.reshape(*x.shape[:-2], channels, flat.size)
    zeros = x.executor.full((), 0, x.dtype).expand((*rows.shape[:-1], size))
    index = x.executor.tensor(flat.reshape(-1)).expand(rows.shape)
    return hg.scatter_add(zeros, index, rows, dim=-1).reshape(*x.shape[:-2], channels, *output_size)
