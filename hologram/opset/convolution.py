"""Windows sliding over images: convolutions, also transposed; layouts (N, C, W) and (N, C, H, W)."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from functools import reduce
from operator import and_
from typing import Any

import numpy as np

from hologram.atlas.builder import Value, reduce_add, select
from hologram.dtypes import DType
from hologram.errors import ShapeError, UnsupportedDType
from hologram.layout import Layout, integers, whole
from hologram.opset.forms import types
from hologram.opset.forms.map import Indexed, IndexedOperand, indexed
from hologram.opset.forms.operation import Sample
from hologram.opset.forms.samples import array
from hologram.opset.tiles.convolution import convolution


def per_axis(value: int | Sequence[int], axes: int, who: str) -> tuple[int, ...]:
    """A number for each spatial axis."""
    found = integers(value, f"{who}: a number for each axis") * (
        1 if isinstance(value, (tuple, list)) else axes
    )
    if len(found) != axes:
        raise ShapeError(f"{who}: {axes} numbers are needed, got {value}")
    return found


def windows(n: int, kernel: int, stride: int, padding: int, dilation: int, who: str) -> int:
    """How many places a window has along an axis of n elements."""
    if min(kernel, stride, dilation) < 1 or padding < 0:
        raise ShapeError(f"{who}: kernel, stride and dilation must be >= 1 and padding >= 0")
    places = (n + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
    if places < 1:
        raise ShapeError(
            f"{who}: a window of {dilation * (kernel - 1) + 1} does not fit into {n} + 2 * {padding}"
        )
    return places


def _inside(place: Value, extent: Value, padding: int) -> tuple[Value, Value]:
    """Whether a place on the padded axis lies on the axis itself, and it there (0 elsewhere)."""
    here = (place >= padding) & (place < extent + padding)
    return here, select(here, place, padding) - padding


def tapped(
    x: IndexedOperand,
    at: Sequence[Value],
    window: Sequence[Value],
    stride: Any,
    padding: Any,
    dilation: Any,
    who: str,
) -> tuple[Value, list[Value]]:
    """Whether the window's element lies on x, and its spatial coordinates."""
    axes = len(window)
    stride, padding, dilation = (per_axis(v, axes, who) for v in (stride, padding, dilation))
    inside, places = None, []
    for k in range(axes):
        here, place = _inside(at[k] * stride[k] + window[k] * dilation[k], x.extent(2 + k), padding[k])
        inside = here if inside is None else inside & here
        places.append(place)
    assert inside is not None
    return inside, places


def _conv_shape(who: str, axes: int):
    def infer(x, weight, bias=None, *, stride, padding, dilation, groups):
        if x.ndim != axes + 2 or weight.ndim != axes + 2:
            raise ShapeError(
                f"{who}: x and weight must have {axes + 2} axes, got {x.shape} and {weight.shape}"
            )
        if (
            whole(groups, f"{who}: groups") < 1
            or x.shape[1] != weight.shape[1] * groups
            or weight.shape[0] % groups
        ):
            raise ShapeError(
                f"{who}: x {x.shape} has other channels than weight {weight.shape} with {groups} groups"
            )
        if bias is not None and bias.shape != weight.shape[:1]:
            raise ShapeError(f"{who}: bias must have shape {weight.shape[:1]}, got {bias.shape}")
        if len({i.dtype for i in (x, weight, bias) if i is not None}) > 1:
            raise UnsupportedDType(f"{who}: operands must have one dtype, got {x.dtype} and {weight.dtype}")
        s, p, d = (per_axis(v, axes, who) for v in (stride, padding, dilation))
        sizes = (windows(x.shape[2 + k], weight.shape[2 + k], s[k], p[k], d[k], who) for k in range(axes))
        return Layout.contiguous(x.dtype, (x.shape[0], weight.shape[0], *sizes))

    return infer


def _conv_window(x, weight, bias=None, **attributes):
    return weight.shape[1:]


def _conv_reference(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    axes = np.ndim(x) - 2
    s, p, d = (per_axis(v, axes, "conv") for v in (stride, padding, dilation))
    x = np.pad(x, [(0, 0), (0, 0), *((n, n) for n in p)])
    reach = [d[k] * (weight.shape[2 + k] - 1) + 1 for k in range(axes)]
    sizes = [(x.shape[2 + k] - reach[k]) // s[k] + 1 for k in range(axes)]
    per_group, outs = weight.shape[1], weight.shape[0] // groups
    out = np.zeros((x.shape[0], weight.shape[0], *sizes))
    for tap in itertools.product(*(range(n) for n in weight.shape[2:])):
        cut = tuple(slice(t * d[k], t * d[k] + (sizes[k] - 1) * s[k] + 1, s[k]) for k, t in enumerate(tap))
        for g in range(groups):
            part = x[(slice(None), slice(g * per_group, (g + 1) * per_group), *cut)]
            taps = weight[(slice(g * outs, (g + 1) * outs), slice(None), *tap)]
            out[:, g * outs : (g + 1) * outs] += np.einsum("nc...,oc->no...", part, taps)
    return out if bias is None else out + np.reshape(bias, (-1, *(1,) * axes))


def _conv_samples(axes: int):
    cases = [
        ((2, 4, 9, 8), (6, 4, 3, 3), {"padding": 1}),
        ((1, 4, 11, 10), (8, 2, 3, 2), {"stride": 2, "groups": 2}),
        ((2, 3, 7, 9), (5, 3, 2, 3), {"dilation": 2, "padding": 2, "stride": 3}),
        ((1, 1, 1, 1), (1, 1, 1, 1), {}),
    ]

    def make(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
        for x, weight, attributes in cases:
            x, weight = x[: 2 + axes], weight[: 2 + axes]
            operands = (array(rng, dtype, x, -2, 2), array(rng, dtype, weight, -2, 2))
            yield Sample((*operands, array(rng, dtype, weight[:1], -2, 2)), attributes)
            yield Sample((*operands, None), attributes)

    return make


def _convolve(at, window, x, weight, bias, stride, padding, dilation, groups, who):
    image, channel, *places = at
    tap_channel, *taps = window
    inside, source = tapped(x, places, taps, stride, padding, dilation, who)
    first = 0 if groups == 1 else channel // (weight.extent(0) // groups) * weight.extent(1)
    product = x.at(image, tap_channel + first, *source) * weight.at(channel, *window)
    total = reduce_add(select(inside, product, 0.0))
    return total if bias is None else total + bias.at(channel)


def _columns_shape(x, *, window, stride, padding, dilation):
    axes = len(window)
    s, p, d = (per_axis(v, axes, "conv") for v in (stride, padding, dilation))
    sizes = (windows(x.shape[2 + k], window[k], s[k], p[k], d[k], "conv") for k in range(axes))
    return Layout.contiguous(types.computing(x.dtype), (x.shape[0], *sizes, x.shape[1], *window))


def _column(at, x, *, window, stride, padding, dilation):
    """An element of the windows laid out: x at a place, channel and tap, 0 outside."""
    image, *rest = at
    axes = len(window)
    inside, source = tapped(x, rest[:axes], rest[axes + 1 :], stride, padding, dilation, "conv")
    return select(inside, x.at(image, rest[axes], *source), 0.0)


# Not an operation of its own, but what a convolution as a matrix product starts with.
_columns = Indexed(
    name="columns",
    function=_column,
    reference=_conv_reference,
    samples=lambda rng, dtype: (),
    shape_of=_columns_shape,
)


@convolution(
    shape_of=_conv_shape("conv1d", 1),
    window=_conv_window,
    columns=_columns,
    samples=_conv_samples(1),
    reference=_conv_reference,
    ulp=4,
    absolute=64.0,
    aten=("conv1d",),
)
def conv1d(at, window, x, weight, bias=None, *, stride=1, padding=0, dilation=1, groups=1):
    """The cross-correlation of x (N, C, W) with weight (O, C / groups, K), plus bias (O)."""
    return _convolve(at, window, x, weight, bias, stride, padding, dilation, groups, "conv1d")


@convolution(
    shape_of=_conv_shape("conv2d", 2),
    window=_conv_window,
    columns=_columns,
    samples=_conv_samples(2),
    reference=_conv_reference,
    ulp=4,
    absolute=64.0,
    aten=("conv2d",),
)
def conv2d(at, window, x, weight, bias=None, *, stride=1, padding=0, dilation=1, groups=1):
    """The cross-correlation of x (N, C, H, W) with weight (O, C / groups, KH, KW), plus bias (O)."""
    return _convolve(at, window, x, weight, bias, stride, padding, dilation, groups, "conv2d")


# Transposed: the gradient of a convolution with respect to its input, read from the side of its output.


def _transposed_shape(who: str, axes: int):
    def infer(x, weight, bias=None, *, stride, padding, output_padding, dilation, groups):
        if (
            x.ndim != axes + 2
            or weight.ndim != axes + 2
            or whole(groups, f"{who}: groups") < 1
            or x.shape[1] != weight.shape[0]
            or x.shape[1] % groups
        ):
            raise ShapeError(f"{who}: x {x.shape} does not fit weight {weight.shape} with {groups} groups")
        outs = weight.shape[1] * groups
        if bias is not None and bias.shape != (outs,):
            raise ShapeError(f"{who}: bias must have shape {(outs,)}, got {bias.shape}")
        if len({i.dtype for i in (x, weight, bias) if i is not None}) > 1:
            raise UnsupportedDType(f"{who}: operands must have one dtype, got {x.dtype} and {weight.dtype}")
        s, p, o, d = (per_axis(v, axes, who) for v in (stride, padding, output_padding, dilation))
        sizes = tuple(
            (x.shape[2 + k] - 1) * s[k] - 2 * p[k] + d[k] * (weight.shape[2 + k] - 1) + o[k] + 1
            for k in range(axes)
        )
        if min(s) < 1 or min(d) < 1 or min(sizes) < 1:
            raise ShapeError(f"{who}: the output would have the spatial shape {sizes}")
        return Layout.contiguous(x.dtype, (x.shape[0], outs, *sizes))

    return infer


def _transposed_window(x, weight, bias=None, *, groups, **attributes):
    return (x.shape[1] // groups, *weight.shape[2:])


def _transposed_reference(x, weight, bias=None, stride=1, padding=0, output_padding=0, dilation=1, groups=1):
    axes = np.ndim(x) - 2
    s, p, o, d = (per_axis(v, axes, "conv") for v in (stride, padding, output_padding, dilation))
    outs, ins = weight.shape[1], x.shape[1] // groups
    full = [(x.shape[2 + k] - 1) * s[k] + d[k] * (weight.shape[2 + k] - 1) + 1 + o[k] for k in range(axes)]
    out = np.zeros((x.shape[0], outs * groups, *full))
    for tap in itertools.product(*(range(n) for n in weight.shape[2:])):
        cut = tuple(
            slice(t * d[k], t * d[k] + (x.shape[2 + k] - 1) * s[k] + 1, s[k]) for k, t in enumerate(tap)
        )
        for g in range(groups):
            part = np.einsum(
                "nc...,co->no...",
                x[:, g * ins : (g + 1) * ins],
                weight[(slice(g * ins, (g + 1) * ins), slice(None), *tap)],
            )
            out[(slice(None), slice(g * outs, (g + 1) * outs), *cut)] += part
    out = out[(slice(None), slice(None), *(slice(p[k], full[k] - p[k]) for k in range(axes)))]
    return out if bias is None else out + np.reshape(bias, (-1, *(1,) * axes))


def _transposed_samples(axes: int):
    cases = [
        ((2, 4, 5, 6), (4, 3, 3, 3), {"padding": 1}),
        ((1, 4, 5, 4), (4, 2, 3, 2), {"stride": 2, "groups": 2, "output_padding": 1}),
        ((2, 3, 4, 3), (3, 5, 2, 3), {"dilation": 2, "stride": 3}),
    ]

    def make(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
        for x, weight, attributes in cases:
            x, weight = x[: 2 + axes], weight[: 2 + axes]
            outs = weight[1] * attributes.get("groups", 1)
            operands = (array(rng, dtype, x, -2, 2), array(rng, dtype, weight, -2, 2))
            yield Sample((*operands, array(rng, dtype, (outs,), -2, 2)), attributes)

    return make


def _convolve_transposed(at, window, x, weight, bias, stride, padding, dilation, groups, who):
    image, channel, *places = at
    tap_channel, *taps = window
    axes = len(taps)
    s, p, d = (per_axis(v, axes, who) for v in (stride, padding, dilation))
    inside, source = [], []
    for k in range(axes):
        # The input place i that this tap carries here: i * stride = place + padding - tap * dilation.
        reach, back = places[k] + p[k], taps[k] * d[k]
        offset = select(reach >= back, reach, back) - back
        here = (reach >= back) & (offset % s[k] == 0) & (offset // s[k] < x.extent(2 + k))
        inside.append(here)
        source.append(select(here, offset // s[k], 0))
    group = 0 if groups == 1 else channel // weight.extent(1)
    within = channel if groups == 1 else channel % weight.extent(1)
    from_channel = tap_channel if groups == 1 else tap_channel + group * (x.extent(1) // groups)
    product = x.at(image, from_channel, *source) * weight.at(from_channel, within, *taps)
    total = reduce_add(select(reduce(and_, inside), product, 0.0))
    return total if bias is None else total + bias.at(channel)


@indexed(shape_of=_transposed_shape("conv_transpose1d", 1), window=_transposed_window, samples=_transposed_samples(1),
         reference=_transposed_reference, ulp=4, absolute=64.0, aten=("conv_transpose1d",))  # fmt: skip
def conv_transpose1d(
    at, window, x, weight, bias=None, *, stride=1, padding=0, output_padding=0, dilation=1, groups=1
):
    """The transposed convolution of x (N, C, W) with weight (C, O / groups, K), plus bias (O)."""
    return _convolve_transposed(
        at, window, x, weight, bias, stride, padding, dilation, groups, "conv_transpose1d"
    )


@indexed(shape_of=_transposed_shape("conv_transpose2d", 2), window=_transposed_window, samples=_transposed_samples(2),
         reference=_transposed_reference, ulp=4, absolute=64.0, aten=("conv_transpose2d.input",))  # fmt: skip
def conv_transpose2d(
    at, window, x, weight, bias=None, *, stride=1, padding=0, output_padding=0, dilation=1, groups=1
):
    """The transposed convolution of x (N, C, H, W) with weight (C, O / groups, KH, KW), plus bias (O)."""
    return _convolve_transposed(
        at, window, x, weight, bias, stride, padding, dilation, groups, "conv_transpose2d"
    )
