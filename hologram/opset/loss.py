"""Losses, each with reduction "none", "mean" or "sum", as in PyTorch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from hologram import dtypes
from hologram.atlas import builder as atlas
from hologram.atlas.builder import reduce_add, reduce_max, select
from hologram.dtypes import DType
from hologram.errors import ShapeError, UnsupportedDType
from hologram.opset.forms import types
from hologram.opset.forms.map import elementwise
from hologram.opset.forms.operation import Sample, composite
from hologram.opset.forms.row import column, row
from hologram.opset.forms.samples import array
from hologram.opset.reduce import mean, sum_

REDUCTIONS = {"none": lambda x: x, "mean": mean, "sum": sum_}


def _reduced(losses: Any, reduction: str, who: str) -> Any:
    if reduction not in REDUCTIONS:
        raise ValueError(f"{who}: reduction must be one of {', '.join(REDUCTIONS)}, got {reduction!r}")
    return REDUCTIONS[reduction](losses)


def _reduced_reference(losses, reduction):
    return {"none": lambda x: x, "mean": np.mean, "sum": np.sum}[reduction](losses)


def _pairs(low: float, high: float):
    def make(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
        for shape in ((7,), (5, 6), (2, 3, 4)):
            x, y = array(rng, dtype, shape, low, high), array(rng, dtype, shape, low, high)
            for reduction in REDUCTIONS:
                yield Sample((x, y), {"reduction": reduction})

    return make


def _single(samples):
    def make(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
        for sample in samples(rng, dtype):
            if sample.attributes["reduction"] == "none":
                yield Sample(sample.operands)

    return make


@elementwise(
    types=types.floating,
    reference=lambda x, y: (x - y) ** 2,
    samples=_single(_pairs(-3, 3)),
    ulp=2,
    absolute=2.0,
)
def squared_difference(x, y):
    """(x - y)^2."""
    return (x - y) * (x - y)


@composite(
    reference=lambda x, y, reduction="mean": _reduced_reference((x - y) ** 2, reduction), samples=_pairs(-3, 3), ulp=4,
    absolute=16.0, aten=("mse_loss",),
)  # fmt: skip
def mse_loss(prediction, target, *, reduction="mean"):
    """The squared difference of prediction and target, which have one shape."""
    _same_shape("mse_loss", prediction, target)
    return _reduced(squared_difference(prediction, target), reduction, "mse_loss")


def _same_shape(who: str, x: Any, y: Any) -> None:
    if x.shape != y.shape:
        raise ShapeError(f"{who}: prediction and target must have one shape, got {x.shape} and {y.shape}")


def _bce_reference(p, t):
    with np.errstate(divide="ignore"):
        return -(t * np.maximum(np.log(p), -100) + (1 - t) * np.maximum(np.log1p(-p), -100))


@elementwise(
    types=types.floating, reference=_bce_reference, samples=_single(_pairs(0, 1)), ulp=4, absolute=200.0
)
def binary_cross_entropy(probability, target):
    """-(t log p + (1 - t) log(1 - p)), logarithms held above -100."""
    yes = atlas.maximum(atlas.log(probability), -100.0)
    no = atlas.maximum(atlas.log1p(-probability), -100.0)
    return -(target * yes + (1.0 - target) * no)


@composite(
    reference=lambda p, t, reduction="mean": _reduced_reference(_bce_reference(p, t), reduction), samples=_pairs(0, 1),
    ulp=4, absolute=400.0, aten=("binary_cross_entropy",),
)  # fmt: skip
def binary_cross_entropy_loss(probability, target, *, reduction="mean"):
    """The binary cross entropy of probabilities in [0, 1] against targets in [0, 1] of the same shape."""
    _same_shape("binary_cross_entropy_loss", probability, target)
    return _reduced(binary_cross_entropy(probability, target), reduction, "binary_cross_entropy_loss")


def _class_types(who: str, operands: Sequence[types.OperandType]) -> types.Types:
    logits, target = operands
    if not isinstance(logits, DType) or not logits.is_float:
        raise UnsupportedDType(f"{who}: logits must be floats, got {logits}")
    if not isinstance(target, DType) or not target.is_integer:
        raise UnsupportedDType(f"{who}: the target must hold class numbers, got {target}")
    return (types.computing(logits), target), logits


def _nll_reference(logits, target):
    axis = 0 if np.ndim(logits) == 1 else 1
    shifted = logits - np.max(logits, axis=axis, keepdims=True)
    log_p = shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))
    return -np.take_along_axis(log_p, np.expand_dims(target, axis), axis).squeeze(axis)


def _class_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for shape in ((5, 10), (2, 7, 3, 4), (6,)):
        axis = 0 if len(shape) == 1 else 1
        target = rng.integers(0, shape[axis], shape[:axis] + shape[axis + 1 :])
        for reduction in REDUCTIONS:
            yield Sample((array(rng, dtype, shape), target.astype(np.int32)), {"reduction": reduction})


def _single_class_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for sample in _single(_class_samples)(rng, dtype):
        logits, target = sample.operands
        axis = 0 if logits.ndim == 1 else 1
        yield Sample((logits, np.expand_dims(target, axis)), {"axis": axis})


@row(types=_class_types, samples=_single_class_samples, ulp=8, absolute=4.0,
     reference=lambda logits, target, axis=1: _nll_reference(logits, np.squeeze(target, axis)))  # fmt: skip
def class_cross_entropy(logits, target, *, axis=1):
    """log(sum(exp(logits))) - logits[target] along the axis of the classes, which has size 1 in the target."""
    top = reduce_max(logits)
    total = atlas.log(reduce_add(atlas.exp(logits - top)))
    counted = target.dtype if target.dtype.bits >= 32 else dtypes.i32  # wide enough for columns, too
    chosen = column(logits).to(counted) == target.to(counted)
    return total - reduce_max(select(chosen, logits - top, -math.inf))


@composite(
    reference=lambda x, t, reduction="mean": _reduced_reference(_nll_reference(x, t), reduction),
    samples=_class_samples,
    ulp=8,
    absolute=16.0,
    aten=("cross_entropy_loss",),
)
def cross_entropy_loss(logits, target, *, reduction="mean"):
    """The cross entropy of logits (C), (N, C) or (N, C, ...) against class numbers (), (N) or (N, ...).

    A class number outside [0, C) has the probability 0: its loss is infinite.
    """
    axis = 0 if len(logits.shape) == 1 else 1
    expected = logits.shape[:axis] + logits.shape[axis + 1 :]
    if not logits.shape or target.shape != expected:
        raise ShapeError(
            f"cross_entropy_loss: logits {logits.shape} need a target of {expected}, got {target.shape}"
        )
    losses = class_cross_entropy(logits, target.unsqueeze(axis), axis=axis)
    return _reduced(losses, reduction, "cross_entropy_loss")
