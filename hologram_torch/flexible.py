"""FlexAttention on the device: PyTorch's own form, some queries at a time, so that no memory holds all scores.

PyTorch's form is of operators that any device has; it asks for devices by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._C import DispatchKey  # pyright: ignore
from torch._higher_order_ops.flex_attention import (
    _permute_strides,
    create_fw_bw_graph,
    flex_attention_backward,
    sdpa_dense,
    sdpa_dense_backward,
)
from torch._higher_order_ops.flex_attention import flex_attention as _operator
from torch.nn.attention import flex_attention

from hologram_torch import traced
from hologram_torch.reach import expect

SCORES = 4 << 20  # that are made at a time
LEAST_ROWS = 16  # of them, that products are worth it


def _rows(query: torch.Tensor, key: torch.Tensor) -> Iterator[slice]:
    """Queries, as many at a time as have so many scores."""
    batch, heads, rows, _ = query.shape
    step = max(LEAST_ROWS, SCORES // max(batch * heads * key.shape[2], 1))
    for first in range(0, max(rows, 1), step):
        yield slice(first, min(first + step, rows))


def _behind(function: Callable[..., Any], first: int, place: int) -> Callable[..., Any]:
    """A function of positions, for queries of which the first has a number; theirs is argument number `place`."""

    def of_part(*given: Any) -> Any:
        return function(*given[:place], given[place] + first, *given[place + 1 :])

    return of_part if first else function


def attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    score_mod: Any,
    block_mask: Any,
    *settings: Any,
) -> tuple[torch.Tensor, ...]:
    """The result, and the logarithms of sums and the largest scores of its rows, both to base 2."""
    parts = []
    for rows in _rows(query, key):
        mask = (*block_mask[:-1], _behind(block_mask[-1], rows.start, 2))
        score = _behind(score_mod, rows.start, 3)
        parts.append(sdpa_dense(query[:, :, rows], key, value, score, mask, *settings))
    if len(parts) == 1:
        return parts[0]
    result = _permute_strides(torch.cat([part[0] for part in parts], dim=2), query.stride())
    return result, *(torch.cat([part[n] for part in parts], dim=2) for n in (1, 2))


@torch.no_grad()
def attention_backward(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    grad_out: torch.Tensor | None,
    grad_logsumexp: torch.Tensor | None,
    fw_graph: Any,
    joint_graph: Any,
    block_mask: Any,
    scale: float,
    kernel_options: Any,
    score_mod_other_buffers: tuple[Any, ...] = (),
    mask_mod_other_buffers: tuple[Any, ...] = (),
) -> tuple[Any, ...]:
    """The cotangents of the query, key, value, and what score_mod captured."""
    if joint_graph is None:
        example: Any = (
            query.new_zeros((), requires_grad=True),
            *(query.new_zeros((), dtype=torch.int) for _ in range(4)),
        )
        _, joint_graph = create_fw_bw_graph(fw_graph, example, score_mod_other_buffers)
    # Of compiled graphs no tensor says that its cotangent is wanted, and PyTorch's form asks that.
    captured = tuple(_wanted(x) for x in score_mod_other_buffers)
    of_queries, sums = [], None
    for rows in _rows(query, key):
        mask = (*block_mask[:-1], _behind(block_mask[-1], rows.start, 2))
        of_rows = (query, out, logsumexp, grad_out, grad_logsumexp)
        own: Any = [None if x is None else x[:, :, rows] for x in of_rows]
        mods: Any = [_behind(graph, rows.start, 3) for graph in (fw_graph, joint_graph)]
        rest: Any = (*mods, mask, scale, kernel_options, captured, mask_mod_other_buffers)
        of_query, *others = sdpa_dense_backward(own[0], key, value, *own[1:], *rest)
        of_queries.append(of_query)
        found = [*others[:2], *others[2]]
        if sums is not None:
            found = [a if b is None else a + b for a, b in zip(sums, found, strict=True)]
        sums = found
    assert sums is not None
    whole = torch.cat(of_queries, dim=2) if len(of_queries) > 1 else of_queries[0]
    whole = _permute_strides(whole, query.stride())
    return whole, *sums[:2], tuple(sums[2:])


def _wanted(x: Any) -> Any:
    return x.detach().requires_grad_() if isinstance(x, torch.Tensor) and x.is_floating_point() else x


def settle() -> None:
    """Has PyTorch take the device."""
    changed: Any = flex_attention
    expect(hasattr(changed, "_validate_device"), "torch.nn.attention.flex_attention has no _validate_device")
    changed._validate_device = traced.validated
    _operator.py_impl(DispatchKey.PrivateUse1)(attention)
    flex_attention_backward.py_impl(DispatchKey.PrivateUse1)(attention_backward)
