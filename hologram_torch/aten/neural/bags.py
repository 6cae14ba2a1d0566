"""Sums, means and maxima of bags of a table's rows, and the way back."""

from __future__ import annotations

from typing import Any

import numpy as np

import hologram as hg
from hologram.foundation import dtypes
from hologram.frontend.tensor import Tensor
from hologram_torch.aten.indexing import positions as places
from hologram_torch.aten.indexing.scattering import reduced
from hologram_torch.aten.neural.embeddings import by_frequency
from hologram_torch.kernels.fused import fused
from hologram_torch.kernels.registry import implements

SUM, MEAN, MAX = 0, 1, 2  # ATen's numbers of modes


def _counts(bag: Tensor, kept: Tensor | None, bags: int) -> Tensor:
    """How many rows every bag has, but those of the padding."""
    ones = bag.executor.full((bag.size,), 1, dtypes.i32) if kept is None else kept.astype(dtypes.i32)
    return hg.scatter_add(bag.executor.full((bags,), 0, dtypes.i32), bag, ones, dim=0)


def _added(rows: Tensor, bag: Tensor, bags: int) -> Tensor:
    zeros = rows.executor.full((), 0, rows.dtype).expand((bags, rows.shape[1]))
    return hg.scatter_add(zeros, bag.unsqueeze(1).expand(rows.shape), rows, dim=0)


@fused
def _bags(
    weight: Tensor, index: Tensor, offsets: Tensor, mode: int, factors: Tensor | None, bags: int, padding: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    number = weight.executor.tensor(np.arange(index.size, dtype=index.dtype.numpy))
    bag = (hg.searchsorted(offsets, number, side="right") - 1).astype(index.dtype)
    rows = hg.embedding(index, weight)
    if mode != MAX:
        rows = rows.astype(rows.dtype.computed, copy=False)
    rows = rows if factors is None else rows * factors.unsqueeze(1).astype(rows.dtype, copy=False)
    kept = hg.not_equal(index, padding) if padding >= 0 else None
    counts = _counts(bag, kept, bags)
    filled = hg.greater(counts, 0).unsqueeze(1)
    nowhere = weight.executor.full((), -1, index.dtype).expand((bags, weight.shape[1]))
    if mode != MAX:
        rows = rows if kept is None else hg.where(kept.unsqueeze(1), rows, 0.0)
        pooled = _added(rows, bag, bags)
        if mode == MEAN:
            pooled = pooled / hg.maximum(counts, 1).unsqueeze(1)
        return pooled.astype(weight.dtype, copy=False), bag, counts.astype(index.dtype), nowhere
    place = bag.unsqueeze(1).expand(rows.shape)
    considered = rows if kept is None else hg.where(kept.unsqueeze(1), rows, -np.inf)
    zeros = weight.executor.full((), 0, rows.dtype).expand((bags, rows.shape[1]))
    pooled = reduced(zeros, 0, place, considered, "amax", False)
    pooled = hg.where(filled, pooled, 0.0)
    hit = hg.equal(considered, hg.index_select(pooled, bag, axis=0))
    first = hg.where(hit, number.unsqueeze(1), index.size)
    ends = weight.executor.full((), index.size, index.dtype).expand(zeros.shape)
    first = reduced(ends, 0, place, first.astype(index.dtype), "amin", True)
    inside = hg.logical_and(filled, hg.less(first, index.size))
    chosen = hg.index_select(index, hg.where(inside, first, 0).reshape(-1), axis=0).reshape(first.shape)
    return pooled, bag, counts.astype(index.dtype), hg.where(inside, chosen, -1).astype(index.dtype)


@implements("_embedding_bag", "_embedding_bag_forward_only", inferred=False)
def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = SUM,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> Any:
    """The bags' results; the bag of each row, the sizes of bags, and the rows that maxima are of."""
    places.check("embedding_bag", indices, weight.shape[0], kind=RuntimeError)
    if per_sample_weights is not None and mode != SUM:
        raise RuntimeError("hologram, embedding_bag: per_sample_weights are supported for mode='sum' only")
    bags = offsets.size - int(include_last_offset)
    offsets = offsets.astype(indices.dtype, copy=False).narrow(0, 0, bags)
    executor = weight.executor
    if not indices.size or not bags:
        nothing = executor.full((bags,), 0, indices.dtype)
        wide = executor.full((bags, weight.shape[1]), 0, weight.dtype)
        return wide, executor.empty((indices.size,), indices.dtype), nothing, wide.astype(indices.dtype)
    return _bags(weight, indices, offsets, mode, per_sample_weights, bags, padding_idx)


@fused
def _returned(
    cotangent: Tensor, index: Tensor, bag: Tensor, sizes: Tensor, largest: Tensor, rows: int, frequent: bool,
    mode: int, factors: Tensor | None, padding: int = -1,
) -> Tensor:  # fmt: skip
    kind = cotangent.dtype
    cotangent = cotangent.astype(kind.computed, copy=False)
    zeros = cotangent.executor.full((), 0, cotangent.dtype).expand((rows, cotangent.shape[1]))
    if mode == MAX:
        somewhere = hg.greater_equal(largest, 0)
        kept = hg.where(somewhere, cotangent, 0.0)
        return hg.scatter_add(zeros, hg.where(somewhere, largest, 0), kept, dim=0).astype(kind, copy=False)
    if mode == MEAN:
        cotangent = cotangent / hg.maximum(sizes, 1).unsqueeze(1)
    shares = hg.index_select(cotangent, bag, axis=0)
    shares = shares if factors is None else shares * factors.unsqueeze(1)
    if padding >= 0:
        shares = hg.where(hg.equal(index, padding).unsqueeze(1), 0.0, shares)
    sums = hg.scatter_add(zeros, index.unsqueeze(1).expand(shares.shape), shares, dim=0)
    return (by_frequency(sums, index) if frequent else sums).astype(kind, copy=False)


@implements("_embedding_bag_dense_backward", inferred=False)
def bag_backward(
    cotangent: Tensor,
    indices: Tensor,
    bag: Tensor,
    sizes: Tensor,
    largest: Tensor,
    num_weights: int,
    *rest: Any,
) -> Tensor:
    """The cotangents of all rows of the table."""
    if not indices.size or not cotangent.size:
        return cotangent.executor.full((num_weights, cotangent.shape[1]), 0, cotangent.dtype)
    return _returned(cotangent, indices, bag, sizes, largest, num_weights, *rest)


@implements("_embedding_bag_backward", inferred=False)
def embedding_bag_backward(
    cotangent: Tensor, indices: Tensor, offsets: Tensor, bag: Tensor, sizes: Tensor, largest: Tensor, num_weights: int,
    scale_grad_by_freq: bool, mode: int, sparse: bool, per_sample_weights: Tensor | None, padding_idx: int = -1,
) -> Tensor:  # fmt: skip
    if sparse:
        raise NotImplementedError("hologram, embedding_bag: gradients are dense, got sparse=True")
    settings = scale_grad_by_freq, mode, per_sample_weights, padding_idx
    return bag_backward(cotangent, indices, bag, sizes, largest, num_weights, *settings)


@implements("_embedding_bag_per_sample_weights_backward", inferred=False)
@fused
def embedding_bag_weights_backward(
    cotangent: Tensor,
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    bag: Tensor,
    mode: int,
    padding_idx: int = -1,
) -> Tensor:
    """Each sample's row times the cotangent of its bag."""
    sums = hg.sum(hg.index_select(cotangent, bag, axis=0) * hg.embedding(indices, weight), axis=1)
    return hg.where(hg.equal(indices, padding_idx), 0.0, sums) if padding_idx >= 0 else sums
