"""What graphs' networks compute of sparse tensors in coordinates; all else about sparse tensors is refused in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import torch

from hologram_torch.aten.sparse import KEY, made
from hologram_torch.kernels.operators import name_of
from hologram_torch.kernels.registry import everything_else, library, register

COMPRESSED = "SparseCsrPrivateUse1"  # of rows or columns, of numbers or blocks
ADVICE = "move x.to_dense(), or compute it on x.cpu()"

# Of elements alone, and 0 of 0.
UNARY = ("neg", "relu", "abs", "sqrt", "square", "sin", "tanh", "sign", "conj_physical")


def _product(sparse: torch.Tensor, dense: torch.Tensor) -> torch.Tensor:
    """Of a matrix and a matrix or a vector; sums are of f32 where the dtype is narrower."""
    if sparse.sparse_dim() != 2 or sparse.dense_dim() or dense.is_sparse:
        raise NotImplementedError(
            f"hologram, mm: a sparse matrix is multiplied by a dense one, got {sparse.sparse_dim()} sparse and "
            f"{sparse.dense_dim()} dense axes, and {dense.layout}; {ADVICE}"
        )
    if sparse.shape[1] != dense.shape[0]:
        raise RuntimeError(
            f"hologram, mm: inner sizes must agree, got {tuple(sparse.shape)} and {tuple(dense.shape)}"
        )
    wide = torch.promote_types(dense.dtype, torch.float32) if dense.is_floating_point() else dense.dtype
    (row, column), values = sparse._indices(), sparse._values().to(wide)
    parts = dense.index_select(0, column).to(wide)
    parts = parts * (values if dense.ndim == 1 else values[:, None])
    sums = torch.zeros((sparse.shape[0], *dense.shape[1:]), dtype=wide, device=dense.device)
    return sums.index_add_(0, row, parts).to(dense.dtype)


def _mm(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return _product(x, y) if x.is_sparse else _product(y.t(), x.t()).t()


def _added(
    bias: torch.Tensor, x: torch.Tensor, y: torch.Tensor, *, beta: Any = 1, alpha: Any = 1
) -> torch.Tensor:
    if bias.is_sparse:
        raise NotImplementedError(
            f"hologram, addmm: what is added must be dense, got {bias.layout}; {ADVICE}"
        )
    product = _mm(x, y) if alpha == 1 else _mm(x, y) * alpha
    return product if beta == 0 else torch.add(product, bias, alpha=beta)


def _sum(x: torch.Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> torch.Tensor:
    if not dim and not keepdim:
        return x._values().sum(dtype=dtype)
    return torch.sparse.sum(x if dtype is None else x.to(dtype), dim).to_dense()


def _elements(name: str) -> Callable[..., torch.Tensor]:
    def computed(x: torch.Tensor) -> torch.Tensor:
        x = x.coalesce()
        return made(x._indices(), getattr(torch, name)(x._values()), x, True)

    return computed


def _power(x: torch.Tensor, exponent: Any) -> torch.Tensor:
    if exponent <= 0:  # 0 ** 0 is 1, everywhere
        raise RuntimeError(f"hologram, pow: a sparse tensor's exponent must be above 0, got {exponent}")
    x = x.coalesce()
    return made(x._indices(), x._values() ** exponent, x, True)


def _coordinates(x: torch.Tensor, axes: int) -> torch.Tensor:
    """What of a dense tensor is not 0, by its first axes."""
    marks = (x != 0).flatten(axes).any(-1) if axes < x.ndim else x != 0
    indices = marks.nonzero().t().contiguous()
    return torch.ops.aten._sparse_coo_tensor_with_dims_and_tensors(
        axes, x.ndim - axes, x.shape, indices, x[tuple(indices)],
        dtype=x.dtype, layout=torch.sparse_coo, device=x.device, is_coalesced=True,
    )  # fmt: skip


def _to_sparse(x: torch.Tensor, *, layout: Any = None, blocksize: Any = None, dense_dim: Any = None) -> Any:
    if layout not in (None, torch.sparse_coo):
        _refuse_compressed(layout)
    return _coordinates(x, x.ndim if dense_dim is None else x.ndim - dense_dim)


def _refuse_compressed(layout: Any) -> NoReturn:
    raise NotImplementedError(
        f"hologram: tensors of {layout} are not on the device, which has some operators of torch.sparse_coo; move "
        "x.to_dense(), or x.to_sparse_coo() for products and sums, or compute on x.cpu()"
    )


def _unknown(overload: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise NotImplementedError(f"hologram, {name_of(overload)}: not done with sparse tensors; {ADVICE}")


def _compressed(overload: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise NotImplementedError(
        f"hologram, {name_of(overload)}: not done with compressed sparse tensors (torch.sparse_csr and its kin); "
        "move x.to_dense() or x.to_sparse_coo(), or compute on the CPU"
    )


everything_else.fallback(_unknown, KEY)
everything_else.fallback(_compressed, COMPRESSED)
# Where they are moved, or made, before parts of them are.
library.impl("_to_copy", lambda x, **named: _refuse_compressed(x.layout), COMPRESSED)
for _name in ("sparse_compressed_tensor.comp_plain_value_size", "_sparse_compressed_tensor_unsafe", "zeros"):
    library.impl(_name, lambda *args, layout=None, **named: _refuse_compressed(layout), COMPRESSED)
register("_to_sparse", _to_sparse)
register("_to_sparse.sparse_dim", _coordinates)
for _kind in ("csr", "csc", "bsr", "bsc"):
    register(
        f"_to_sparse_{_kind}", lambda x, *rest, of=_kind, **named: _refuse_compressed(f"torch.sparse_{of}")
    )
for _name, _function in {
    "mm": _mm,
    "mm.out": lambda x, y, *, out: out.resize_(x.shape[0], y.shape[1]).copy_(_mm(x, y)),
    "addmm": _added,
    "addmm.out": lambda b, x, y, *, beta=1, alpha=1, out: out.copy_(_added(b, x, y, beta=beta, alpha=alpha)),
    "addmm_": lambda b, x, y, *, beta=1, alpha=1: b.copy_(_added(b, x, y, beta=beta, alpha=alpha)),
    "mv": _product,
    "addmv": _added,
    "sum": _sum,
    "sum.dim_IntList": _sum,
    "pow.Tensor_Scalar": _power,
    **{name: _elements(name) for name in UNARY},
}.items():
    library.impl(_name, _function, KEY)
