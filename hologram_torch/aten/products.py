"""Matrix products with what ATen adds to them."""

from __future__ import annotations

from typing import Any

import hologram as hg
from hologram.opset import OPERATIONS
from hologram_torch.kernels.registry import implements
from hologram_torch.tensors.dtypes import torch_dtype


def scaled(x: Any, factor: Any) -> Any:
    """x * factor, itself for 1; integers take the factor's integer part."""
    factor = factor if x.dtype.is_inexact else int(factor)
    return x if factor == 1 else hg.multiply(x, factor)


def plus(product: Any, x: Any, beta: Any, alpha: Any) -> Any:
    """alpha product + beta x; for a beta of 0 x is not read, whatever it holds."""
    product = scaled(product, alpha)
    return product if beta == 0 else hg.add(product, scaled(x, beta))


def spread(name: str, x: Any, a: Any, b: Any) -> Any:
    """What is added to a product, as large as that; raises RuntimeError where factors or shapes do not fit."""
    inner = b.shape[max(b.ndim - 2, 0)]
    shape = (*a.shape[:-1], *b.shape[max(b.ndim - 1, 1) :])
    if a.shape[-1] != inner or a.shape[:-2] != b.shape[:-2]:
        raise RuntimeError(
            f"hologram, {name}: matrices cannot be multiplied, got {list(a.shape)} and {list(b.shape)}"
        )
    if x.ndim > len(shape) or any(n not in (1, m) for n, m in zip(x.shape[::-1], shape[::-1], strict=False)):
        raise RuntimeError(
            f"hologram, {name}: {list(x.shape)} cannot be expanded to the product's {list(shape)}"
        )
    return x if x.shape == shape else x.expand(shape)


def alike(*operands: Any) -> None:
    """Refuses operands of several dtypes, which PyTorch's products do not promote."""
    if len({x.dtype for x in operands}) > 1:
        names = " and ".join(str(torch_dtype(x.dtype)) for x in operands)
        raise RuntimeError(
            f"hologram: expected the operands of a product to have the same dtype, but got: {names}"
        )


@implements("mm", "bmm", operation=OPERATIONS["matmul"], by_class=True)
def product(a: Any, b: Any) -> Any:
    alike(a, b)
    return hg.matmul(a, b)


@implements("mv", by_class=True)
def mv(a: Any, x: Any) -> Any:
    alike(a, x)
    return hg.matvec(a, x)


@implements("addmm", "addmv", "baddbmm", by_class=True)
def addmm(x: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    alike(x, a, b)
    whole = spread("addmm", x, a, b)
    if alpha == 0:  # as BLAS: the factors are not read, whatever they hold, nor is x where beta is 0 too
        return scaled(whole, beta) if beta else x.executor.full(whole.shape, 0, x.dtype)
    plain = alpha == beta == 1 and a.ndim == b.ndim == 2 and x.dtype.is_float
    if plain and x.shape == b.shape[1:]:  # else it is broadcast
        return hg.linear(a, b.mT, x)
    return plus(hg.matmul(a, b), x, beta, alpha)


@implements("dot", by_class=True)
def dot(x: Any, y: Any) -> Any:
    alike(x, y)
    return hg.sum(hg.multiply(x, y), dtype=x.dtype) if x.dtype.is_complex else hg.vecdot(x, y)


@implements("vdot", by_class=True)
def vdot(x: Any, y: Any) -> Any:
    alike(x, y)
    return hg.vecdot(x, y)


@implements("addbmm", by_class=True)
def addbmm(x: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    """The products of all pairs of matrices added up."""
    alike(x, a, b)
    return plus(hg.sum(hg.matmul(a, b), axis=0, dtype=a.dtype), x, beta, alpha)
