"""Losses that choose by class numbers, or whose operands PyTorch broadcasts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import hologram as hg
from hologram.foundation import dtypes
from hologram.frontend.tensor import Tensor
from hologram_torch.aten.indexing.positions import refuse
from hologram_torch.kernels.fused import decomposition, fused, told
from hologram_torch.kernels.registry import implements

MEAN, SUM = 1, 2  # ATen's numbers of reductions
REDUCTIONS = ("none", "mean", "sum")  # by these


@implements("mse_loss")
def mse_loss(x: Tensor, target: Tensor, reduction: int = MEAN) -> Tensor:
    """In batches that torch.func.vmap makes, one operand may be the same for all."""
    if x.shape != target.shape:
        x, target = hg.broadcast_arrays(x, target)
    return hg.mse_loss(x, target, reduction=REDUCTIONS[reduction])


def _axis(x: Tensor) -> int:
    return 0 if x.ndim == 1 else 1


def _kept(
    x: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Class numbers beside the axis of the classes, 0 for those ignored; which are not; and the classes' weights."""
    axis = _axis(x)
    number = target.astype(dtypes.i64, copy=False).reshape(*x.shape[:axis], 1, *x.shape[axis + 1 :])
    kept = hg.not_equal(number, ignore_index)
    number = hg.where(kept, number, 0)
    dtype = x.dtype.computed
    factor = kept.astype(dtype)
    if weight is not None:
        chosen = hg.index_select(weight, number.reshape(-1), axis=0).reshape(number.shape)
        factor = hg.where(kept, chosen.astype(dtype), 0.0)
    return number, kept, factor


@fused
def _forward(
    x: Tensor, target: Tensor, weight: Any, reduction: int, ignore_index: int
) -> tuple[Tensor, Tensor]:
    number, kept, factor = _kept(x, target, weight, ignore_index)
    axis = _axis(x)
    chosen = hg.gather(x, number, dim=axis).astype(factor.dtype, copy=False)
    losses = hg.where(kept, -chosen * factor, 0.0).squeeze(axis)
    total = hg.sum(factor)
    if reduction == MEAN:
        return hg.sum(losses) / total, total
    if reduction == SUM:
        return hg.sum(losses), total
    return losses, total * 0.0


@fused
def _beyond(target: Tensor, classes: int, ignore_index: int) -> Tensor:
    outside = hg.logical_or(hg.less(target, 0), hg.greater_equal(target, classes))
    return hg.any(hg.logical_and(outside, hg.not_equal(target, ignore_index)))


@implements("nll_loss_forward", "nll_loss2d_forward")
def nll_loss(x: Tensor, target: Tensor, weight: Any, reduction: int, ignore_index: int) -> Any:
    """The chosen elements, negated and weighted, and the sum of weights; raises IndexError for what is no class."""
    if target.dtype not in (dtypes.i64, dtypes.u8):
        raise RuntimeError(f"hologram, nll_loss: a target must be int64 or uint8, got {target.dtype}")
    classes = x.shape[_axis(x)]
    if target.size:
        beyond = _beyond(target, classes, ignore_index)
        refuse("nll_loss", beyond, f"a target is out of bounds: there are {classes} classes", IndexError)
    return _forward(x, target, weight, reduction, ignore_index)


@implements("nll_loss_backward", "nll_loss2d_backward")
@fused
def nll_loss_backward(
    cotangent: Tensor,
    x: Tensor,
    target: Tensor,
    weight: Any,
    reduction: int,
    ignore_index: int,
    total: Tensor,
) -> Tensor:
    axis = _axis(x)
    number, kept, factor = _kept(x, target, weight, ignore_index)
    if reduction == MEAN:
        # PyTorch keeps the total in x's dtype, which may be too narrow for it.
        cotangent = cotangent / (total if x.dtype.computed is x.dtype else hg.sum(factor))
    elif reduction != SUM and x.ndim > 1:
        cotangent = cotangent.unsqueeze(axis)
    classes = hg.arange(x.executor, x.shape[axis], dtype=dtypes.i64)
    classes = classes.reshape(-1, *(1 for _ in x.shape[axis + 1 :]))
    return hg.where(hg.logical_and(kept, hg.equal(classes, number)), -cotangent * factor, 0.0)


# Huber's: squares near the target, lines beyond.


@implements("huber_loss")
@told
def huber_loss(x: Tensor, target: Tensor, reduction: int = MEAN, delta: float = 1.0) -> Tensor:
    """d^2 / 2 for |d| <= delta, else delta (|d| - delta / 2)."""
    apart = x.astype(x.dtype.computed, copy=False) - target
    size = hg.abs(apart)
    loss = hg.where(hg.less_equal(size, delta), 0.5 * apart * apart, delta * (size - 0.5 * delta))
    if reduction != 0:
        loss = hg.mean(loss) if reduction == MEAN else hg.sum(loss)
    return loss.astype(x.dtype, copy=False)


@implements("huber_loss_backward")
@told
def huber_loss_backward(cotangent: Tensor, x: Tensor, target: Tensor, reduction: int, delta: float) -> Tensor:
    """The cotangent times the difference, which is kept within -delta and delta; a mean's is divided by the size."""
    apart = x.astype(x.dtype.computed, copy=False) - target
    slope = hg.where(hg.less(apart, -delta), -delta, hg.where(hg.greater(apart, delta), delta, apart))
    share = 1.0 / max(x.size, 1) if reduction == MEAN else 1.0
    return (cotangent * slope * share).astype(x.dtype, copy=False)


# Those that PyTorch decomposes, but for what it refuses.


def _checked(name: str, wrong: Callable[[Tensor, Tensor], Tensor], words: str) -> None:
    """Registers PyTorch's decomposition of a loss, which refuses where any element is wrong."""
    decomposed = decomposition(name)

    @implements(name)
    def loss(x: Tensor, target: Tensor, *rest: Any, **named: Any) -> Any:
        if x.size and target.size:
            refuse(name, wrong(x, target), words)
        return decomposed(x, target, *rest, **named)


def _classes(x: Tensor) -> int:
    return x.shape[-1] if x.ndim else 1


def _no_probability(x: Tensor) -> Tensor:
    return hg.any(hg.logical_not(hg.logical_and(hg.greater_equal(x, 0.0), hg.less_equal(x, 1.0))))


@fused
def _no_probabilities(x: Tensor, target: Tensor) -> Tensor:
    return hg.logical_or(_no_probability(x), _no_probability(target))


_checked(
    "binary_cross_entropy", _no_probabilities, "all elements of input and target should be between 0 and 1"
)


# Margins. PyTorch's decompositions of these differ from its CPU: one counts the places behind the last label, the other
# gives a single loss an axis.

_margins = decomposition("multi_margin_loss")


@implements("multi_margin_loss", inferred=False)
def multi_margin_loss(
    x: Tensor, target: Tensor, p: Any = 1, margin: Any = 1, weight: Any = None, reduction: int = MEAN
) -> Tensor:
    """Of sum over others of max(0, margin - x[target] + x[other]) ** p / classes."""
    if x.size and target.size:
        wrong = hg.any_outside(target, low=0, high=_classes(x))
        refuse("multi_margin_loss", wrong, "target out of range")
    loss = _margins(x, target, p, margin, weight, reduction)
    return loss.reshape(()) if target.ndim == 0 else loss


def _labels(target: Tensor) -> tuple[Tensor, Tensor]:
    """Which places have labels, those before the first -1, and the labels, 0 elsewhere."""
    known = hg.less(hg.cumulative_sum(hg.less(target, 0).astype(dtypes.i32), axis=1), 1)
    return known, hg.where(known, target, 0)


@fused
def _multilabel_margins(x: Tensor, target: Tensor, reduction: int) -> tuple[Tensor, Tensor]:
    rows, labels = (v if v.ndim == 2 else v.reshape(1, -1) for v in (x, target))
    known, number = _labels(labels)
    rows = rows.astype(x.dtype.computed, copy=False)
    classes = x.executor.tensor(np.arange(rows.shape[1], dtype=np.int64))
    is_target = hg.any(hg.logical_and(known.unsqueeze(2), hg.equal(number.unsqueeze(2), classes)), axis=1)
    over = 1.0 - hg.gather(rows, number, dim=1).unsqueeze(2) + rows.unsqueeze(1)
    counts = hg.logical_and(known.unsqueeze(2), hg.logical_not(is_target).unsqueeze(1))
    hit = hg.where(hg.logical_and(counts, hg.greater(over, 0)), over, 0.0)
    losses = hg.sum(hit, axis=(1, 2)) / rows.shape[1]
    if reduction == MEAN:
        losses = hg.mean(losses)
    elif reduction == SUM:
        losses = hg.sum(losses)
    elif x.ndim < 2:
        losses = losses.reshape(())
    marks = is_target.astype(x.dtype).reshape(target.shape)
    return losses.astype(x.dtype, copy=False), marks


@implements("multilabel_margin_loss_forward", inferred=False)
def multilabel_margin_loss_forward(x: Tensor, target: Tensor, reduction: int = MEAN) -> Any:
    """Of sum over targets and others of max(0, 1 - x[target] + x[other]) / classes; targets end at the first -1."""
    if x.size and target.size:
        wrong = hg.any_outside(target, low=-1, high=_classes(x))
        refuse("multilabel_margin_loss", wrong, "argument 'target' is out of range")
    return _multilabel_margins(x, target, reduction)


@implements("multi_margin_loss_backward", inferred=False)
@fused
def multi_margin_loss_backward(
    cotangent: Tensor,
    x: Tensor,
    target: Tensor,
    p: Any,
    margin: Any,
    weight: Any = None,
    reduction: int = MEAN,
) -> Tensor:
    """The derivative of `multi_margin_loss`."""
    rows = x if x.ndim == 2 else x.reshape(1, -1)
    number = target.reshape(-1, 1)
    own = hg.equal(x.executor.tensor(np.arange(rows.shape[1], dtype=np.int64).reshape(1, -1)), number)
    over = margin - hg.gather(rows, number, dim=1) + rows
    slope = hg.where(hg.greater(over, 0), 1.0 if p == 1 else 2.0 * over, 0.0) / rows.shape[1]
    if weight is not None:
        slope = slope * hg.index_select(weight, number.reshape(-1), axis=0).unsqueeze(1)
    if reduction == MEAN:
        slope = slope / rows.shape[0]
    slope = hg.where(own, 0.0, slope)
    slope = hg.where(own, -hg.sum(slope, axis=1, keepdims=True), slope)
    scale = cotangent.unsqueeze(1) if reduction not in (MEAN, SUM) and cotangent.ndim else cotangent
    return (slope * scale).reshape(x.shape).astype(x.dtype, copy=False)


@implements("multilabel_margin_loss_backward", inferred=False)
@fused
def multilabel_margin_loss_backward(
    cotangent: Tensor, x: Tensor, target: Tensor, reduction: int, is_target: Tensor
) -> Tensor:
    """The derivative of `multilabel_margin_loss_forward`, which says which elements are targets."""
    rows, labels, marks = (v if v.ndim == 2 else v.reshape(1, -1) for v in (x, target, is_target))
    count = rows.shape[1]
    known, number = _labels(labels)
    other = hg.equal(marks, 0)
    over = 1.0 - hg.gather(rows, number, dim=1).unsqueeze(2) + rows.unsqueeze(1)
    counts = hg.logical_and(known.unsqueeze(2), other.unsqueeze(1))
    hit = hg.where(hg.logical_and(counts, hg.greater(over, 0)), 1.0, 0.0).astype(x.dtype.computed)
    lowered = hg.scatter_add(
        x.executor.full((), 0, hit.dtype).expand(rows.shape), number, hg.sum(hit, axis=2), dim=1
    )
    slope = (hg.sum(hit, axis=1) - lowered) / (count * (rows.shape[0] if reduction == MEAN else 1))
    scale = cotangent.unsqueeze(1) if reduction not in (MEAN, SUM) and cotangent.ndim else cotangent
    return (slope * scale).reshape(x.shape).astype(x.dtype, copy=False)
