"""Rows of a table by their numbers."""

from __future__ import annotations

import hologram as hg
from hologram.foundation import dtypes
from hologram.frontend.tensor import Tensor
from hologram_torch.aten.indexing import positions as places
from hologram_torch.kernels.fused import fused
from hologram_torch.kernels.registry import implements
from hologram_torch.kernels.results import write


@implements("embedding")
def embedding(
    weight: Tensor,
    indices: Tensor,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Raises IndexError for rows that the table has not."""
    places.check("embedding", indices, weight.shape[0])
    if not weight.shape[0] or not weight.shape[1]:
        return weight.executor.full((*indices.shape, weight.shape[1]), 0, weight.dtype)
    return hg.embedding(indices, weight)


@implements("embedding_dense_backward")
@fused
def embedding_backward(
    cotangent: Tensor, indices: Tensor, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Tensor:
    """The cotangents of every row, added up; none for the row `padding_idx`."""
    index = indices.reshape(-1)
    width = cotangent.shape[-1]
    rows = cotangent.reshape(index.size, width)
    rows = rows.astype(rows.dtype.computed, copy=False) if scale_grad_by_freq else rows
    if padding_idx >= 0:
        rows = hg.where(hg.equal(index, padding_idx).unsqueeze(1), 0.0, rows)
    zeros = rows.executor.full((), 0, rows.dtype).expand((num_weights, width))
    sums = hg.scatter_add(zeros, index.unsqueeze(1).expand(rows.shape), rows, dim=0)
    return by_frequency(sums, index).astype(cotangent.dtype, copy=False) if scale_grad_by_freq else sums


def by_frequency(sums: Tensor, index: Tensor) -> Tensor:
    """Sums for each row of a table, divided by how often the row is named."""
    ones = index.executor.full((index.size,), 1, dtypes.i32)
    counts = hg.scatter_add(index.executor.full(sums.shape[:1], 0, dtypes.i32), index, ones, dim=0)
    return sums / hg.maximum(counts, 1).unsqueeze(1)


@implements("embedding_renorm_", inferred=False)
def embedding_renorm(weight: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Scales the rows named to a norm of at most `max_norm`."""
    places.check("embedding_renorm_", indices, weight.shape[0])
    write(_renormed(weight, indices.reshape(-1), float(max_norm), float(norm_type)), weight)
    return weight


@fused
def _renormed(weight: Tensor, index: Tensor, max_norm: float, norm_type: float) -> Tensor:
    ones = weight.executor.full((index.size,), 1, dtypes.i32)
    named = hg.scatter_add(weight.executor.full((weight.shape[0],), 0, dtypes.i32), index, ones, dim=0)
    size = hg.abs(weight.astype(dtypes.f64 if weight.dtype is dtypes.f64 else dtypes.f32, copy=False))
    if norm_type == float("inf"):
        norm = hg.max(size, axis=1, keepdims=True)
    else:
        norm = hg.pow(hg.sum(hg.pow(size, norm_type), axis=1, keepdims=True), 1.0 / norm_type)
    scale = hg.where(
        hg.logical_and(hg.greater(norm, max_norm), hg.greater(named, 0).unsqueeze(1)),
        max_norm / (norm + 1e-7),
        1.0,
    )
    return (weight * scale).astype(weight.dtype, copy=False)
