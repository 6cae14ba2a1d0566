"""Results in memory of their own, laid out as PyTorch expects them, or written over what PyTorch gives."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import hologram as hg
from hologram.foundation.sizes import plain
from hologram.frontend.tensor import Tensor
from hologram.machine.layout import Layout
from hologram.opset.logic import where
from hologram.runtime.launches.recording import Unrepeatable, asked
from hologram_torch.kernels.strides import outermost_first
from hologram_torch.tensors.formats import is_channels_last


def own(result: Tensor, tensors: Sequence[Tensor]) -> bool:
    """Whether a result's memory is no operand's, and each element is in a place of its own."""
    if any(result.buffer is t.buffer for t in tensors):
        return False
    layout = result.layout
    return layout.is_contiguous or all(
        s > 0 or n <= 1 for s, n in zip(layout.strides, layout.shape, strict=True)
    )


def placed(result: Tensor, wanted: Layout, tensors: Sequence[Tensor]) -> Tensor:
    """A result in memory of its own, with the strides that PyTorch expects where these are an order of axes."""
    alike = (result.layout.is_contiguous and wanted.is_contiguous) or same_steps(result.layout, wanted)
    if alike and own(result, tensors):
        return _named(result, wanted)
    shape = wanted.shape
    order = outermost_first(wanted.shape, wanted.strides)
    if wanted.is_contiguous or 0 in shape:
        return _named(result.clone(), wanted)
    if not same_steps(Layout.contiguous(wanted.dtype, [shape[k] for k in order]), wanted.permute(order)):
        return result.clone()
    return _named(ordered(result, order), wanted)


def ordered(x: Tensor, order: Sequence[int]) -> Tensor:
    """A copy with its axes in memory in an order, the outermost first."""
    return x.permute(order).clone().permute([order.index(k) for k in range(x.ndim)])


def _named(x: Tensor, wanted: Layout) -> Tensor:
    """A tensor whose elements lie as they should, with the strides that PyTorch has along axes of one element too."""
    if x.layout.strides == wanted.strides:
        return x
    return Tensor(x.buffer, Layout(x.dtype, x.shape, wanted.strides, x.layout.offset))


def as_images(result: Tensor, *operands: Tensor) -> Tensor:
    """A result row by row, or in channels_last where one of the operands is."""
    if any(is_channels_last(x.shape, x.layout.strides) for x in operands):
        return ordered(result, (0, *range(2, result.ndim), 1))
    return result if result.layout.is_contiguous else result.clone()


def traced_result(result: Tensor, wanted: Layout | None, tensors: Sequence[Tensor]) -> Tensor:
    """As `placed`, where the result's sizes are traced and the wanted ones are not."""
    if wanted is None:
        return result if own(result, tensors) else result.clone()
    if tuple(map(plain, result.shape)) != wanted.shape:
        raise Unrepeatable
    if result.dtype is not wanted.dtype:
        result = result.astype(wanted.dtype)
    shape, step = result.shape, 1
    strides = [1] * len(shape)
    for k in outermost_first(wanted.shape, wanted.strides)[::-1]:
        strides[k] = step
        if plain(step) != wanted.strides[k]:
            raise Unrepeatable
        step *= max(shape[k], 1)
    return placed(result, Layout(wanted.dtype, shape, tuple(strides)), tensors)


def same_steps(a: Layout, b: Layout) -> bool:
    """Whether elements lie alike."""
    return all(n <= 1 or s == t for n, s, t in zip(a.shape, a.strides, b.strides, strict=True))


def refused() -> Tensor | None:
    """Whether what was asked so far was refused, for launches that are recorded: they write to no argument then."""
    flags = [Tensor(flag, flag.kind.layout).reshape(()) for flag in asked()]
    return reduce(hg.logical_or, flags) if flags else None


def write(result: Tensor, target: Tensor) -> None:
    """Writes a result over a tensor, converted and broadcast, unless an argument was refused."""
    if result.buffer is target.buffer and result.layout is target.layout:
        return
    unless = refused()
    if unless is None:
        target.executor.copy(result, target)
        return
    converted = result.astype(target.dtype, copy=False)
    if converted.ndim > target.ndim:  # one number, computed along an axis that the arguments have not
        converted = converted.reshape(target.shape)
    target.executor.execute(where, (unless, target, converted), (target,), {})
