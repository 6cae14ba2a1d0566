"""PyTorch's distributed tensors, which know the attention of other devices: how ours is sharded, and its sequences.

`context_parallel` shards sequences. Elsewhere keys and values go around in a ring, and each part's sums of exponentials
are merged; here they are gathered, since the device's attention keeps no sums. A process has all keys and values for as
long as it attends, and its part of queries and results; a causal mask it makes for some queries at a time.

Needless once PyTorch registers shardings of `_scaled_dot_product_fused_attention_overrideable`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

aten = torch.ops.aten
ATTENTION = aten._scaled_dot_product_fused_attention_overrideable.default
BACKWARD = aten._scaled_dot_product_fused_attention_overrideable_backward.default
SEQUENCE = 2  # the axis of queries, keys and values that is sharded
MASKED = 4 << 20  # elements of a mask that is made at a time


def operators(module: Any) -> None:
    """Attention of whole batches or heads needs no other process."""
    from torch.distributed.tensor.experimental import register_sharding

    whole, shard = module.Replicate(), module.Shard

    def cut(mask: Any, axis: int) -> Any:
        """Of a mask, where it has the axis."""
        if mask is None:
            return None
        own = axis + len(mask.shape) - 4
        return whole if own < 0 or mask.shape[own] == 1 else shard(own)

    def ways(bias: Any) -> list[tuple[Any, Any]]:
        """How queries, keys and values lie, and a mask beside them."""
        return [
            (whole, None if bias is None else whole),
            *((shard(axis), cut(bias, axis)) for axis in (0, 1)),
        ]

    @register_sharding(ATTENTION)
    def _(query: Any, key: Any, value: Any, bias: Any = None, *settings: Any, **named: Any) -> Any:
        return [
            ([way, way, None, None, None, None, whole, whole, None], [way, way, way, mask])
            for way, mask in ways(bias)
        ]

    @register_sharding(BACKWARD)
    def _(cotangent: Any, query: Any, key: Any, value: Any, bias: Any, *rest: Any, **named: Any) -> Any:
        return [
            ([way, way, way, mask], [way, way, way, way, mask, way, way, whole, whole])
            for way, mask in ways(bias)
        ]


def sequences(module: Any) -> None:
    """Attention of a part of the queries."""
    collectives, tensors = module.ft_c, module.DTensor
    # By their names before PyTorch 2.13 where they have no other.
    gather = getattr(collectives, "all_gather_single", None) or collectives.all_gather_tensor
    scatter = getattr(collectives, "reduce_scatter_single", None) or collectives.reduce_scatter_tensor

    def places(rank: int, size: int, rows: int) -> torch.Tensor:
        """Which rows of the whole sequence a process has."""
        if not module._cp_options.enable_load_balance:
            return torch.arange(rank * rows, (rank + 1) * rows)
        half = rows // 2
        return torch.cat([torch.arange(half) + k * half for k in (rank, 2 * size - 1 - rank)])

    def parts(query: Any, key: Any, causal: bool) -> Iterator[tuple[slice, torch.Tensor | None]]:
        """Local queries, as many at a time as a mask over all keys has room for, and that mask."""
        local, rows = query.to_local(), key.to_local().shape[SEQUENCE]
        count = local.shape[SEQUENCE]
        if not causal:
            yield slice(count), None
            return
        group = query.device_mesh.get_group()
        rank, size = torch.distributed.get_rank(group), torch.distributed.get_world_size(group)
        there = torch.cat([places(k, size, rows) for k in range(size)]).to(local.device)
        here = places(rank, size, count).to(local.device)
        step = max(MASKED // max(len(there), 1), 1)
        for first in range(0, max(count, 1), step):
            part = slice(first, first + step)
            yield part, here[part, None] >= there

    def gathered(x: Any) -> torch.Tensor:
        local = x.to_local().contiguous()
        return module._maybe_wait(gather(local, gather_dim=SEQUENCE, group=x.device_mesh.get_group()))

    def summed(x: torch.Tensor, mesh: Any) -> torch.Tensor:
        """A process's part of what all of them have terms of."""
        return module._maybe_wait(
            scatter(x.contiguous(), "sum", scatter_dim=SEQUENCE, group=mesh.get_group())
        )

    def wrapped(local: torch.Tensor, like: Any) -> Any:
        return tensors.from_local(local, like.device_mesh, like.placements, run_check=False)

    def refuse(bias: Any, dropout: float) -> None:
        if bias is not None or dropout:
            raise NotImplementedError("hologram: attention of sharded sequences takes no mask and no dropout")

    def forward(operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        query, key, value, bias, dropout, causal = _filled(args)
        refuse(bias, dropout)
        queries, keys, values = query.to_local(), gathered(key), gathered(value)
        found = [
            operator(queries[:, :, rows], keys, values, mask, 0.0, False, False, **kwargs)
            for rows, mask in parts(query, key, causal)
        ]
        result, sums = (torch.cat([part[k] for part in found], dim=SEQUENCE) for k in range(2))
        return wrapped(result, query), wrapped(sums, query), *found[0][2:]

    def backward(operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        cotangent, query, key, value, bias, wanted, out, sums, *kept, dropout, causal, seed, offset = args
        refuse(bias, dropout)
        keys, values = gathered(key), gathered(value)
        of_queries, of_keys = [], list[Any]()
        for rows, mask in parts(query, key, causal):
            given, own, result, total = (x.to_local()[:, :, rows] for x in (cotangent, query, out, sums))
            of_query, *others, _ = operator(
                given, own, keys, values, mask, [*wanted[:3], False], result, total, *kept, 0.0, False, seed,
                offset, **kwargs,
            )  # fmt: skip
            of_queries.append(of_query)
            of_keys = [
                b if a is None else a + b for a, b in zip(of_keys or [None, None], others, strict=True)
            ]
        shares = [None if x is None else wrapped(summed(x, query.device_mesh), key) for x in of_keys]
        return wrapped(torch.cat(of_queries, dim=SEQUENCE), query) if wanted[0] else None, *shares, None

    module.custom_ops |= {ATTENTION: forward, BACKWARD: backward}


def _filled(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The first six arguments, with what is not given."""
    return (*args, *(None, 0.0, False)[len(args) - 3 :])[:6]
