"""Pooling: the largest element or the mean of windows; layouts (N, C, W) and (N, C, H, W)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from functools import reduce
from operator import add, and_
from typing import Any

import numpy as np

from hologram.atlas.functions import maximum, minimum, reduce_add, reduce_max, reduce_min, select
from hologram.foundation import dtypes
from hologram.foundation.dtypes import FLOATS, NUMBERS, DType
from hologram.foundation.errors import ShapeError
from hologram.machine.axes import integers
from hologram.machine.layout import Layout
from hologram.opset.forms.map import indexed
from hologram.opset.forms.operation import Sample
from hologram.opset.forms.samples import array
from hologram.opset.forms.windows import folded, per_axis, swept, windows
from hologram.opset.indexing import scatter_add
from hologram.opset.math import divide
from hologram.opset.neural.convolution import tapped, within

LONG_ROW = 32


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


def _pool_window(x, largest=None, *, kernel_size, padding, **attributes):
    """Extents to reduce over; beside padding rows are no even steps through memory, of which short ones make much."""
    kernel = per_axis(kernel_size, x.ndim - 2, "pool")
    return kernel if any(integers(padding, "pool: padding")) and x.shape[-1] < LONG_ROW else swept(kernel)


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
    lowest = dtypes.dtype(np.asarray(x).dtype).lowest
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


def _largest(at, window, x, kernel_size, stride, padding, dilation, who):
    """The largest element of the window, and a function of a tap: whether it lies on x, its places, and the element."""
    stride = kernel_size if stride is None else stride

    def taken(tap):
        inside, source = tapped(x, at[2:], tap, stride, padding, dilation, who)
        return inside, source, within(inside, x.at(*at[:2], *source), x.computed.lowest)

    kernel = per_axis(kernel_size, x.ndim - 2, who)
    return folded(window, kernel, reduce_max, maximum, lambda tap: taken(tap)[-1]), taken


def _position(at, window, x, largest, kernel_size, stride, padding, dilation, who):
    highest, taken = _largest(at, window, x, kernel_size, stride, padding, dilation, who)
    largest = highest if largest is None else largest.at(*at)

    def position(tap):
        inside, source, element = taken(tap)
        place = source[0]
        for axis, coordinate in enumerate(source[1:], 3):
            place = place * x.extent(axis) + coordinate
        is_it = (element == largest) | (element != element) if x.computed.is_float else element == largest
        is_it = is_it if inside is None else inside & is_it
        return select(is_it, place.to(dtypes.i32), 2**31 - 1)

    return folded(window, per_axis(kernel_size, x.ndim - 2, who), reduce_min, minimum, position)


def _position_shape(who: str, axes: int):
    shaped = _pool_shape(who, axes)

    def infer(x, largest=None, **attributes):
        pooled = shaped(x, **attributes)
        if largest is not None and (largest.shape, largest.dtype) != (pooled.shape, pooled.dtype):
            raise ShapeError(f"{who}: the largest elements must be {pooled}, got {largest}")
        if math.prod(x.shape[2:]) >= 2**31:
            raise ShapeError(f"{who}: an image may have 2^31 - 1 elements, got shape {x.shape}")
        return Layout.contiguous(dtypes.i32, pooled.shape)

    return infer


def _position_samples(axes: int):
    def make(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
        for sample in _pool_samples(axes)(rng, dtype):
            (x,) = sample.operands
            yield Sample((x, None), sample.attributes)
            wide = x.astype(np.float64) if dtype.is_float else x
            yield Sample(
                (x, _max_pool_reference(wide, **sample.attributes).astype(x.dtype)), sample.attributes
            )

    return make


def _position_reference(x, largest=None, kernel_size=1, stride=None, padding=0, dilation=1):
    settings = (kernel_size, stride, padding, dilation)
    lowest = dtypes.dtype(np.asarray(x).dtype).lowest
    places = np.broadcast_to(np.arange(math.prod(x.shape[2:])).reshape(x.shape[2:]), x.shape)
    first = _pooled(x, *settings, lowest).argmax(axis=0)
    return np.take_along_axis(_pooled(places, *settings, -1), first[None], 0)[0]


@indexed(shape_of=_position_shape("max_pool1d_positions", 1), window=_pool_window, dtypes=NUMBERS, methods=False,
         samples=_position_samples(1), reference=_position_reference)  # fmt: skip
def max_pool1d_positions(at, window, x, largest=None, *, kernel_size, stride=None, padding=0, dilation=1):
    """Where max_pool1d finds the largest element of each window (i32): the first of equals, the first NaN.

    `largest` is max_pool1d's result, where it is known.
    """
    return _position(at, window, x, largest, kernel_size, stride, padding, dilation, "max_pool1d_positions")


@indexed(shape_of=_position_shape("max_pool2d_positions", 2), window=_pool_window, dtypes=NUMBERS, methods=False,
         samples=_position_samples(2), reference=_position_reference)  # fmt: skip
def max_pool2d_positions(at, window, x, largest=None, *, kernel_size, stride=None, padding=0, dilation=1):
    """Where max_pool2d finds the largest element of each window (i32), counted in rows; see max_pool1d_positions."""
    return _position(at, window, x, largest, kernel_size, stride, padding, dilation, "max_pool2d_positions")


def _max_pool_gradient(cotangent, result, x, kernel_size, stride, padding, dilation):
    positions = (max_pool1d_positions, max_pool2d_positions)[x.ndim - 3]
    places = positions(x, result, kernel_size=kernel_size, stride=stride, padding=padding, dilation=dilation)
    images = x.shape[:2]
    zeros = cotangent.executor.full((), 0, cotangent.dtype).expand((*images, math.prod(x.shape[2:])))
    flat = (each.reshape(*images, math.prod(cotangent.shape[2:])) for each in (places, cotangent))
    return scatter_add(zeros, *flat, dim=2).reshape(x.shape)


@indexed(shape_of=_pool_shape("max_pool1d", 1), window=_pool_window, dtypes=NUMBERS, samples=_pool_samples(1),
         reference=_max_pool_reference, aten=("max_pool1d",), gradient={"x": _max_pool_gradient})  # fmt: skip
def max_pool1d(at, window, x, *, kernel_size, stride=None, padding=0, dilation=1):
    """The largest element of each window of x (N, C, W); NaN if any is."""
    return _largest(at, window, x, kernel_size, stride, padding, dilation, "max_pool1d")[0]


@indexed(shape_of=_pool_shape("max_pool2d", 2), window=_pool_window, dtypes=NUMBERS, samples=_pool_samples(2),
         reference=_max_pool_reference, aten=("max_pool2d",), gradient={"x": _max_pool_gradient})  # fmt: skip
def max_pool2d(at, window, x, *, kernel_size, stride=None, padding=0, dilation=1):
    """The largest element of each window of x (N, C, H, W); NaN if any is."""
    return _largest(at, window, x, kernel_size, stride, padding, dilation, "max_pool2d")[0]


def _avg_pool(at, window, x, kernel_size, stride, padding, count_include_pad, who):
    kernel, one = per_axis(kernel_size, x.ndim - 2, who), x.builder.constant(1.0, x.computed)

    def summed(value):
        def element(tap):
            inside, source = tapped(
                x, at[2:], tap, kernel_size if stride is None else stride, padding, 1, who
            )
            return within(inside, value(source), 0.0)

        return folded(window, kernel, reduce_add, add, element)

    total = summed(lambda source: x.at(*at[:2], *source))
    if count_include_pad or not any(per_axis(padding, len(kernel), who)):
        return total / float(math.prod(kernel))
    return total / summed(lambda _: one)


def _spread_shape(who: str, axes: int):
    pooled = _pool_shape(who, axes)

    def infer(y, *, shape, **attributes):
        image = Layout.contiguous(y.dtype, (*y.shape[:2], *integers(shape, f"{who}: a size")))
        if pooled(image, **attributes).shape != y.shape:
            raise ShapeError(
                f"{who}: windows over the shape {shape} give {pooled(image, **attributes)}, got {y}"
            )
        return image

    return infer


def _spread_window(y, *, kernel_size, stride, **attributes):
    """The windows over a place: no more than one for each stride in the kernel's size."""
    kernel, s = (per_axis(v, y.ndim - 2, "pool") for v in (kernel_size, stride or kernel_size))
    return tuple(-(-n // by) for n, by in zip(kernel, s, strict=True))


def _spread(at, window, y, kernel_size, stride, padding, who):
    axes = len(window)
    kernel, s, p = (per_axis(v, axes, who) for v in (kernel_size, stride or kernel_size, padding))
    inside, places = [], []
    for k in range(axes):
        reach = at[2 + k] + p[k]
        last = reach // s[k]  # the window that begins nearest
        place = select(last >= window[k], last, window[k]) - window[k]
        over = (last >= window[k]) & (place < y.extent(2 + k)) & (reach - place * s[k] < kernel[k])
        inside.append(over)
        places.append(select(over, place, 0))
    total = reduce_add(select(reduce(and_, inside), y.at(*at[:2], *places), 0.0))
    return total / float(math.prod(kernel))


def _spread_reference(y, shape, kernel_size, stride=None, padding=0):
    axes = np.ndim(y) - 2
    k, s, p = (per_axis(v, axes, "pool") for v in (kernel_size, stride or kernel_size, padding))
    out = np.zeros((*y.shape[:2], *(n + 2 * w for n, w in zip(shape, p, strict=True))))
    for tap in itertools.product(*(range(n) for n in k)):
        cut = tuple(slice(t, t + (y.shape[2 + i] - 1) * s[i] + 1, s[i]) for i, t in enumerate(tap))
        out[(slice(None), slice(None), *cut)] += y / math.prod(k)
    return out[(slice(None), slice(None), *(slice(w, w + n) for n, w in zip(shape, p, strict=True)))]


def _spread_samples(axes: int):
    def make(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
        for sample in _pool_samples(axes)(rng, dtype):
            (x,) = sample.operands
            places = _avg_pool_reference(x, **sample.attributes).shape
            yield Sample((array(rng, dtype, places),), {"shape": x.shape[2:], **sample.attributes})

    return make


def _avg_pool_gradient(cotangent, inputs, kernel_size, stride, padding, count_include_pad):
    axes, shape = inputs[0].ndim - 2, inputs[0].shape[2:]
    pool, spread = ((avg_pool1d, avg_pool1d_gradient), (avg_pool2d, avg_pool2d_gradient))[axes - 1]
    settings = {"kernel_size": kernel_size, "stride": stride, "padding": padding}
    if not count_include_pad:  # the share of a window that lies inside
        ones = cotangent.executor.full((1, 1, *shape), 1, cotangent.dtype.computed)
        cotangent = divide(cotangent, pool(ones, **settings))
    return spread(cotangent, shape=shape, **settings)


def _spread_gradient(cotangent, kernel_size, stride, padding):
    pool = (avg_pool1d, avg_pool2d)[cotangent.ndim - 3]
    return pool(cotangent, kernel_size=kernel_size, stride=stride, padding=padding)


@indexed(shape_of=_pool_shape("avg_pool1d", 1), window=_pool_window, samples=_pool_samples(1, count_include_pad=False),
         dtypes=FLOATS, reference=_avg_pool_reference, ulp=4, absolute=4.0, aten=("avg_pool1d",),
         gradient={"x": _avg_pool_gradient})  # fmt: skip
def avg_pool1d(at, window, x, *, kernel_size, stride=None, padding=0, count_include_pad=True):
    """The mean of each window of x (N, C, W); padding counts as zeros, or not at all."""
    return _avg_pool(at, window, x, kernel_size, stride, padding, count_include_pad, "avg_pool1d")


@indexed(shape_of=_pool_shape("avg_pool2d", 2), window=_pool_window, samples=_pool_samples(2, count_include_pad=False),
         dtypes=FLOATS, reference=_avg_pool_reference, ulp=4, absolute=4.0, aten=("avg_pool2d",),
         gradient={"x": _avg_pool_gradient})  # fmt: skip
def avg_pool2d(at, window, x, *, kernel_size, stride=None, padding=0, count_include_pad=True):
    """The mean of each window of x (N, C, H, W); padding counts as zeros, or not at all."""
    return _avg_pool(at, window, x, kernel_size, stride, padding, count_include_pad, "avg_pool2d")


@indexed(shape_of=_spread_shape("avg_pool1d_gradient", 1), window=_spread_window, samples=_spread_samples(1),
         dtypes=FLOATS, reference=_spread_reference, ulp=4, absolute=4.0, methods=False,
         gradient={"y": _spread_gradient})  # fmt: skip
def avg_pool1d_gradient(at, window, y, *, shape, kernel_size, stride=None, padding=0):
    """What the operand of avg_pool1d, of that shape, has for a cotangent where its result has y (N, C, W)."""
    return _spread(at, window, y, kernel_size, stride, padding, "avg_pool1d_gradient")


@indexed(shape_of=_spread_shape("avg_pool2d_gradient", 2), window=_spread_window, samples=_spread_samples(2),
         dtypes=FLOATS, reference=_spread_reference, ulp=4, absolute=4.0, methods=False,
         gradient={"y": _spread_gradient})  # fmt: skip
def avg_pool2d_gradient(at, window, y, *, shape, kernel_size, stride=None, padding=0):
    """What the operand of avg_pool2d, of that shape, has for a cotangent where its result has y (N, C, H, W)."""
    return _spread(at, window, y, kernel_size, stride, padding, "avg_pool2d_gradient")
