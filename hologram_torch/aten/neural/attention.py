"""Scaled dot-product attention as one operation, whose scores are not kept for the way back."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch

import hologram as hg
from hologram.foundation import dtypes
from hologram.frontend.tensor import Tensor
from hologram_torch.kernels.fused import fused, pulled
from hologram_torch.kernels.operators import has_kernel, name_of, present
from hologram_torch.kernels.plain import Plain
from hologram_torch.kernels.registry import COMPOSED, implements, library
from hologram_torch.kernels.results import ordered
from hologram_torch.kernels.short.quick import quick
from hologram_torch.kernels.strides import iterated, outermost_first
from hologram_torch.wrapped import is_wrapped


def scaled_dot_product_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """Recorded as a whole where nobody wants gradients of it, or drops any of it out."""
    given = (query, key, value, attn_mask)
    wanted = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in given)
    run = _composed if wanted or dropout_p else _recorded
    return run(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)


def _composed(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """By the operation below, but with dropout, shared keys, or in vmap, in the operators that PyTorch writes it in.

    PyTorch's own choice between them asks C++ of the device.
    """
    if attn_mask is not None and is_causal:
        raise RuntimeError(
            "hologram, scaled_dot_product_attention: attn_mask must be None where is_causal is set"
        )
    if min(x.ndim for x in (query, key, value)) < 2:
        raise RuntimeError(
            "hologram, scaled_dot_product_attention: query, key and value must have two axes or more"
        )
    if len({x.dtype for x in (query, key, value)}) > 1 or not query.is_floating_point():
        kinds = ", ".join(str(x.dtype) for x in (query, key, value))
        raise RuntimeError(
            f"hologram, scaled_dot_product_attention: one dtype of floats is needed, got {kinds}"
        )
    if attn_mask is not None and attn_mask.dtype not in (torch.bool, torch.float32, query.dtype):
        raise RuntimeError(
            "hologram, scaled_dot_product_attention: attn_mask must be bool, float32 or of the query's dtype, "
            f"got {attn_mask.dtype} beside {query.dtype}"
        )
    wrapped = any(map(is_wrapped, (query, key, value)))
    if enable_gqa and not (dropout_p or wrapped) and _shares(query, key, value):
        if key.shape[1] != value.shape[1]:
            key, value = (_repeated(x, query.shape[1]) for x in (key, value))
        return _of_heads(query, key, value, attn_mask, is_causal, scale)
    if dropout_p or enable_gqa or wrapped:  # vmap has no rule for the one operation
        if attn_mask is not None and attn_mask.dtype == torch.bool:  # which the operator below would add
            attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype).masked_fill(~attn_mask, -torch.inf)
        return torch.ops.aten._scaled_dot_product_attention_math(
            query, key, value, attn_mask, dropout_p, is_causal, None, scale=scale, enable_gqa=enable_gqa
        )[0]
    try:
        batch = torch.broadcast_shapes(*(x.shape[:-2] for x in (query, key, value)))
    except RuntimeError as error:
        shapes = ", ".join(str(tuple(x.shape)) for x in (query, key, value))
        raise RuntimeError(
            "hologram, scaled_dot_product_attention: the axes ahead of the last two must broadcast "
            f"(enable_gqa=True for heads that share keys), got {shapes}"
        ) from error
    if len(batch) == 2 and query.shape[:-2] == key.shape[:-2] == value.shape[:-2]:
        return _of_heads(query, key, value, attn_mask, is_causal, scale)
    if query.shape[:-2] != batch:  # results lie like queries, and none in the memory of another
        query = query.expand((*batch, *query.shape[-2:])).contiguous()
    query, key, value = (_of_four_axes(x, batch) for x in (query, key, value))
    if attn_mask is not None and (attn_mask.ndim > 4 or len(batch) > 2):
        attn_mask = _of_four_axes(attn_mask, batch)
    result = _fused(query, key, value, attn_mask, is_causal, scale)
    return result.reshape(
        (*batch, *result.shape[-2:])
    ).contiguous()  # of other than four axes it lies row by row


def _shares(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> bool:
    """Whether each key and value is that of as many heads of one batch; other shapes PyTorch refuses."""
    heads = query.shape[1] if query.ndim == 4 else 0
    alike = all(x.ndim == 4 and x.shape[0] == query.shape[0] and x.shape[1] for x in (key, value))
    return alike and bool(heads) and not any(heads % x.shape[1] for x in (key, value))


def _repeated(x: torch.Tensor, heads: int) -> torch.Tensor:
    """Keys or values with one for every head."""
    batch, own, rows, width = x.shape
    return x[:, :, None].expand(batch, own, heads // own, rows, width).reshape(batch, heads, rows, width)


def _of_heads(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    causal: bool,
    scale: Any,
) -> torch.Tensor:
    """The operation on four axes, whose result lies as PyTorch's CPU lays it.

    That is like queries where the CPU computes it in one operation, else row by row. Gradients lie like operands.
    """
    # No device of PyTorch's has one operation for these.
    if any(x.stride(-1) != 1 for x in (query, key, value)):
        query, value = (x.contiguous() if x.requires_grad else x for x in (query, value))
        key = key.mT.contiguous().mT if key.requires_grad else key  # as its gradient lies
        whole = False
    else:
        plain = mask is None or (mask.ndim in (2, 4) and not mask.requires_grad)
        whole = plain and query.shape[-1] == value.shape[-1] and key.shape[-2] > 0
    result = _fused(query, key, value, mask, causal, scale)
    return result if whole else result.contiguous()


def _fused(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    causal: bool,
    scale: Any,
) -> torch.Tensor:
    operator = torch.ops.aten._scaled_dot_product_fused_attention_overrideable
    return operator(query, key, value, mask, 0.0, causal, False, scale=scale)[0]


def _of_four_axes(x: torch.Tensor, batch: torch.Size) -> torch.Tensor:
    """Broadcast to a batch, whose axes become two: PyTorch's shapes of the operator below know four axes."""
    rows = x.shape[-2:] if x.ndim > 1 else (1, *x.shape)
    lead = (1,) * (2 - len(batch)) + tuple(batch)
    return x.expand((*batch, *rows)).reshape((math.prod(lead[:-1]), lead[-1], *rows))


_recorded = quick(Plain("scaled_dot_product_attention", _composed), -1)
for _key in ("PrivateUse1", "AutogradPrivateUse1"):
    library.impl("scaled_dot_product_attention", scaled_dot_product_attention, _key)
# PyTorch's own form says that results lie row by row: views of them would be none of ours.
COMPOSED.update(dict.fromkeys(present("scaled_dot_product_attention"), _composed))


def laid_like(x: Tensor, other: Tensor) -> Tensor:
    """A tensor with its axes in memory in the order of another's, as PyTorch expects of attention."""
    order = outermost_first(other.shape, iterated(other.shape, [other.strides]))
    return x if order == sorted(order) else ordered(x, order)


@implements("_scaled_dot_product_fused_attention_overrideable", inferred=False)
def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: float | None = None,
) -> Any:
    """The result, and what other devices keep for the way back: here the weights are computed once more."""
    shared = query.shape[1] != key.shape[1]
    result = hg.scaled_dot_product_attention(
        query, key, value, attn_bias, causal=is_causal, scale=scale, enable_gqa=shared
    )
    if query.strides[-1] == 1:  # else PyTorch takes another way, whose results lie row by row
        result = laid_like(result, query)
    executor = query.executor

    # Nobody reads the rest. It is there because PyTorch expects it.
    sums = executor.empty(query.shape[:-1], dtypes.f32)
    seed, offset = (executor.empty((), dtypes.i64) for _ in range(2))
    return result, sums, None, None, query.shape[-2], key.shape[-2], seed, offset, None


@fused
def _pulled(
    cotangent: Tensor, given: list[Any], wanted: tuple[bool, ...], causal: bool, scale: float | None
) -> list[Any]:
    shared = given[0].shape[1] != given[1].shape[1]
    attention = partial(hg.scaled_dot_product_attention, causal=causal, scale=scale, enable_gqa=shared)
    return pulled(attention, given, wanted, cotangent)


def _like_operands(cotangent: Any, *given: Any, **settings: Any) -> Any:
    return tuple(None if x is None else torch.empty_like(x) for x in given[:4])


# PyTorch 2.10 and 2.11 have none without elements: graphs of changing sizes and distributed tensors ask for it.
for _way_back in present("_scaled_dot_product_fused_attention_overrideable_backward"):
    if not has_kernel(_way_back, "Meta"):
        library.impl(name_of(_way_back), _like_operands, "Meta")


@implements("_scaled_dot_product_fused_attention_overrideable_backward", inferred=False)
def attention_backward(
    cotangent: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Tensor | None,
    wanted: list[bool],
    out: Tensor,
    logsumexp: Tensor,
    cum_seq_q: Any,
    cum_seq_k: Any,
    max_q: int,
    max_k: int,
    dropout_p: float,
    is_causal: bool,
    philox_seed: Any,
    philox_offset: Any,
    *,
    scale: float | None = None,
) -> Any:
    given = [query, key, value, attn_bias]
    asked = tuple(bool(w) and v is not None for w, v in zip(wanted, given, strict=True))
    cotangents = _pulled(cotangent, given, asked, is_causal, scale)
    return tuple(None if x is None else laid_like(x, v) for x, v in zip(cotangents, given, strict=True))
