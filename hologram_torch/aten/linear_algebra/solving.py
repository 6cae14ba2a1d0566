"""Systems of equations: LU factors, and what is solved by them and by triangles."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

import hologram as hg
from hologram.frontend.tensor import Tensor
from hologram.opset.linear_algebra import solving, triangular
from hologram.opset.linear_algebra.triangular import triangle
from hologram_torch.aten.linear_algebra.declared import matrices
from hologram_torch.aten.linear_algebra.factors import none
from hologram_torch.kernels.fused import fused


@functools.cache
def _turns(name: str) -> bool:
    """Whether an operator factors the transposes of matrices that lie row by row, which its derivative relies on.

    That has changed from one PyTorch to another, so this one is asked.
    """
    x = torch.tensor([[1.0, 0.0], [2.0, 1.0]], device="cpu")  # rows are exchanged, of the transpose none
    operands = (x, x) if name == "_linalg_solve_ex" else (x,)
    with _disable_current_modes():
        results = getattr(torch.ops.aten, name)(*operands)
    pivots = next(r for r in results if r.dtype == torch.int32 and r.ndim)
    return pivots.tolist()[0] == 1


def _lu(name: str, x: Tensor) -> tuple[bool, Any]:
    """Factors, pivots and codes of matrices, or of their transposes, and whether of these."""
    turned = x.layout.is_contiguous and _turns(name)
    return turned, solving.lu(x.mT if turned else x)


def _solved(factors: Tensor, pivots: Tensor, b: Tensor, left: bool, transposed: bool) -> Tensor:
    """The x with a x = b, or x a = b; a may have been transposed before it was factored."""
    if left:
        return solving.lu_solve(factors, pivots, b, adjoint=transposed)
    return solving.lu_solve(factors, pivots, b.mT, adjoint=not transposed).mT


@matrices("linalg_lu_factor_ex", solving.lu, checked="torch.linalg.lu_factor_ex")
def lu_factor_ex(x: Tensor) -> Any:
    factors, pivots, info = solving.lu(x)
    return factors, pivots + 1, info


@matrices("linalg_lu_solve", solving.lu_solve)
def lu_solve(factors: Tensor, pivots: Tensor, b: Tensor, left: bool = True, adjoint: bool = False) -> Tensor:
    if adjoint and b.dtype.is_complex:  # the conjugate of what the conjugate of b gives with the transpose
        return hg.conj(_solved(factors, pivots - 1, hg.conj(b), left, True))
    return _solved(factors, pivots - 1, b, left, adjoint)


@matrices("_linalg_solve_ex", solving.lu, solving.lu_solve, checked="torch.linalg.solve_ex")
def solve_ex(a: Tensor, b: Tensor, left: bool = True) -> Any:
    turned, (factors, pivots, info) = _lu("_linalg_solve_ex", a)
    vector = b.ndim == 1 or (b.ndim == a.ndim - 1 and b.shape == a.shape[:-1])
    x = _solved(factors, pivots, b[..., None] if vector else b, left or vector, turned)
    return x[..., 0] if vector else x, factors, pivots + 1, info


@matrices("linalg_inv_ex", solving.inv, checked="linalg.inv_ex")
def inv_ex(x: Tensor) -> Any:
    return solving.inv(x)


@fused
def _sign(pivots: Tensor) -> Tensor:
    """The sign of the rows' exchanges."""
    own = hg.arange(pivots.shape[-1], dtype="i32", device=pivots.executor)
    return hg.where(hg.sum(hg.not_equal(pivots, own).astype("i32"), axis=-1) % 2, -1, 1)


@matrices("_linalg_det", solving.lu)
def det(x: Tensor) -> Any:
    _, (factors, pivots, _) = _lu("_linalg_det", x)
    product = hg.prod(hg.linalg.diagonal(factors), axis=-1)
    return product * _sign(pivots).astype(x.dtype), factors, pivots + 1


@matrices("_linalg_slogdet", solving.lu)
def slogdet(x: Tensor) -> Any:
    _, (factors, pivots, _) = _lu("_linalg_slogdet", x)
    diagonal = hg.linalg.diagonal(factors)
    sign = hg.prod(hg.sign(diagonal), axis=-1) * _sign(pivots).astype(x.dtype)
    return sign, hg.sum(hg.log(hg.abs(diagonal)), axis=-1), factors, pivots + 1


def _unpacked(factors: Tensor) -> tuple[Tensor, Tensor]:
    """L, and U."""
    rows, columns = factors.shape[-2:]
    width = min(rows, columns)
    ones = hg.eye(rows, width, dtype=factors.dtype, device=factors.executor)
    return triangle(factors[..., :width], False, True) + ones, triangle(factors[..., :width, :], True)


def _permutation(pivots: Tensor, rows: int, dtype: Any) -> Tensor:
    """P, whose product with L U is the matrix."""
    order = solving.row_order(pivots, rows=rows)
    places = hg.arange(rows, dtype="i32", device=pivots.executor)
    return hg.equal(order[..., None, :], places[:, None]).astype(dtype)


@matrices("linalg_lu", solving.lu, solving.row_order)
def lu(x: Tensor) -> Any:
    factors, pivots, _ = solving.lu(x)
    return _permutation(pivots, x.shape[-2], x.dtype), *_unpacked(factors)


@matrices("lu_unpack", solving.row_order)
def lu_unpack(factors: Tensor, pivots: Tensor, data: bool = True, order: bool = True) -> Any:
    rows = factors.shape[-2]
    p = _permutation(pivots - 1, rows, factors.dtype) if order else none(factors)
    return p, *(_unpacked(factors) if data else (none(factors), none(factors)))


@matrices("linalg_solve_triangular", triangular.solve_triangular)
def solve_triangular(
    a: Tensor, b: Tensor, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    return hg.linalg.solve_triangular(a, b, upper=upper, left=left, unitriangular=unitriangular)


@matrices("triangular_solve", triangular.solve_triangular)
def triangular_solve(
    b: Tensor, a: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Any:
    x = hg.linalg.solve_triangular(
        a.mT if transpose else a, b, upper=upper != transpose, unitriangular=unitriangular
    )
    return x, a.expand((*x.shape[:-2], *a.shape[-2:]))


@matrices("_cholesky_solve_helper", triangular.solve_triangular)
def cholesky_solve(b: Tensor, factor: Tensor, upper: bool) -> Tensor:
    return hg.linalg.cholesky_solve(factor, b, upper=upper)


@matrices("cholesky_inverse", triangular.solve_triangular)
def cholesky_inverse(factor: Tensor, upper: bool = False) -> Tensor:
    one = hg.eye(factor.shape[-1], dtype=factor.dtype, device=factor.executor)
    return hg.linalg.cholesky_solve(factor, one.expand(factor.shape), upper=upper)


@matrices("linalg_matrix_exp", solving.solve)
def matrix_exp(x: Tensor) -> Tensor:
    """Of halves in f32, as on CUDA; the numbers of PyTorch's CPU are none."""
    return hg.linalg.expm(x.astype(x.dtype.computed, copy=False)).astype(x.dtype, copy=False)
