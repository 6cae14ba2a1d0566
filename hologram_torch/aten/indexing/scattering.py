"""Writing at positions: scatter and the index_* family, with sums, means, products and extremes."""

from __future__ import annotations

from functools import partial
from typing import Any

import hologram as hg
from hologram.frontend.tensor import Tensor
from hologram.opset.forms.types import accumulator
from hologram_torch.aten.indexing.positions import along, at_least_1d, check
from hologram_torch.aten.indexing.reading import added, of_positions
from hologram_torch.aten.indexing.writing import Into, copied, over
from hologram_torch.kernels.numbers import scalar
from hologram_torch.kernels.registry import implements


def _taken(name: str, x: Tensor, dim: int, index: Tensor, source: Any) -> tuple[Tensor, Tensor, Any]:
    """Operands of at least one axis, the source cut to what positions there are for; refuses those out of range."""
    x, index, source = (at_least_1d(v) for v in (x, index, source))
    check(name, index, x.shape[dim], kind=RuntimeError)
    if isinstance(source, Tensor):
        if source.dtype is not x.dtype:
            raise RuntimeError(
                f"hologram, {name}: Expected self.dtype to be equal to src.dtype, got {x.dtype} and {source.dtype}"
            )
        for axis, n in enumerate(index.shape):
            source = source.narrow(axis, 0, n)
    else:
        source = scalar(x, source).expand(index.shape)
    return x, index, source


def scatter(x: Any, dim: int, index: Any, src: Any = None, value: Any = None, *, into: Into = copied) -> Any:
    if not index.size:
        return x
    _, index, source = _taken("scatter", x, dim, index, value if src is None else src)
    return into(x, dim, index, source)


implements("scatter.src", "scatter.value", over=partial(scatter, into=over))(scatter)


@implements("scatter_add")
def scatter_add(x: Any, dim: int, index: Any, src: Any) -> Any:
    if not index.size:
        return x
    whole, index, source = _taken("scatter_add", x, dim, index, src)
    return added(whole, dim, index, source).reshape(x.shape)


WORDS = {"add": "sum", "multiply": "prod"}  # of the older operators


@implements("scatter.reduce", "scatter.value_reduce")
def scatter_by(x: Any, dim: int, index: Any, src: Any = None, value: Any = None, *, reduce: str) -> Any:
    if reduce not in WORDS:
        raise RuntimeError(
            f"hologram, scatter: reduce argument must be either add or multiply, got {reduce!r}"
        )
    if not index.size:
        return x
    whole, index, source = _taken("scatter", x, dim, index, value if src is None else src)
    return reduced(whole, dim, index, source, WORDS[reduce], True).reshape(x.shape)


@implements("scatter_reduce.two")
def scatter_reduce(x: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True) -> Any:
    if not index.size:
        return x
    whole, index, source = _taken("scatter_reduce", x, dim, index, src)
    return reduced(whole, dim, index, source, reduce, include_self).reshape(x.shape)


NEUTRAL = {
    "sum": lambda dtype: 0,
    "prod": lambda dtype: 1,
    "amin": lambda d: d.highest,
    "amax": lambda d: d.lowest,
}


def reduced(x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, include_self: bool) -> Tensor:
    """Elements of the source brought together at positions, with what was there or without it."""
    if reduce != "mean" and reduce not in NEUTRAL:
        raise RuntimeError(
            f"hologram, scatter_reduce: reduce must be one of {', '.join((*NEUTRAL, 'mean'))}, got {reduce!r}"
        )
    if x.dtype.kind == "bool":
        if reduce == "mean":
            raise RuntimeError("hologram, scatter_reduce: a mean of bools is not defined")
        return reduced(x.astype("i32"), dim, index, source.astype("i32"), reduce, include_self).astype("bool")
    if reduce == "mean":
        return _averaged(x, dim, index, source, include_self)
    start = x
    if not include_self:
        start = hg.scatter(x, index, scalar(x, NEUTRAL[reduce](x.dtype)).expand(index.shape), dim=dim)
    if reduce == "sum":
        return hg.scatter_add(start, index, source, dim=dim)
    return hg.scatter_reduce(start, index, source, dim=dim, reduce=reduce.removeprefix("a"))


def _averaged(x: Tensor, dim: int, index: Tensor, source: Tensor, include_self: bool) -> Tensor:
    """See reduced: sums in what x's dtype is added up in, divided by counts, rounded once."""
    start, source = (v.astype(accumulator(x.dtype), copy=False) for v in (x, source))
    if not include_self:
        start = hg.scatter(start, index, scalar(start, 0).expand(index.shape), dim=dim)
    total = hg.scatter_add(start, index, source, dim=dim)
    ones = x.executor.full((), 1, "i64").expand(index.shape)
    counts = x.executor.full((), int(include_self), "i64").expand(x.shape)
    counts = hg.maximum(hg.scatter_add(counts, index, ones, dim=dim), 1)
    if x.dtype.is_float:
        return hg.divide(total, counts).astype(x.dtype, copy=False)
    return hg.floor_divide(total, counts.astype(total.dtype, copy=False)).astype(x.dtype, copy=False)


# The same with a row of positions for all slices.


def _rows(
    name: str,
    x: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    kind: type[Exception] = IndexError,
) -> tuple[Tensor, Tensor, Tensor, int]:
    """Operands with the positions for every element of the source."""
    axis = dim % max(x.ndim, 1)
    index, whole = at_least_1d(index), at_least_1d(x)
    source = at_least_1d(source)
    if source.shape != tuple(index.size if k == axis else n for k, n in enumerate(whole.shape)):
        raise RuntimeError(
            f"hologram, {name}: source tensor shape must match self tensor shape, excluding the specified dimension. "
            f"Got self.shape = {list(x.shape)} source.shape = {list(source.shape)}"
        )
    if source.dtype is not x.dtype:
        raise RuntimeError(
            f"hologram, {name}: self and source expected to have the same dtype, but got {x.dtype} and {source.dtype}"
        )
    check(name, index, whole.shape[axis], kind=kind)
    return whole, along(index, source.shape, axis), source, axis


@implements("index_add", refuses=of_positions)
def index_add(x: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Any:
    if not index.size:
        return x
    ends = x.ndim > 1 and dim % x.ndim in (0, x.ndim - 1)  # where PyTorch has it done by scatter_add
    kind = RuntimeError if ends else IndexError
    whole, positions, source, axis = _rows("index_add", x, dim, index, source, kind)
    source = source if alpha == 1 else hg.multiply(source, scalar(source, alpha)).astype(x.dtype, copy=False)
    return added(whole, axis, positions, source).reshape(x.shape)


def index_copy(x: Any, dim: int, index: Any, source: Any, *, into: Into = copied) -> Any:
    if not index.size:
        return x
    _, positions, source, axis = _rows("index_copy", x, dim, index, source)
    return into(x, axis, positions, source)


implements("index_copy", over=partial(index_copy, into=over))(index_copy)


@implements("index_reduce")
def index_reduce(x: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True) -> Any:
    if not index.size:
        return x
    whole, positions, source, axis = _rows("index_reduce", x, dim, index, source)
    return reduced(whole, axis, positions, source, reduce, include_self).reshape(x.shape)


def index_fill(x: Any, dim: int, index: Any, value: Any, *, into: Into = copied) -> Any:
    if not index.size:
        return x
    whole = at_least_1d(x)
    value = value.astype(x.dtype, copy=False) if isinstance(value, Tensor) else scalar(x, value)
    shape = tuple(index.size if k == dim % whole.ndim else n for k, n in enumerate(whole.shape))
    _, positions, source, axis = _rows("index_fill", whole, dim, index, value.expand(shape))
    return into(x, axis, positions, source)


implements("index_fill.int_Scalar", "index_fill.int_Tensor", over=partial(index_fill, into=over))(index_fill)
