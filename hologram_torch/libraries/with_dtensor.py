"""PyTorch's distributed tensors, which know the attention of other devices: how ours is sharded, and its sequences.

`context_parallel` shards sequences. Elsewhere keys and values go around in a ring, and each part's sums of exponentials
are merged; here they are gathered, since the device's attention keeps no sums. A process has all keys and values for as
long as it attends, and its part of queries, results and scores.

Needless once PyTorch registers shardings of `_scaled_dot_product_fused_attention_overrideable`.
"""

from __future__ import annotations

from typing import Any

import torch

aten = torch.ops.aten
ATTENTION = aten._scaled_dot_product_fused_attention_overrideable.default
BACKWARD = aten._scaled_dot_product_fused_attention_overrideable_backward.default
SEQUENCE = 2  # the axis of queries, keys and values that is sharded


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

    def places(rank: int, size: int, rows: int) -> torch.Tensor:
        """Which rows of the whole sequence a process has."""
        if not module._cp_options.enable_load_balance:
            return torch.arange(rank * rows, (rank + 1) * rows)
        half = rows // 2
        return torch.cat([torch.arange(half) + k * half for k in (rank, 2 * size - 1 - rank)])

    def mask(query: Any, causal: bool, rows: int) -> torch.Tensor | None:
        """Of the local queries, over gathered keys; `rows` of each process."""
        if not causal:
            return None
        group = query.device_mesh.get_group()
        rank, size = torch.distributed.get_rank(group), torch.distributed.get_world_size(group)
        gathered = torch.cat([places(k, size, rows) for k in range(size)])
        own = places(rank, size, query.to_local().shape[SEQUENCE])
        return (own[:, None] >= gathered).to(query.device)

    def gathered(x: Any) -> torch.Tensor:
        local = x.to_local().contiguous()
        return module._maybe_wait(
            collectives.all_gather_single(local, gather_dim=SEQUENCE, group=x.device_mesh.get_group())
        )

    def summed(x: torch.Tensor, mesh: Any) -> torch.Tensor:
        """A process's part of what all of them have terms of."""
        return module._maybe_wait(
            collectives.reduce_scatter_single(
                x.contiguous(), "sum", scatter_dim=SEQUENCE, group=mesh.get_group()
            )
        )

    def wrapped(local: torch.Tensor, like: Any) -> Any:
        return tensors.from_local(local, like.device_mesh, like.placements, run_check=False)

    def given(query: Any, key: Any, value: Any, bias: Any, causal: bool, dropout: float) -> Any:
        if bias is not None or dropout:
            raise NotImplementedError("hologram: attention of sharded sequences takes no mask and no dropout")
        whole = mask(query, causal, key.to_local().shape[SEQUENCE])
        return query.to_local(), gathered(key), gathered(value), whole

    def forward(operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        query, key, value, bias, dropout, causal = _filled(args)
        result, sums, *rest = operator(
            *given(query, key, value, bias, causal, dropout), 0.0, False, False, **kwargs
        )
        return wrapped(result, query), wrapped(sums, query), *rest

    def backward(operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        cotangent, query, key, value, bias, wanted, out, sums, *kept, dropout, causal, seed, offset = args
        local = given(query, key, value, bias, causal, dropout)
        of_query, *others, _ = operator(
            cotangent.to_local(), *local, [*wanted[:3], False], out.to_local(), sums.to_local(), *kept,
            0.0, False, seed, offset, **kwargs,
        )  # fmt: skip
        parts = [None if x is None else wrapped(summed(x, query.device_mesh), key) for x in others]
        return None if of_query is None else wrapped(of_query, query), *parts, None

    module.custom_ops |= {ATTENTION: forward, BACKWARD: backward}


def _filled(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The first six arguments, with what is not given."""
    return (*args, *(None, 0.0, False)[len(args) - 3 :])[:6]
