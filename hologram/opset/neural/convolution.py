"""Windows sliding over images: convolutions, also transposed; layouts (N, C, W) and (N, C, H, W)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from hologram.atlas.builder import Value
from hologram.atlas.functions import reduce_add, select
from hologram.foundation.dtypes import DType
from hologram.foundation.errors import ShapeError, UnsupportedDType
from hologram.machine.axes import whole
from hologram.machine.layout import Layout
from hologram.opset.forms.map import IndexedOperand
from hologram.opset.forms.operation import Sample, declared
from hologram.opset.forms.samples import array
from hologram.opset.forms.windows import per_axis, windows
from hologram.opset.padding import pad
from hologram.opset.reduce import sum_
from hologram.opset.tiles.convolution import Convolution, TransposedConvolution, WeightProduct


def _inside(place: Value, extent: Value, padding: int) -> tuple[Value | None, Value]:
    """Whether a place on the padded axis lies on the axis itself (None: all do), and it there (0 elsewhere)."""
    if not padding:
        return None, place
    here = (place >= padding) & (place < extent + padding)
    return here, select(here, place, padding) - padding


def tapped(
    x: IndexedOperand,
    at: Sequence[Value],
    window: Sequence[Value | int],
    stride: Any,
    padding: Any,
    dilation: Any,
    who: str,
) -> tuple[Value | None, list[Value]]:
    """Whether the window's element lies on x (None: it does), and its spatial coordinates."""
    axes = len(window)
    stride, padding, dilation = (per_axis(v, axes, who) for v in (stride, padding, dilation))
    inside, places = None, []
    for k in range(axes):
        here, place = _inside(at[k] * stride[k] + window[k] * dilation[k], x.extent(2 + k), padding[k])
        inside = here if inside is None else inside if here is None else inside & here
        places.append(place)
    return inside, places


def within(inside: Value | None, value: Value, otherwise: Any) -> Value:
    """The value where it is inside."""
    return value if inside is None else select(inside, value, otherwise)


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
    total = reduce_add(within(inside, product, 0.0))
    return total if bias is None else total + bias.at(channel)


# Sums over images, channels and taps of x, weight and y have three derivatives: a convolution, its transpose, and the
# product that is the weight's. The derivatives of each are the others.


def _family(x: Any) -> Any:
    return ((conv1d, conv_transpose1d, conv1d_weight), (conv2d, conv_transpose2d, conv2d_weight))[x.ndim - 3]


def _of_input(cotangent, weight, shape, stride, padding, dilation, groups):
    """What x has for a cotangent, which is 0 at the places that it lacks; the stride's rest is the `output_padding`."""
    axes = cotangent.ndim - 2
    s, p, d = (per_axis(v, axes, "conv") for v in (stride, padding, dilation))
    room = [n + 2 * p[k] - d[k] * (weight.shape[2 + k] - 1) - 1 for k, n in enumerate(shape[2:])]
    lacking = [n // s[k] + 1 - cotangent.shape[2 + k] for k, n in enumerate(room)]
    if any(lacking):
        cotangent = pad(cotangent, padding=[(0, 0), (0, 0), *((0, n) for n in lacking)])
    beyond = tuple(n % step for n, step in zip(room, s, strict=True))
    settings = {"stride": s, "padding": p, "dilation": d, "groups": groups}
    return _family(cotangent)[1](cotangent, weight, output_padding=beyond, **settings)


def _of_output(x, weight, shape, stride, padding, dilation, groups):
    """The convolution, at the first places alone where there are more than in the shape."""
    result = _family(x)[0](x, weight, stride=stride, padding=padding, dilation=dilation, groups=groups)
    for axis, n in enumerate(shape[2:], 2):
        result = result.narrow(axis, 0, n)
    return result


def _of_weight(x, y, weight, stride, padding, dilation, groups):
    settings = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    return _family(x)[2](x, y, kernel_size=weight.shape[2:], **settings)


def _of_bias(cotangent):
    return sum_(cotangent, axis=(0, *range(2, cotangent.ndim)))


_CONVOLUTION_GRADIENT = {
    "x": lambda cotangent, inputs, weight, stride, padding, dilation, groups: _of_input(
        cotangent, weight, inputs[0].shape, stride, padding, dilation, groups
    ),
    "weight": lambda cotangent, inputs, x, stride, padding, dilation, groups: _of_weight(
        x, cotangent, inputs[1], stride, padding, dilation, groups
    ),
    "bias": _of_bias,
}
_TRANSPOSED_GRADIENT = {
    "x": lambda cotangent, inputs, weight, stride, padding, dilation, groups: _of_output(
        cotangent, weight, inputs[0].shape, stride, padding, dilation, groups
    ),
    "weight": lambda cotangent, inputs, x, stride, padding, dilation, groups: _of_weight(
        cotangent, x, inputs[1], stride, padding, dilation, groups
    ),
    "bias": _of_bias,
}
_WEIGHT_GRADIENT = {
    "x": lambda cotangent, inputs, y, stride, padding, dilation, groups: _of_input(
        y, cotangent, inputs[0].shape, stride, padding, dilation, groups
    ),
    "y": lambda cotangent, inputs, x, stride, padding, dilation, groups: _of_output(
        x, cotangent, inputs[1].shape, stride, padding, dilation, groups
    ),
}


@declared(
    Convolution,
    shape_of=_conv_shape("conv1d", 1),
    window=_conv_window,
    gradient=_CONVOLUTION_GRADIENT,
    samples=_conv_samples(1),
    reference=_conv_reference,
    ulp=4,
    absolute=64.0,
    aten=("conv1d",),
)
def conv1d(at, window, x, weight, bias=None, *, stride=1, padding=0, dilation=1, groups=1):
    """The cross-correlation of x (N, C, W) with weight (O, C / groups, K), plus bias (O)."""
    return _convolve(at, window, x, weight, bias, stride, padding, dilation, groups, "conv1d")


@declared(
    Convolution,
    shape_of=_conv_shape("conv2d", 2),
    window=_conv_window,
    gradient=_CONVOLUTION_GRADIENT,
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
        if any(not 0 <= extra < max(step, reach) for extra, step, reach in zip(o, s, d, strict=True)):
            raise ShapeError(
                f"{who}: output_padding must be at least 0 and below stride or dilation, got {o} with {s} and {d}"
            )
        return Layout.contiguous(x.dtype, (x.shape[0], outs, *sizes))

    return infer


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


@declared(TransposedConvolution, shape_of=_transposed_shape("conv_transpose1d", 1), samples=_transposed_samples(1),
          reference=_transposed_reference, ulp=4, absolute=64.0, aten=("conv_transpose1d",), forward=conv1d,
          gradient=_TRANSPOSED_GRADIENT)  # fmt: skip
def conv_transpose1d(x, weight, bias=None, *, stride=1, padding=0, output_padding=0, dilation=1, groups=1):
    """The transposed convolution of x (N, C, W) with weight (C, O / groups, K), plus bias (O)."""


@declared(TransposedConvolution, shape_of=_transposed_shape("conv_transpose2d", 2), samples=_transposed_samples(2),
          reference=_transposed_reference, ulp=4, absolute=64.0, aten=("conv_transpose2d.input",), forward=conv2d,
          gradient=_TRANSPOSED_GRADIENT)  # fmt: skip
def conv_transpose2d(x, weight, bias=None, *, stride=1, padding=0, output_padding=0, dilation=1, groups=1):
    """The transposed convolution of x (N, C, H, W) with weight (C, O / groups, KH, KW), plus bias (O)."""


# The weight's.


def _weight_shape(who: str, axes: int):
    def infer(x, y, *, kernel_size, stride, padding, dilation, groups):
        if x.ndim != axes + 2 or y.ndim != axes + 2 or x.shape[0] != y.shape[0]:
            raise ShapeError(
                f"{who}: x and y must be {axes + 2}-d, of as many images, got {x.shape}, {y.shape}"
            )
        if whole(groups, f"{who}: groups") < 1 or x.shape[1] % groups or y.shape[1] % groups:
            raise ShapeError(
                f"{who}: channels of x {x.shape} and y {y.shape} do not split into {groups} groups"
            )
        if x.dtype != y.dtype:
            raise UnsupportedDType(f"{who}: operands must have one dtype, got {x.dtype} and {y.dtype}")
        kernel, s, p, d = (per_axis(v, axes, who) for v in (kernel_size, stride, padding, dilation))
        for k in range(axes):
            if y.shape[2 + k] > windows(x.shape[2 + k], kernel[k], s[k], p[k], d[k], who):
                raise ShapeError(
                    f"{who}: x {x.shape} has fewer windows of {kernel} than y {y.shape} has places"
                )
        return Layout.contiguous(x.dtype, (y.shape[1], x.shape[1] // groups, *kernel))

    return infer


def _weight_reference(x, y, kernel_size, stride=1, padding=0, dilation=1, groups=1):
    axes = np.ndim(x) - 2
    s, p, d = (per_axis(v, axes, "conv") for v in (stride, padding, dilation))
    x = np.pad(x, [(0, 0), (0, 0), *((n, n) for n in p)])
    ins, outs = x.shape[1] // groups, y.shape[1] // groups
    out = np.zeros((y.shape[1], ins, *per_axis(kernel_size, axes, "conv")))
    for tap in itertools.product(*(range(n) for n in out.shape[2:])):
        cut = tuple(
            slice(t * d[k], t * d[k] + (y.shape[2 + k] - 1) * s[k] + 1, s[k]) for k, t in enumerate(tap)
        )
        for g in range(groups):
            part = x[(slice(None), slice(g * ins, (g + 1) * ins), *cut)]
            some = slice(g * outs, (g + 1) * outs)
            sides = (side.reshape(*side.shape[:2], math.prod(side.shape[2:])) for side in (y[:, some], part))
            out[(some, slice(None), *tap)] = np.einsum("nop,ncp->oc", *sides)
    return out


def _weight_samples(axes: int):
    cases = [
        ((2, 4, 9, 8), (2, 6, 9, 8), (3, 3), {"padding": 1}),
        ((1, 4, 11, 10), (1, 8, 5, 5), (3, 2), {"stride": 2, "groups": 2}),
        ((2, 3, 7, 9), (2, 5, 2, 3), (2, 3), {"dilation": 2, "padding": 2, "stride": 3}),
        ((1, 1, 1, 1), (1, 1, 1, 1), (1, 1), {}),
    ]

    def make(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
        for x, y, kernel, attributes in cases:
            operands = (array(rng, dtype, x[: 2 + axes], -2, 2), array(rng, dtype, y[: 2 + axes], -2, 2))
            yield Sample(operands, {"kernel_size": kernel[:axes], **attributes})

    return make


@declared(WeightProduct, shape_of=_weight_shape("conv1d_weight", 1), samples=_weight_samples(1), methods=False,
          reference=_weight_reference, ulp=4, absolute=64.0, gradient=_WEIGHT_GRADIENT)  # fmt: skip
def conv1d_weight(x, y, *, kernel_size, stride=1, padding=0, dilation=1, groups=1):
    """What the weight of conv1d has for a cotangent, where its result has y (N, O, places) and its operand is x."""


@declared(WeightProduct, shape_of=_weight_shape("conv2d_weight", 2), samples=_weight_samples(2), methods=False,
          reference=_weight_reference, ulp=4, absolute=64.0, gradient=_WEIGHT_GRADIENT)  # fmt: skip
def conv2d_weight(x, y, *, kernel_size, stride=1, padding=0, dilation=1, groups=1):
    """What the weight of conv2d has for a cotangent, where its result has y (N, O, places...) and its operand is x."""
