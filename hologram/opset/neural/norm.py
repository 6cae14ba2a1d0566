"""Softmax and the normalisations, named and parametrised as in PyTorch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from hologram.atlas import functions as atlas
from hologram.atlas.functions import reduce_add, reduce_max
from hologram.foundation.dtypes import DType
from hologram.foundation.errors import ShapeError
from hologram.machine.axes import integers, whole
from hologram.machine.layout import Layout
from hologram.opset.forms import types
from hologram.opset.forms.map import elementwise
from hologram.opset.forms.operation import Attributes, Input, Layouts, Sample
from hologram.opset.forms.row import Arrangement, row, width
from hologram.opset.forms.samples import array, normalizing


def _softmax_reference(x, dim=-1):
    if not np.size(x):
        return np.asarray(x, np.float64)
    e = np.exp(x - np.max(x, axis=dim, keepdims=True))
    return e / np.sum(e, axis=dim, keepdims=True)


def _log_softmax_reference(x, dim=-1):
    if not np.size(x):
        return np.asarray(x, np.float64)
    shifted = x - np.max(x, axis=dim, keepdims=True)
    return shifted - np.log(np.sum(np.exp(shifted), axis=dim, keepdims=True))


@row(
    types=types.floating,
    reference=_softmax_reference,
    samples=normalizing("dim"),
    ulp=8,
    absolute=1.0,
    axis_name="dim",
    keeps_shape=True,
    aten=("softmax.int", "_softmax"),
    gradient={"x": lambda cotangent, result: result * (cotangent - reduce_add(cotangent * result))},
)
def softmax(x, *, dim=-1):
    """exp(x) / sum(exp(x)) along `dim`, shifted by the largest element so that nothing overflows."""
    e = atlas.exp(x - reduce_max(x))
    return e * (1.0 / reduce_add(e))  # one division a row; the sum is at least 1


@row(types=types.floating, reference=_log_softmax_reference, samples=normalizing("dim"), ulp=8, absolute=2.0,
     axis_name="dim", keeps_shape=True, aten=("log_softmax.int", "_log_softmax"),
     gradient={"x": lambda cotangent, result: cotangent - atlas.exp(result) * reduce_add(cotangent)})  # fmt: skip
def log_softmax(x, *, dim=-1):
    """x - log(sum(exp(x))) along `dim`, shifted by the largest element so that nothing overflows."""
    shifted = x - reduce_max(x)
    return shifted - atlas.log(reduce_add(atlas.exp(shifted)))


def _scaled(y, weight, bias):
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def _normalised(x, weight, bias, eps):
    """The row less its mean, over its standard deviation."""
    centred = x - reduce_add(x) / width(x)
    variance = reduce_add(centred * centred) / width(x)
    return _scaled(centred * (1.0 / atlas.sqrt(variance + eps)), weight, bias)


def _trailing(inputs: Sequence[Input], outputs: Layouts, attributes: Attributes, who: str) -> Arrangement:
    """The row is the axes of the weight, or those `normalized_shape` counts."""
    x = inputs[0]
    assert isinstance(x, Layout)
    shape = attributes["normalized_shape"]
    if shape is None:
        shape = inputs[1].shape if len(inputs) > 1 and isinstance(inputs[1], Layout) else x.shape[-1:]
    shape = integers(shape, f"{who}: normalized_shape")
    if not shape or x.shape[-len(shape) :] != shape:
        raise ShapeError(f"{who}: the last axes must be normalized_shape {shape}, got {x.shape}")
    views = tuple(i.expand(x.shape) if isinstance(i, Layout) else i for i in inputs)
    return Arrangement(views, tuple(outputs), len(shape))


def _affine(y, weight, bias, shape=None):
    """The references' last step; `shape` is that of weight and bias beside y."""
    weight, bias = (v if v is None or shape is None else np.reshape(v, shape) for v in (weight, bias))
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def _standardised(x, axes, eps):
    return (x - np.mean(x, axis=axes, keepdims=True)) / np.sqrt(np.var(x, axis=axes, keepdims=True) + eps)


def _layer_norm_reference(x, weight=None, bias=None, normalized_shape=None, eps=1e-5):
    shape = normalized_shape or (np.shape(weight) if weight is not None else np.shape(x)[-1:])
    return _affine(_standardised(x, tuple(range(-len(shape), 0)), eps), weight, bias)


def _layer_norm_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for shape, tail in (((5, 300), 1), ((4, 3, 5), 2), ((2, 3, 64), 1), ((1, 1), 1)):
        x = array(rng, dtype, shape)
        weight, bias = (array(rng, dtype, shape[-tail:], -2, 2) for _ in range(2))
        yield Sample((x, weight, bias))
        yield Sample((x, weight, None), {"eps": 1e-3})
        yield Sample((x, None, None), {"normalized_shape": shape[-tail:]})


@row(types=types.floating, reference=_layer_norm_reference, samples=_layer_norm_samples, ulp=8, absolute=16.0,
     keeps_shape=True, axis_name="normalized_shape", aten=("layer_norm",),
     arrange=lambda i, o, a: _trailing(i, o, a, "layer_norm"))  # fmt: skip
def layer_norm(x, weight=None, bias=None, *, normalized_shape=None, eps: float = 1e-5):
    """(x - mean) / sqrt(variance + eps) * weight + bias over the last axes (Ba, Kiros, Hinton 2016).

    The axes are those of `normalized_shape`, else those of `weight`, else the last.
    """
    return _normalised(x, weight, bias, eps)


def _rms_norm_reference(x, weight=None, normalized_shape=None, eps=1e-6):
    shape = normalized_shape or (np.shape(weight) if weight is not None else np.shape(x)[-1:])
    y = x / np.sqrt(np.mean(np.square(x), axis=tuple(range(-len(shape), 0)), keepdims=True) + eps)
    return y if weight is None else y * weight


def _rms_norm_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for shape in ((5, 300), (2, 3, 64), (1, 1)):
        yield Sample((array(rng, dtype, shape), array(rng, dtype, shape[-1:], -2, 2)))
        yield Sample((array(rng, dtype, shape), None), {"eps": 1e-3})


@row(
    types=types.floating,
    reference=_rms_norm_reference,
    samples=_rms_norm_samples,
    ulp=8,
    absolute=2.0,
    keeps_shape=True,
    axis_name="normalized_shape",
    arrange=lambda i, o, a: _trailing(i, o, a, "rms_norm"),
)
def rms_norm(x, weight=None, *, normalized_shape=None, eps: float = 1e-6):
    """x / sqrt(mean(x^2) + eps) * weight over the last axes (Zhang, Sennrich 2019)."""
    return _scaled(x * (1.0 / atlas.sqrt(reduce_add(x * x) / width(x) + eps)), weight, None)


def _channels(layout: Input, shape: tuple[int, ...]) -> Input:
    """A vector of one number per channel, seen in the shape of the input (N, C, ...)."""
    if not isinstance(layout, Layout):
        return layout
    if layout.shape != shape[1:2]:
        raise ShapeError(f"one number for each of {shape[1]} channels is needed, got shape {layout.shape}")
    for _ in shape[2:]:
        layout = layout.unsqueeze(layout.ndim)
    return layout.expand(shape)


def _groups(inputs: Sequence[Input], outputs: Layouts, attributes: Attributes) -> Arrangement:
    x = inputs[0]
    assert isinstance(x, Layout)
    groups = whole(attributes["num_groups"], "group_norm: num_groups")
    if x.ndim < 2 or groups < 1 or x.shape[1] % groups:
        raise ShapeError(f"group_norm: axis 1 must split into {groups} groups, got shape {x.shape}")
    split = (x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])

    def view(layout: Input) -> Input:
        if not isinstance(layout, Layout):
            return layout
        strides = (layout.strides[0], layout.strides[1] * split[2], *layout.strides[1:])
        return Layout(layout.dtype, split, strides, layout.offset)

    views = [view(inputs[0]), *(view(_channels(i, x.shape)) for i in inputs[1:])]
    targets = [view(o) for o in outputs]
    return Arrangement(tuple(views), tuple(t for t in targets if isinstance(t, Layout)), len(split) - 2)


def _group_norm_reference(x, weight=None, bias=None, num_groups=1, eps=1e-5):
    grouped = np.reshape(x, (x.shape[0], num_groups, -1))
    return _affine(_standardised(grouped, -1, eps).reshape(x.shape), weight, bias, (-1, *(1,) * (x.ndim - 2)))


def _group_norm_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for shape, groups in (((2, 6, 5, 3), 3), ((3, 4), 2), ((1, 8, 7), 1)):
        x = array(rng, dtype, shape)
        weight, bias = (array(rng, dtype, shape[1:2], -2, 2) for _ in range(2))
        yield Sample((x, weight, bias), {"num_groups": groups})
        yield Sample((x, None, None), {"num_groups": groups})


@row(types=types.floating, reference=_group_norm_reference, samples=_group_norm_samples, ulp=8, absolute=16.0,
     keeps_shape=True, axis_name="num_groups", arrange=_groups, aten=("group_norm",))  # fmt: skip
def group_norm(x, weight=None, bias=None, *, num_groups=1, eps: float = 1e-5):
    """Normalises each group of channels of x (N, C, ...) with weight and bias (C) (Wu, He 2018)."""
    return _normalised(x, weight, bias, eps)


def _batch(inputs: Sequence[Input], outputs: Layouts, attributes: Attributes) -> Arrangement:
    x = inputs[0]
    assert isinstance(x, Layout)
    if x.ndim < 2:
        raise ShapeError(f"batch_norm: x must have shape (N, C, ...), got {x.shape}")
    order = (1, 0, *range(2, x.ndim))
    views = [x, *(_channels(i, x.shape) for i in inputs[1:])]
    return Arrangement(
        tuple(v.permute(order) if isinstance(v, Layout) else v for v in views),
        tuple(o.permute(order) for o in outputs),
        x.ndim - 1,
    )


def _batch_norm_reference(x, weight=None, bias=None, eps=1e-5):
    y = _standardised(x, (0, *range(2, np.ndim(x))), eps)
    return _affine(y, weight, bias, (-1, *(1,) * (np.ndim(x) - 2)))


def _batch_norm_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for shape in ((4, 6, 5, 3), (7, 3), (2, 3, 11)):
        weight, bias = (array(rng, dtype, shape[1:2], -2, 2) for _ in range(2))
        yield Sample((array(rng, dtype, shape), weight, bias))
        yield Sample((array(rng, dtype, shape), None, None))


@row(types=types.floating, reference=_batch_norm_reference, samples=_batch_norm_samples, ulp=8, absolute=16.0,
     keeps_shape=True, axis_name="", arrange=_batch)  # fmt: skip
def batch_norm(x, weight=None, bias=None, *, eps: float = 1e-5):
    """Normalises each channel of x (N, C, ...) over the batch (Ioffe, Szegedy 2015), as in training."""
    return _normalised(x, weight, bias, eps)


def _batch_inference_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for shape in ((4, 6), (7, 3)):
        mean, weight, bias = (array(rng, dtype, shape[1:], -2, 2) for _ in range(3))
        yield Sample((array(rng, dtype, shape), mean, array(rng, dtype, shape[1:], 0.5, 2), weight, bias))


def _batch_inference_reference(x, mean, variance, weight, bias, eps=1e-5):
    return (x - mean) / np.sqrt(variance + eps) * weight + bias


@elementwise(types=types.floating, reference=_batch_inference_reference, samples=_batch_inference_samples, ulp=4,
             absolute=16.0)  # fmt: skip
def batch_norm_inference(x, mean, variance, weight=None, bias=None, *, eps: float = 1e-5):
    """(x - mean) / sqrt(variance + eps) * weight + bias with given statistics, which broadcast against x."""
    return _scaled((x - mean) * (1.0 / atlas.sqrt(variance + eps)), weight, bias)
