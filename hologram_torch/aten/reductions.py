"""Reductions that ATen writes otherwise than the declarations: extremes with positions, spread with means, traces."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

import hologram as hg
from hologram.frontend.tensor import Tensor
from hologram_torch.kernels.fused import fused
from hologram_torch.kernels.registry import implements, register
from hologram_torch.kernels.results import write
from hologram_torch.tensors.memory import hologram_tensor


def axes_of(x: Tensor, dim: int | Sequence[int] | None) -> tuple[int, ...] | None:
    """The axes that an operator names; None for all, which are also meant where none is named."""
    if dim is None or not x.ndim:
        return None
    return (dim,) if isinstance(dim, int) else tuple(dim) or None


def ordered(x: Tensor) -> Tensor:
    """A tensor whose elements are numbers: bools as u8."""
    return x.astype("u8") if x.dtype.kind == "bool" else x


def _extreme(fold: Callable[..., Any], position: Callable[..., Any], name: str) -> None:
    @implements(name, by_class=True)
    def whole(x: Any) -> Any:
        return fold(x)

    @implements(f"{name}.dim", by_class=True)
    def along(x: Any, dim: int, keepdim: bool = False) -> Any:
        axis = dim if x.ndim else None
        return fold(x, axis=axis, keepdims=keepdim), position(ordered(x), axis=axis, keepdims=keepdim)


_extreme(hg.max, hg.argmax, "max")
_extreme(hg.min, hg.argmin, "min")


def _position(name: str, operation: Callable[..., Any]) -> None:
    @implements(name, by_class=True)
    def along(x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
        return operation(ordered(x), axis=dim if x.ndim else None, keepdims=keepdim)


_position("argmax", hg.argmax)
_position("argmin", hg.argmin)


def _fold(operation: Callable[..., Any], *names: str) -> None:
    @implements(*names, by_class=True)
    def along(x: Any, dim: int | Sequence[int] | None = None, keepdim: bool = False) -> Any:
        return operation(x, axis=axes_of(x, dim), keepdims=keepdim)


_fold(hg.max, "amax")
_fold(hg.min, "amin")
_fold(hg.any, "any", "any.dim", "any.dims")
_fold(hg.all, "all", "all.dim", "all.dims")


@implements("aminmax", "_aminmax", "_aminmax.dim", by_class=True)
def aminmax(x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    axis = axes_of(x, dim)
    return hg.min(x, axis=axis, keepdims=keepdim), hg.max(x, axis=axis, keepdims=keepdim)


def _settings(x: Any, dim: Any, correction: float | None, keepdim: bool) -> dict[str, Any]:
    if not x.dtype.is_inexact:
        raise RuntimeError(
            f"hologram: std and var only support floating point and complex dtypes, got {x.dtype}"
        )
    correction = 1.0 if correction is None else float(correction)
    return {"axis": axes_of(x, dim), "correction": correction, "keepdims": keepdim}


def _spread(name: str, operation: Callable[..., Any]) -> None:
    @implements(f"{name}.correction", by_class=True)
    def alone(x: Any, dim: Any = None, *, correction: float | None = None, keepdim: bool = False) -> Any:
        return operation(x, **_settings(x, dim, correction, keepdim))

    @implements(f"{name}_mean.correction", by_class=True)
    def with_mean(x: Any, dim: Any = None, *, correction: float | None = None, keepdim: bool = False) -> Any:
        mean = hg.mean(x, axis=axes_of(x, dim), keepdims=keepdim)
        return alone(x, dim, correction=correction, keepdim=keepdim), mean


_spread("var", hg.var)
_spread("std", hg.std)


@implements("nansum", by_class=True)
def nansum(x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    plain = hg.where(hg.isnan(x), 0, x) if x.dtype.is_float else x
    return hg.sum(plain, axis=axes_of(x, dim), keepdims=keepdim, dtype=dtype)


@implements("trace", by_class=True)
def trace(x: Any) -> Any:
    n = min(x.shape)
    if not n:
        return hg.sum(x)
    positions = hg.arange(x.executor, 0, n) * (x.shape[1] + 1)
    return hg.sum(hg.index_select(x.reshape(x.size), positions, axis=0))


def _running(name: str, operation: Callable[..., Any]) -> None:
    """Written into outputs that PyTorch has made."""

    def kernel(x: torch.Tensor, values: torch.Tensor, indices: torch.Tensor, dim: int) -> None:
        results = operation(ordered(hologram_tensor(x)), axis=dim)
        for result, output in zip(results, (values, indices), strict=True):
            write(result, hologram_tensor(output))

    register(f"_{name}_helper", kernel)


_running("cummax", hg.cummax)
_running("cummin", hg.cummin)


@implements("_logcumsumexp", inferred=False)
def logcumsumexp(x: Any, dim: int) -> Any:
    if not -max(x.ndim, 1) <= dim < max(x.ndim, 1):
        raise IndexError(f"hologram, logcumsumexp: Dimension out of range: {dim} of a tensor of {x.ndim}")
    return hg.logcumsumexp(x, axis=dim)


@implements("linalg_vector_norm", by_class=True)
def vector_norm(x: Any, ord: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Computed in f32 at least, whose squares do not overflow where those of 16 bits do."""
    x = x if dtype is None else x.astype(dtype, copy=False)
    x = hg.abs(x) if x.dtype.is_complex else x
    return norm(x.astype("f32") if x.dtype.bits == 16 else x, float(ord), axes_of(x, dim), keepdim)


@fused
def norm(x: Any, order: float, axes: tuple[int, ...] | None, keepdims: bool) -> Any:
    kept: dict[str, Any] = {"axis": axes, "keepdims": keepdims}
    if order == 0:
        return hg.sum(hg.not_equal(x, 0.0), **kept).astype(x.dtype)
    if order == math.inf:
        return hg.max(hg.abs(x), **kept)
    if order == -math.inf:
        return hg.min(hg.abs(x), **kept)
    if order == 1:
        return hg.sum(hg.abs(x), **kept)
    if order == 2:
        return hg.sqrt(hg.sum(hg.square(x), **kept))
    return hg.pow(hg.sum(hg.pow(hg.abs(x), order), **kept), 1.0 / order)
