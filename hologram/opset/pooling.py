"""Pooling: the largest element or the mean of windows; layouts (N, C, W) and (N, C, H, W)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from hologram.atlas.builder import reduce_add, reduce_max, select
from hologram.dtypes import FLOATS, NUMBERS, DType
from hologram.errors import ShapeError
from hologram.layout import Layout
from hologram.opset.convolution import per_axis, tapped, windows
from hologram.opset.forms.map import indexed
from hologram.opset.forms.operation import Sample
from hologram.opset.forms.samples import array


def _pool_shape(who: str, axes: int):
    def infer(x, *, kernel_size, stride, padding, dilation=1, **attributes):
        if x.ndim != axes + 2:
            raise ShapeError(f"{who}: x must have {axes + 2} axes, got {x.shape}")
        k, s, p, d = (
            per_axis(v, axes, who)
            for v in (kernel_size, kernel_size if stride is None else stride, padding, dilation)
        )
        if any(2 * p[i] > k[i] for i in range(axes)):
            raise ShapeError(
                f"{who}: padding must be at most half the kernel size, got {padding} and {kernel_size}"
            )
        sizes = (windows(x.shape[2 + i], k[i], s[i], p[i], d[i], who) for i in range(axes))
        return Layout.contiguous(x.dtype, (*x.shape[:2], *sizes))

    return infer


def _pool_window(x, *, kernel_size, **attributes):
    return per_axis(kernel_size, x.ndim - 2, "pool")


def _pooled(x, kernel_size, stride, padding, dilation, fill):
    axes = np.ndim(x) - 2
    k, s, p, d = (per_axis(v, axes, "pool") for v in (kernel_size, stride or kernel_size, padding, dilation))
    x = np.pad(x, [(0, 0), (0, 0), *((n, n) for n in p)], constant_values=fill)
    sizes = [(x.shape[2 + i] - d[i] * (k[i] - 1) - 1) // s[i] + 1 for i in range(axes)]
    taps = []
    for tap in itertools.product(*(range(n) for n in k)):
        cut = tuple(slice(t * d[i], t * d[i] + (sizes[i] - 1) * s[i] + 1, s[i]) for i, t in enumerate(tap))
        taps.append(x[(slice(None), slice(None), *cut)])
    return np.stack(taps)


def _max_pool_reference(x, kernel_size, stride=None, padding=0, dilation=1):
    lowest = -np.inf if np.asarray(x).dtype.kind == "f" else np.iinfo(x.dtype).min
    return _pooled(x, kernel_size, stride, padding, dilation, lowest).max(axis=0)


def _avg_pool_reference(x, kernel_size, stride=None, padding=0, count_include_pad=True):
    total = _pooled(x, kernel_size, stride, padding, 1, 0.0).sum(axis=0)
    ones = _pooled(np.ones_like(x), kernel_size, stride, padding, 1, 1.0 if count_include_pad else 0.0).sum(
        axis=0
    )
    return total / ones


def _pool_samples(axes: int, **extra: Any):
    def make(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
        for shape, attributes in (
            ((2, 3, 9, 8), {"kernel_size": 2}),
            ((1, 2, 10, 7), {"kernel_size": 3, "stride": 2, "padding": 1, **extra}),
            ((2, 1, 6, 5), {"kernel_size": 3, "stride": 1}),
        ):
            yield Sample((array(rng, dtype, shape[: 2 + axes]),), attributes)

    return make


def _lowest(dtype: DType) -> float | int:
    return -math.inf if dtype.is_float else int(np.iinfo(dtype.numpy).min)


def _max_pool(at, window, x, kernel_size, stride, padding, dilation, who):
    inside, source = tapped(
        x, at[2:], window, kernel_size if stride is None else stride, padding, dilation, who
    )
    return reduce_max(select(inside, x.at(*at[:2], *source), _lowest(x.computed)))


@indexed(shape_of=_pool_shape("max_pool1d", 1), window=_pool_window, dtypes=NUMBERS, samples=_pool_samples(1),
         reference=_max_pool_reference, aten=("max_pool1d",))  # fmt: skip
def max_pool1d(at, window, x, *, kernel_size, stride=None, padding=0, dilation=1):
    """The largest element of each window of x (N, C, W); NaN if any is."""
    return _max_pool(at, window, x, kernel_size, stride, padding, dilation, "max_pool1d")


@indexed(shape_of=_pool_shape("max_pool2d", 2), window=_pool_window, dtypes=NUMBERS, samples=_pool_samples(2),
         reference=_max_pool_reference, aten=("max_pool2d",))  # fmt: skip
def max_pool2d(at, window, x, *, kernel_size, stride=None, padding=0, dilation=1):
    """The largest element of each window of x (N, C, H, W); NaN if any is."""
    return _max_pool(at, window, x, kernel_size, stride, padding, dilation, "max_pool2d")


def _avg_pool(at, window, x, kernel_size, stride, padding, count_include_pad, who):
    inside, source = tapped(x, at[2:], window, kernel_size if stride is None else stride, padding, 1, who)
    total = reduce_add(select(inside, x.at(*at[:2], *source), 0.0))
    if count_include_pad:
        return total / float(math.prod(per_axis(kernel_size, len(window), who)))
    one = x.builder.constant(1.0, x.computed)
    return total / reduce_add(select(inside, one, 0.0))


@indexed(shape_of=_pool_shape("avg_pool1d", 1), window=_pool_window, samples=_pool_samples(1, count_include_pad=False),
         dtypes=FLOATS, reference=_avg_pool_reference, ulp=4, absolute=4.0, aten=("avg_pool1d",))  # fmt: skip
def avg_pool1d(at, window, x, *, kernel_size, stride=None, padding=0, count_include_pad=True):
    """The mean of each window of x (N, C, W); padding counts as zeros, or not at all."""
    return _avg_pool(at, window, x, kernel_size, stride, padding, count_include_pad, "avg_pool1d")


@indexed(shape_of=_pool_shape("avg_pool2d", 2), window=_pool_window, samples=_pool_samples(2, count_include_pad=False),
         dtypes=FLOATS, reference=_avg_pool_reference, ulp=4, absolute=4.0, aten=("avg_pool2d",))  # fmt: skip
def avg_pool2d(at, window, x, *, kernel_size, stride=None, padding=0, count_include_pad=True):
    """The mean of each window of x (N, C, H, W); padding counts as zeros, or not at all."""
    return _avg_pool(at, window, x, kernel_size, stride, padding, count_include_pad, "avg_pool2d")
