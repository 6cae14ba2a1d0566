"""Strides that a graph counts on: those of PyTorch's fake tensors, by which it chose views and what is contiguous."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node
from torch.utils import _pytree as pytree

from hologram_torch.kernels import strides
from hologram_torch.kernels.operators import name_of, present

CONVOLUTIONS = (torch.ops.aten.convolution.default, torch.ops.aten.convolution_backward.default)


def as_counted_on(node: Node, result: Any) -> Any:
    """What an operator gave, copied where it lies otherwise than the graph says: views of it might not be there."""
    if not isinstance(node.target, OpOverload) or any(r.alias_info for r in node.target._schema.returns):
        return result
    expected = node.meta.get("val")
    if isinstance(result, torch.Tensor):
        return _laid_out(result, expected)
    if not isinstance(result, (tuple, list)) or not isinstance(expected, (tuple, list)):
        return result
    return [_laid_out(*pair) for pair in zip(result, expected, strict=True)]


def _laid_out(x: Any, expected: Any) -> Any:
    if not isinstance(x, torch.Tensor) or not isinstance(expected, torch.Tensor) or not x.numel():
        return x
    steps, sizes = ([_hint(n) for n in each] for each in (expected.stride(), expected.shape))
    if None in steps or None in sizes or expected.layout != torch.strided:
        return x
    order = sorted(range(x.ndim), key=lambda k: (steps[k], sizes[k] != 1))
    if _dense(order, sizes) != steps:
        return x
    strides = _dense(order, list(x.shape))
    if all(n == 1 or s == t for n, s, t in zip(x.shape, x.stride(), strides, strict=True)):
        return x
    return torch.empty_strided(x.shape, strides, dtype=x.dtype, device=x.device).copy_(x)


def _hint(n: Any) -> int | None:
    """A size, of symbols that for which the graph was made, if it was for one."""
    return n.node.hint if isinstance(n, torch.SymInt) else n


def _dense(order: list[int], sizes: list[Any]) -> list[Any]:
    """Strides without gaps, of axes in an order, the innermost first."""
    strides, step = list(sizes), 1
    for axis in order:
        strides[axis] = step
        step *= sizes[axis]
    return strides


def _convolution(theirs: Callable[..., Any], suggested: Callable[..., Any]) -> Callable[..., Any]:
    """PyTorch's rule for fake tensors, which knows channels_last of no device but its own."""

    def fake(mode: Any, operator: OpOverload, *args: Any, **kwargs: Any) -> Any:
        results = theirs(mode, operator, *args, **kwargs)
        named = dict(zip((a.name for a in operator._schema.arguments), args, strict=False)) | kwargs
        x, weight = named["input"], named["weight"]
        if x.device.type != "hologram" or (x.ndim == 5 and x.dtype == torch.float64):
            return results
        formats = {suggested(v) for v in (x, weight)} - {torch.contiguous_format}
        if not formats:
            return results
        (kept,) = formats

        def laid_out(v: Any) -> Any:
            return v if v is None or v.ndim != x.ndim else v.to(memory_format=kept)

        with mode:
            return pytree.tree_map_only(torch.Tensor, laid_out, results)

    return fake


def _ruled(rule: strides.Like, composed: Callable[..., Any] | None) -> Callable[..., Any]:
    """A rule of the device's for fake tensors of it, whose sizes are numbers; others lie as PyTorch says.

    `composed` is the decomposition by which PyTorch says so, if it is one.
    """
    from torch._subclasses.fake_tensor import FakeTensor, in_kernel_invocation_manager

    def fake(mode: Any, operator: OpOverload, *args: Any, **kwargs: Any) -> Any:
        tensors = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        sizes = [n for x in tensors for n in (*x.shape, *x.stride())]
        if any(x.device.type != "hologram" for x in tensors) or any(type(n) is not int for n in sizes):
            if composed is None or any(x.layout != torch.strided for x in tensors):
                return NotImplemented
            with mode:
                return composed(*args, **kwargs)
        device = tensors[0].device
        with in_kernel_invocation_manager(mode):
            results = rule(*args, **kwargs)
        return pytree.tree_map_only(torch.Tensor, lambda x: FakeTensor(mode, x, device), results)

    return fake


def settle() -> None:
    """Has fake tensors of the device lie as its results do; without PyTorch's table copies make up for it."""
    from torch._decomp import decomposition_table, meta_table
    from torch._prims_common import suggest_memory_format  # which takes sizes that are symbols
    from torch._subclasses import fake_impls, fake_tensor

    table: dict[Any, Any] = fake_impls.op_implementations_dict
    preferred = fake_tensor.torch_decomp_decompositions
    ruled: set[OpOverload] = set()
    for operator in CONVOLUTIONS:
        table[operator] = _convolution(table[operator], suggest_memory_format)
    for operator in present(" ".join(strides.RULES)):
        if strides.RULES[name_of(operator)] is strides.of_device or operator in table:
            continue
        composed = None
        if operator not in meta_table and operator in decomposition_table and preferred(operator):
            composed = decomposition_table[operator]
            ruled.add(operator)
        table[operator] = _ruled(strides.RULES[name_of(operator)](operator), composed)
    # PyTorch asks this before it looks into the table, whether it shall decompose an operator in place of that.
    fake_tensor.torch_decomp_decompositions = lambda operator: operator not in ruled and preferred(operator)
