"""Losses, each with reduction "none", "mean" or "sum", as in PyTorch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from hologram.atlas import functions as atlas
from hologram.atlas.builder import Value
from hologram.atlas.functions import reduce_add, reduce_max, select
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.foundation.errors import ShapeError, UnsupportedDType
from hologram.machine.axes import whole
from hologram.opset.forms import types
from hologram.opset.forms.composite import composite
from hologram.opset.forms.map import elementwise
from hologram.opset.forms.operation import Sample
from hologram.opset.forms.row import Row, column, length, row
from hologram.opset.forms.samples import array
from hologram.opset.reduce import mean, sum_

REDUCTIONS = {"none": lambda x: x, "mean": mean, "sum": sum_}


def _reduced(losses: Any, reduction: str, who: str) -> Any:
    if reduction not in tuple(REDUCTIONS):
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


def _bce_slope(cotangent, probability, target):
    """As PyTorch has it: finite at 0 and 1, where the logarithms are held."""
    return cotangent * (probability - target) / atlas.maximum(probability * (1.0 - probability), 1e-12)


def _bce_reference(p, t):
    with np.errstate(divide="ignore"):
        return -(t * np.maximum(np.log(p), -100) + (1 - t) * np.maximum(np.log1p(-p), -100))


@elementwise(
    types=types.floating, reference=_bce_reference, samples=_single(_pairs(0, 1)), ulp=4, absolute=200.0,
    gradient={"probability": _bce_slope},
)  # fmt: skip
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
    return (logits.computed, target), logits


def _nll_reference(logits, target, ignore_index=-100):
    axis = 0 if np.ndim(logits) == 1 else 1
    classes = np.shape(logits)[axis]
    shifted = logits - np.max(logits, axis=axis, keepdims=True)
    log_p = shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))
    known = (target >= 0) & (target < classes)
    chosen = np.expand_dims(np.where(known, target, 0), axis)
    losses = np.where(known, -np.take_along_axis(log_p, chosen, axis).squeeze(axis), np.nan)
    return np.where(target == ignore_index, 0.0, losses)


def _cross_entropy_reference(logits, target, reduction="mean", ignore_index=-100):
    losses = _nll_reference(logits, target, ignore_index)
    kept = np.count_nonzero(target != ignore_index)
    return {"none": losses, "sum": np.sum(losses), "mean": np.sum(losses) / np.float64(kept)}[reduction]


def _class_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for shape in ((5, 10), (2, 7, 3, 4), (6,)):
        axis = 0 if len(shape) == 1 else 1
        target = np.asarray(rng.integers(0, shape[axis], shape[:axis] + shape[axis + 1 :])).astype(np.int32)
        for reduction in REDUCTIONS:
            yield Sample((array(rng, dtype, shape), target), {"reduction": reduction})
    logits = array(rng, dtype, (6, 9))
    for kind, ignored in ((np.int32, -100), (np.int64, 8), (np.uint8, 3), (np.uint8, -100), (np.int16, 5)):
        target = np.array([0, 8, ignored % 256 if kind is np.uint8 else ignored, 3, 2, 5], kind)
        for reduction in REDUCTIONS:
            yield Sample((logits, target), {"reduction": reduction, "ignore_index": ignored})
    beyond = np.array([0, 9, -1, 8, -100, 2**33 + 1], np.int64)
    yield Sample((logits, beyond), {"reduction": "none"})
    yield Sample((logits, np.full(6, -100, np.int32)))


def _single_class_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for sample in _class_samples(rng, dtype):
        if sample.attributes.get("reduction") == "none":
            logits, target = sample.operands
            axis = 0 if logits.ndim == 1 else 1
            rest = {n: v for n, v in sample.attributes.items() if n != "reduction"}
            yield Sample((logits, np.expand_dims(target, axis)), {"axis": axis, **rest})


def _counted(target: Value) -> Value:
    """The class number in a dtype wide enough for columns."""
    return target if target.dtype.bits >= 32 else target.to(dtypes.i32)


def _is_class(target: Value, number: int) -> Value:
    """Whether it is that number, which its dtype need not be able to hold."""
    number, bounds = whole(number, "ignore_index"), np.iinfo(target.dtype.numpy)
    return target == number if bounds.min <= number <= bounds.max else target != target


def _class_gradient(cotangent, logits, target, ignore_index):
    """The softmax, less 1 at the target."""
    e = atlas.exp(logits - reduce_max(logits))
    number, one = _counted(target), logits.builder.constant(1.0, logits.dtype)
    hit = select(column(logits).to(number.dtype) == number, one, 0.0)
    is_class = (number >= 0) & (number < length(logits).to(number.dtype))
    slope = select(is_class, cotangent * (e * (1.0 / reduce_add(e)) - hit), math.nan)
    return select(_is_class(target, ignore_index), 0.0, slope)


@row(types=_class_types, samples=_single_class_samples, ulp=8, absolute=4.0, gradient={"logits": _class_gradient},
     reference=lambda logits, target, axis=1, ignore_index=-100:
     _nll_reference(logits, np.squeeze(target, axis), ignore_index))  # fmt: skip
def class_cross_entropy(logits, target, *, axis=1, ignore_index=-100):
    """log(sum(exp(logits))) - logits[target] along the axis of the classes, which has size 1 in the target.

    0 where the target is `ignore_index`; NaN where it is no class.
    """
    top = reduce_max(logits)
    total = atlas.log(reduce_add(atlas.exp(logits - top)))
    number = _counted(target)
    # A sum with one term that is not 0: LLVM does not vectorise the largest of these and -inf.
    chosen = reduce_add(select(column(logits).to(number.dtype) == number, logits - top, 0.0))
    is_class = (number >= 0) & (number < length(logits).to(number.dtype))
    return select(_is_class(target, ignore_index), 0.0, select(is_class, total - chosen, math.nan))


def _kept_types(who: str, operands: Sequence[types.OperandType]) -> types.Types:
    losses, target = operands
    assert isinstance(losses, DType)
    assert isinstance(target, DType)
    return (losses.computed, target), losses


def _kept_mean(losses, target, *, axis=None, ignore_index=-100):
    """The mean of the losses whose target is not `ignore_index`; NaN if there is none."""
    one = losses.builder.constant(1.0, losses.dtype)
    return reduce_add(losses) / reduce_add(select(_is_class(target, ignore_index), 0.0, one))


# Not an operation of its own: how a cross entropy takes its mean.
kept_mean = Row(
    name="kept_mean",
    function=_kept_mean,
    reference=_cross_entropy_reference,
    samples=lambda rng, dtype: (),
    types=_kept_types,
)


@composite(reference=_cross_entropy_reference, samples=_class_samples, ulp=8, absolute=16.0,
           aten=("cross_entropy_loss",))  # fmt: skip
def cross_entropy_loss(logits, target, *, reduction="mean", ignore_index=-100):
    """The cross entropy of logits (C), (N, C) or (N, C, ...) against class numbers (), (N) or (N, ...).

    A target of `ignore_index` counts as no loss: it gives 0, and the mean is over the others. Any other that is no
    class, outside [0, C), gives NaN: kernels cannot raise, and no number would be true.
    """
    axis = 0 if len(logits.shape) == 1 else 1
    expected = logits.shape[:axis] + logits.shape[axis + 1 :]
    if not logits.shape or target.shape != expected:
        raise ShapeError(
            f"cross_entropy_loss: logits {logits.shape} need a target of {expected}, got {target.shape}"
        )
    losses = class_cross_entropy(logits, target.unsqueeze(axis), axis=axis, ignore_index=ignore_index)
    if reduction == "mean":
        return kept_mean(losses, target, ignore_index=ignore_index)
    return _reduced(losses, reduction, "cross_entropy_loss")
