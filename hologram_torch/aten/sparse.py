"""Sparse tensors as gradients of embeddings have them: made, read, brought together, added to dense ones.

A sparse tensor is two dense ones and sizes. What only takes it apart or puts it together looks at no elements, so the
CPU's kernels do it for the device; what computes is written here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from hologram_torch.kernels.operators import known, operator
from hologram_torch.kernels.registry import library

KEY = "SparsePrivateUse1"
ALIKE = (
    "_sparse_coo_tensor_with_dims_and_tensors", "_sparse_coo_tensor_with_dims", "_indices", "_values", "indices",
    "values", "_nnz", "sparse_dim", "dense_dim", "_dimI", "_dimV", "is_coalesced", "_coalesced_", "clone", "zero_",
    "copy_", "copy_sparse_to_sparse_", "cat", "empty.memory_format", "_to_dense", "sparse_resize_",
    "sparse_resize_and_clear_",
)  # fmt: skip
_host = torch._C.DispatchKeySet(torch._C.DispatchKey.SparseCPU)


def _as_the_host(name: str) -> Callable[..., Any]:
    overload = operator(name)

    def call(*args: Any, **kwargs: Any) -> Any:
        return overload.redispatch(_host, *args, **kwargs)

    return call


for _name in filter(known, ALIKE):
    library.impl(_name, _as_the_host(_name), KEY)


def made(indices: torch.Tensor, values: torch.Tensor, like: torch.Tensor, coalesced: bool) -> torch.Tensor:
    return torch.ops.aten._sparse_coo_tensor_with_dims_and_tensors(
        like.sparse_dim(), like.dense_dim(), like.shape, indices, values, dtype=values.dtype,
        layout=torch.sparse_coo, device=values.device, is_coalesced=coalesced,
    )  # fmt: skip


def _coalesce(x: torch.Tensor) -> torch.Tensor:
    """Every place once, in order, with the sum of what was there."""
    indices, values, sizes = x._indices(), x._values(), x.shape[: x.sparse_dim()]
    if x._nnz() < 2:
        return made(indices, values, x, True)
    flat = torch.zeros_like(indices[0])
    for row, n in zip(indices, sizes, strict=True):
        flat = flat * n + row
    distinct, inverse = torch.unique(flat, return_inverse=True)
    sums = values.new_zeros(distinct.shape[0], *values.shape[1:])
    sums.index_put_((inverse,), values, accumulate=True)
    rows = []
    for n in reversed(sizes):
        rows.append(distinct % n)
        distinct = distinct // n
    return made(torch.stack(rows[::-1]), sums, x, True)


def _sum(x: torch.Tensor, other: torch.Tensor, alpha: Any) -> torch.Tensor:
    """Of two sparse tensors: the elements of both, side by side."""
    if x.shape != other.shape or x.sparse_dim() != other.sparse_dim():
        raise RuntimeError(
            f"hologram, add: sparse tensors of one shape are needed, got {tuple(x.shape)} and {tuple(other.shape)}"
        )
    values = other._values() if alpha == 1 else other._values() * alpha
    dtype = torch.result_type(x._values(), values)
    both = torch.cat([x._values().to(dtype), values.to(dtype)])
    return made(torch.cat([x._indices(), other._indices()], 1), both, x, False)


def _add(x: torch.Tensor, other: torch.Tensor, *, alpha: Any = 1) -> torch.Tensor:
    if x.is_sparse and other.is_sparse:
        return _sum(x, other, alpha)
    if x.is_sparse:
        raise RuntimeError(
            "hologram, add: add(sparse, dense) is not supported. Use add(dense, sparse) instead."
        )
    return _add_in_place(x.clone(), other, alpha=alpha)


def _add_in_place(x: torch.Tensor, other: torch.Tensor, *, alpha: Any = 1) -> torch.Tensor:
    if x.is_sparse and other.is_sparse:
        return x.copy_(_sum(x, other, alpha))
    if x.is_sparse or x.shape != other.shape:
        raise RuntimeError(
            f"hologram, add_: a sparse tensor is added to a dense one of its shape, got {tuple(other.shape)} for "
            f"{tuple(x.shape)}"
        )
    values = other._values() if alpha == 1 else other._values() * alpha
    return x.index_put_(tuple(other._indices()), values.to(x.dtype), accumulate=True)


def _masked(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The elements of a dense tensor where a sparse one has any."""
    indices = mask._indices()
    return made(indices, x[tuple(indices)], mask, mask.is_coalesced())


def _number(name: str, x: Any, other: Any) -> Any:
    """What the elements of a coalesced sparse tensor are scaled by: a number, or those of a dense one."""
    if not isinstance(other, torch.Tensor) or not other.ndim:
        return other
    if other.is_sparse:
        raise NotImplementedError(
            f"hologram, {name}: a sparse tensor is scaled by numbers or a dense one; take y.to_dense()"
        )
    return other.broadcast_to(x.shape)[tuple(x._indices())]


def _scalable(x: torch.Tensor, other: Any) -> torch.Tensor:
    return x.coalesce() if isinstance(other, torch.Tensor) and other.ndim else x


def _scaled(name: str) -> Callable[..., Any]:
    def new(x: Any, other: Any) -> torch.Tensor:
        if not isinstance(x, torch.Tensor) or not x.is_sparse:
            x, other = other, x
        x = _scalable(x, other)
        values = getattr(x._values(), name)(_number(name, x, other))
        return made(x._indices(), values, x, x.is_coalesced())

    return new


def _scaled_in_place(name: str) -> Callable[..., Any]:
    def written(x: torch.Tensor, other: Any) -> torch.Tensor:
        if isinstance(other, torch.Tensor) and other.ndim:
            return x.copy_(_scaled(name)(x, other))
        getattr(x._values(), f"{name}_")(other)
        return x

    return written


for _name, _function in {
    "mul.Tensor": _scaled("mul"),
    "mul_.Tensor": _scaled_in_place("mul"),
    "mul.out": lambda x, other, *, out: out.copy_(_scaled("mul")(x, other)),
    "div.Tensor": _scaled("div"),
    "div_.Tensor": _scaled_in_place("div"),
    "_coalesce": _coalesce,
    "add.Tensor": _add,
    "add_.Tensor": _add_in_place,
    "sparse_mask": _masked,
}.items():
    library.impl(_name, _function, KEY)
