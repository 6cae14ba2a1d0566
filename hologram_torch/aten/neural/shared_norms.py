"""Batch normalisation whose statistics several processes share: the steps of `torch.nn.SyncBatchNorm`.

Means of parts are joined as in Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing
sample variances" (1979).
"""

from __future__ import annotations

from typing import Any

import hologram as hg
from hologram.frontend.tensor import Tensor
from hologram_torch.aten.neural.norms import by_channel, moved, scaled, standardised
from hologram_torch.kernels.fused import fused
from hologram_torch.kernels.registry import implements
from hologram_torch.kernels.results import write


def _others(x: Tensor) -> tuple[int, ...]:
    """All axes but the channels'."""
    return (0, *range(2, x.ndim))


def _wide(x: Tensor) -> Tensor:
    return x.astype(x.dtype.computed, copy=False)


@implements("batch_norm_stats", inferred=False)
@fused
def statistics(x: Tensor, eps: float) -> Any:
    """The mean of each channel, and 1 over its standard deviation."""
    _, mean, _, inverse = standardised(x, _others(x), eps)
    return mean.reshape(-1), inverse.reshape(-1)


@fused
def _joined(mean: Tensor, inverse: Tensor, running: Any, momentum: float, eps: float, counts: Tensor) -> Any:
    wide = mean.dtype
    n = counts.astype(wide, copy=False).reshape(-1, 1)
    total = hg.sum(n)
    own = inverse**-2 - eps
    whole = hg.sum(mean * n, axis=0) / total
    squares = hg.sum((own + (mean - whole) ** 2) * n, axis=0)
    following = [
        moved(r, v, momentum) for r, v in zip(running, (whole, squares / (total - 1.0)), strict=True)
    ]
    return whole, hg.rsqrt(squares / total + eps), following


@implements("batch_norm_gather_stats_with_counts", inferred=False)
def joined(
    x: Tensor,
    mean: Tensor,
    inverse: Tensor,
    running_mean: Any,
    running_var: Any,
    momentum: float,
    eps: float,
    counts: Tensor,
) -> Any:
    """The same of all processes, from a row and a number of elements of each; running statistics follow."""
    running = [running_mean, running_var]
    whole, deviation, following = _joined(mean, inverse, running, momentum, eps, counts)
    for new, old in zip(following, running, strict=True):
        if old is not None:
            write(new.astype(old.dtype, copy=False), old)
    return whole, deviation


@implements("batch_norm_elemt", inferred=False)
@fused
def applied(x: Tensor, weight: Any, bias: Any, mean: Tensor, inverse: Tensor, eps: float) -> Tensor:
    """The input normalised by statistics, scaled and moved."""
    parts: list[Any] = [by_channel(v, x.ndim) for v in (mean, inverse, weight, bias)]
    return scaled((_wide(x) - parts[0]) * parts[1], *parts[2:]).astype(x.dtype, copy=False)


@implements("batch_norm_backward_reduce", inferred=False)
@fused
def sums(
    cotangent: Tensor,
    x: Tensor,
    mean: Tensor,
    inverse: Tensor,
    weight: Any,
    of_input: bool,
    of_weight: bool,
    of_bias: bool,
) -> Any:
    """Sums of the cotangent, and of it times the centred input; the cotangents of weight and bias; those wanted."""
    g = _wide(cotangent)
    total = hg.sum(g, axis=_others(x))
    product = hg.sum(g * (_wide(x) - by_channel(mean, x.ndim)), axis=_others(x))
    like = x.dtype if weight is None else weight.dtype
    return (
        total if of_input else None,
        product if of_input else None,
        (product * inverse).astype(like, copy=False) if of_weight else None,
        total.astype(like, copy=False) if of_bias else None,
    )


@implements("batch_norm_backward_elemt", inferred=False)
@fused
def backward(
    cotangent: Tensor,
    x: Tensor,
    mean: Tensor,
    inverse: Tensor,
    weight: Any,
    total: Tensor,
    product: Tensor,
    counts: Tensor,
) -> Tensor:
    """To the input, by the sums of all processes."""
    wide = x.dtype.computed
    n = hg.sum(counts.astype(wide, copy=False))
    parts: list[Any] = [by_channel(v, x.ndim) for v in (mean, inverse, weight, total / n, product / n)]
    centre, deviation, scale, of_mean, of_square = parts
    g = _wide(cotangent) - of_mean - (_wide(x) - centre) * deviation**2 * of_square
    g = g * deviation if scale is None else g * deviation * scale
    return g.astype(x.dtype, copy=False)
