"""Strides of results where PyTorch's kernels without elements say other ones than its CPU's kernels give.

They say CUDA's where a tensor tells no device, and row by row where only an implementation knows. Here the CPU's hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils import _pytree as pytree

from hologram.machine.axes import row_major
from hologram_torch.kernels.operators import name_of
from hologram_torch.reach import reach
from hologram_torch.tensors.formats import memory_format

Like = Callable[..., Any]  # of arguments without elements; results without elements


def _meta(x: Any, shape: Sequence[int], stride: Sequence[int]) -> torch.Tensor:
    return torch.empty_strided(shape, stride, dtype=x.dtype, device="meta")


def _fake() -> Callable[[], AbstractContextManager[Any]]:
    from torch._subclasses.fake_tensor import FakeTensorMode

    return FakeTensorMode


_fake_tensors = reach(
    "fake-tensors",
    "torch._subclasses.fake_tensor.FakeTensorMode",
    "results of singular values and eigenvectors lie as CUDA's",
    _fake,
    None,
)


def of_device(overload: OpOverload) -> Like:
    """What PyTorch says of fake tensors of the device; tensors without one stand for CUDA's."""
    fake_tensors = _fake_tensors
    if fake_tensors is None:
        return overload

    def like(*args: Any, **kwargs: Any) -> Any:
        overload(*args, **kwargs)  # fake tensors log what they refuse
        with fake_tensors():
            given = pytree.tree_map_only(
                torch.Tensor,
                lambda x: torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="hologram"),
                (args, kwargs),
            )
            results = overload(*given[0], **given[1])
        return pytree.tree_map_only(torch.Tensor, lambda x: _meta(x, x.shape, x.stride()), results)

    return like


def transformed(overload: OpOverload) -> Like:
    """A Fourier transform as MKL gives it to PyTorch's CPU: its axes lie innermost (_exec_fft in SpectralOps.cpp)."""
    if not torch.backends.mkl.is_available():  # what is there instead gives rows
        return row_by_row(overload)
    name = name_of(overload)

    def like(x: Any, dim: Sequence[int], *args: Any, **kwargs: Any) -> Any:
        result = overload(x, dim[-1:], *args, **kwargs)  # of several, PyTorch 2.10 and 2.11 mistake the sizes
        if not dim:
            return result
        strides, axes = x.stride(), [d % x.ndim for d in dim]
        last = [] if name == "_fft_c2c" else [axes.pop()]
        axes.sort(key=lambda k: strides[k], reverse=True)
        if name == "_fft_c2r" and axes:  # along the last axis alone, at the end
            strides, axes = _innermost(x.shape, strides, axes), []
        return _meta(result, result.shape, _innermost(result.shape, strides, [*axes, *last]))

    return like


def _innermost(shape: Sequence[int], strides: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    """Strides without gaps, with these axes innermost, of a tensor whose others keep the order that they had."""
    others = [k for k in range(len(shape)) if k not in axes]
    others.sort(key=lambda k: strides[k], reverse=True)
    return _in_order(shape, [*others, *axes])


def as_images(overload: Like, position: int = 0) -> Like:
    """The first result, if there is one, in the memory format of the argument at a position."""

    def like(*args: Any, **kwargs: Any) -> Any:
        results = overload(*args, **kwargs)
        several = isinstance(results, (tuple, list))
        first = results[0] if several else results
        if first is None:
            return results
        first = torch.empty_like(first, memory_format=memory_format(args[position]))
        return (first, *results[1:]) if several else first

    return like


def row_by_row(overload: OpOverload) -> Like:
    def like(*args: Any, **kwargs: Any) -> Any:
        return pytree.tree_map_only(torch.Tensor, torch.Tensor.contiguous, overload(*args, **kwargs))

    return like


def of_losses(overload: OpOverload) -> Like:
    """Row by row; PyTorch's decompositions divide by the number of elements, even by none."""
    rows = row_by_row(overload)

    def like(cotangent: Any, x: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
        if x.numel():
            return rows(cotangent, x, target, *args, **kwargs)
        return x.new_empty(torch.broadcast_shapes(x.shape, target.shape))

    return like


def of_groups(overload: OpOverload) -> Like:
    """As images; PyTorch's decomposition asks for views of what has none, and divides by the number of places."""

    def dense(cotangent: Any, x: Any, *settings: Any) -> Any:
        return overload(cotangent.contiguous(), x.contiguous(), *settings)

    kept = as_images(dense, 1)

    def like(cotangent: Any, x: Any, *settings: Any) -> Any:
        if x.numel():
            return kept(cotangent, x, *settings)
        _, _, _, _, channels, _, _, wanted = settings
        parts = (x, x.new_empty(channels), x.new_empty(channels))
        return tuple(torch.empty_like(v) if asked else None for v, asked in zip(parts, wanted, strict=True))

    return like


def rolled(overload: OpOverload) -> Like:
    """Along axes the two parts are concatenated, which keeps channels_last unless one of them is empty."""
    kept = as_images(overload)

    def like(x: Any, shifts: Sequence[int], dims: Sequence[int] = ()) -> Any:
        moves = bool(dims) and all(shift % max(x.shape[d], 1) for shift, d in zip(shifts, dims, strict=False))
        return (kept if moves else overload)(x, shifts, dims)

    return like


def as_the_first(overload: OpOverload) -> Like:
    return lambda x, *args, **kwargs: torch.empty_like(x)


def with_a_mask(overload: OpOverload) -> Like:
    """A result like the first argument, and a mask like it; no kernel without elements tells so."""
    return lambda x, *args, **kwargs: (torch.empty_like(x), torch.empty_like(x, dtype=torch.bool))


def one_by_one(overload: OpOverload) -> Like:
    """Results of an operator that takes two operands element by element, as all others of its kind lie."""

    def like(x: Any, y: Any, *args: Any, **kwargs: Any) -> Any:
        result = overload(x, y, *args, **kwargs)
        both = [v.expand(result.shape).stride() for v in (x, y) if isinstance(v, torch.Tensor)]
        return _meta(result, result.shape, iterated(result.shape, both))

    return like


def outermost_first(shape: Sequence[int], strides: Sequence[int]) -> list[int]:
    """The axes in the order in which they lie in memory."""
    return sorted(range(len(shape)), key=lambda k: (strides[k], shape[k] != 1), reverse=True)


def iterated(shape: Sequence[int], operands: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The strides of a new result of these operands' element by element: their own order of axes, without gaps.

    It is that of TensorIterator (ATen/TensorIterator.cpp): an axis that an operand repeats tells nothing, and the
    operands before others decide.
    """

    def lies_within(a: int, b: int) -> bool | None:
        for strides in operands:
            if strides[a] and strides[b]:
                if strides[a] != strides[b]:
                    return strides[a] < strides[b]
                if shape[a] > shape[b]:
                    return False
        return None

    order = list(range(len(shape)))[::-1]  # the innermost first
    for k in range(1, len(order)):
        at = k
        for before in range(k - 1, -1, -1):
            inner = lies_within(order[before], order[at])
            if inner:
                break
            if inner is not None:
                order[before], order[at] = order[at], order[before]
                at = before
    if order == sorted(order, reverse=True):
        return row_major(tuple(shape))
    return _in_order(shape, order[::-1])


def _in_order(shape: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    """Strides without gaps of axes that lie in an order, the outermost first."""
    strides, step = [0] * len(shape), 1
    for axis in reversed(order):
        strides[axis] = step
        step *= shape[axis]
    return tuple(strides)


_PADS = [f"{kind}_pad{axes}d" for kind in ("reflection", "replication") for axes in (2, 3)]
_FAKE = "fake_quantize"
# By ATen's names.
RULES: dict[str, Callable[[OpOverload], Like]] = {
    **dict.fromkeys(("_fft_c2c", "_fft_c2r", "_fft_r2c"), transformed),
    **dict.fromkeys(("_linalg_svd", "linalg_eig"), of_device),
    **dict.fromkeys(
        (*_PADS, "channel_shuffle", "max_unpool2d", "native_group_norm", "pixel_shuffle"), as_images
    ),
    **dict.fromkeys(
        (*(f"{name}_backward" for name in _PADS), "native_batch_norm_backward"),
        partial(as_images, position=1),
    ),
    **dict.fromkeys(
        ("copysign.Tensor", "div.Tensor_mode", "floor_divide", "native_dropout_backward"), one_by_one
    ),
    **dict.fromkeys(
        (
            "glu_backward",
            "isin.Tensor_Scalar",
            "isin.Tensor_Tensor",
            "log_sigmoid_forward",
            "rrelu_with_noise",
            "rrelu_with_noise_functional",
        ),
        row_by_row,
    ),
    **dict.fromkeys(
        ("huber_loss_backward", "mse_loss_backward", "smooth_l1_loss_backward"),
        of_losses,
    ),
    "log_sigmoid_backward": as_the_first,
    "native_group_norm_backward": of_groups,
    "roll": rolled,
    **dict.fromkeys(
        (f"{_FAKE}_per_tensor_affine_cachemask", f"{_FAKE}_per_channel_affine_cachemask"), with_a_mask
    ),
    f"_{_FAKE}_per_tensor_affine_cachemask_tensor_qparams": with_a_mask,
}


# Empty outputs of these become rows.
COPIED = ("_fft_c2c.out", "_fft_c2r.out", "_fft_r2c.out", "cholesky.out", "stack.out")


def like(overload: OpOverload) -> Like | None:
    """The rule of an operator's own, if it has one."""
    rule = RULES.get(name_of(overload))
    return None if rule is None else rule(overload)
