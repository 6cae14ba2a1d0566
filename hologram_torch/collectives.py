"""Functional collectives, which meshes and distributed tensors use: those of a HostGroup, waited for at once.

PyTorch's own ask a group for its backend in C++; a group in Python has none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

library = torch.library.Library("_c10d_functional", "IMPL")
OPERATIONS = {"sum": "SUM", "avg": "SUM", "product": "PRODUCT", "min": "MIN", "max": "MAX"}


def _group(name: str) -> Any:
    return dist.distributed_c10d._resolve_process_group(name)  # pyright: ignore


def _options(kind: Any, operation: str) -> Any:
    options = kind()
    options.reduceOp = getattr(dist.ReduceOp, OPERATIONS[operation])
    return options


def _mean(x: torch.Tensor, operation: str, size: int) -> torch.Tensor:
    return x.div_(size) if operation == "avg" else x  # which gloo has not


def all_gather_into_tensor(x: torch.Tensor, size: int, name: str) -> torch.Tensor:
    gathered = x.new_empty((x.shape[0] * size, *x.shape[1:]))
    _group(name)._allgather_base(gathered, x.contiguous()).wait()
    return gathered


def reduce_scatter_tensor(x: torch.Tensor, operation: str, size: int, name: str) -> torch.Tensor:
    reduced = x.new_empty((x.shape[0] // size, *x.shape[1:]))
    options = _options(dist.ReduceScatterOptions, operation)
    _group(name)._reduce_scatter_base(reduced, x.contiguous(), options).wait()
    return _mean(reduced, operation, size)


def all_reduce_(x: torch.Tensor, operation: str, name: str) -> torch.Tensor:
    group = _group(name)
    group.allreduce([x], _options(dist.AllreduceOptions, operation)).wait()
    return _mean(x, operation, group.size())


def broadcast_(x: torch.Tensor, source: int, name: str) -> torch.Tensor:
    options = dist.BroadcastOptions()
    options.rootRank = source
    _group(name).broadcast([x], options).wait()
    return x


def all_to_all_single(x: torch.Tensor, taken: Sequence[int], given: Sequence[int], name: str) -> torch.Tensor:
    parts = x.new_empty((sum(taken), *x.shape[1:]))
    _group(name).alltoall_base(parts, x.contiguous(), list(taken), list(given), dist.AllToAllOptions()).wait()
    return parts


def _copied(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """What overwrites a tensor, on a copy."""
    return lambda x, *rest: function(x.clone(memory_format=torch.contiguous_format), *rest)


for _name, _function in {
    "all_gather_into_tensor": all_gather_into_tensor,
    "reduce_scatter_tensor": reduce_scatter_tensor,
    "all_reduce_": all_reduce_,
    "all_reduce": _copied(all_reduce_),
    "broadcast_": broadcast_,
    "broadcast": _copied(broadcast_),
    "all_to_all_single": all_to_all_single,
    "wait_tensor": lambda x: x,
}.items():
    library.impl(_name, _function, "PrivateUse1")
