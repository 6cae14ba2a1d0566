"""One of the processes of test_distributed: layers whose parts are in two processes, beside the whole on the host."""

from __future__ import annotations

import copy
import os
import warnings
from functools import partial
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.nn import functional

close = partial(torch.testing.assert_close, atol=2e-5, rtol=1e-4)


def attended(q: Any, k: Any, v: Any, mask: Any = None, causal: bool = False) -> list[Any]:
    """The result, and the gradients of queries, keys and values."""
    shared = q.shape[1] != k.shape[1]
    found = functional.scaled_dot_product_attention(q, k, v, mask, is_causal=causal, enable_gqa=shared)
    found.square().sum().backward()
    return [found, *(x.grad for x in (q, k, v))]


def drawn(heads: int = 4, keys: int = 4, rows: int = 8) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(2, n, rows, 16, requires_grad=True) for n in (heads, keys, keys)]


def sharded_attention(device: torch.device) -> None:
    """Batches and heads that are elsewhere, with masks that broadcast, and fewer heads of keys."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = init_device_mesh(device.type, (2,))
    for axis, heads, mask in (
        (1, (4, 4), None),
        (0, (4, 4), (2, 1, 8, 8)),
        (1, (4, 4), (1, 4, 8, 8)),
        (0, (4, 4), (8, 8)),
        (1, (4, 2), None),
        (1, (4, 1), None),
        (1, (3, 3), None),
    ):
        given = drawn(*heads)
        bias = None if mask is None else torch.randn(mask)
        wanted = attended(*given, mask=bias, causal=bias is None)
        even = all(x.shape[axis] % 2 == 0 for x in given)
        way = Shard(axis) if even else Replicate()
        parts = [distribute_tensor(x.detach().to(device), mesh, [way]).requires_grad_() for x in given]
        own = None if bias is None else distribute_tensor(bias.to(device), mesh, [Replicate()])
        found = attended(*parts, mask=own, causal=bias is None)
        assert found[0].placements == (way,)
        for mine, theirs in zip(found, wanted, strict=True):
            close(mine.full_tensor().detach().cpu(), theirs.detach())


def dropped_attention(device: torch.device) -> None:
    """With one seed in all processes: replicas drop alike, parts each for themselves."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = init_device_mesh(device.type, (2,))
    values = torch.eye(8).expand(2, 4, 8, 8)  # so that the results are what was kept of the weights
    for way, alike in ((Replicate(), True), (Shard(1), False), (Shard(0), False)):
        if way == Shard(1) and torch.__version__ < "2.12":  # which cannot flatten an axis that is sharded
            continue
        torch.manual_seed(0)
        query, value = (
            distribute_tensor(t.to(device), mesh, [way]) for t in (torch.ones(2, 4, 8, 16), values)
        )
        found: Any = functional.scaled_dot_product_attention(query, query, value, dropout_p=0.5)
        assert found.placements == (way,)
        own = found.to_local().cpu()
        dist.all_gather(parts := [torch.zeros_like(own) for _ in range(2)], own)
        assert torch.equal(*parts) is alike
        assert all(0.3 < (part == 0).float().mean() < 0.7 for part in parts)


def sharded_sequences(device: torch.device) -> None:
    """`context_parallel`, with and without its balance of work, some queries at a time."""
    from hologram_torch.libraries import with_dtensor

    with_dtensor.MASKED = 16 * 3
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.experimental import _attention as settings
    from torch.distributed.tensor.experimental import context_parallel
    from torch.distributed.tensor.experimental._attention import context_parallel_unshard

    mesh = init_device_mesh(device.type, (2,))
    for balanced, causal in ((True, True), (False, True), (False, False)):
        settings._cp_options.enable_load_balance = balanced  # noqa: SLF001  balance has no public switch
        given = drawn(rows=16)
        wanted = attended(*given, causal=causal)
        parts = [x.detach().to(device) for x in given]
        with context_parallel(mesh, buffers=parts, buffer_seq_dims=[2] * 3, no_restore_buffers=set(parts)):
            found = attended(*(x.requires_grad_() for x in parts), causal=causal)
            found = context_parallel_unshard(mesh, found, [2] * 4)
        for mine, theirs in zip(found, wanted, strict=True):
            close(mine.detach().cpu(), theirs.detach())
    settings._cp_options.enable_load_balance = True  # noqa: SLF001  balance has no public switch


def means(device: torch.device) -> None:
    """Of parts, once: gloo writes some results at each wait."""
    x = torch.arange(6.0, device=device) + dist.get_rank()
    part = torch.zeros(3, device=device)
    dist.reduce_scatter_tensor(part, x, op=dist.ReduceOp.AVG)
    assert part.tolist() == [3.0 * dist.get_rank() + k + 0.5 for k in range(3)]
    with pytest.raises(ValueError, match="AVG is of floats"):
        dist.all_reduce(torch.ones(2, dtype=torch.int64, device=device), op=dist.ReduceOp.AVG)


def fully_sharded_gradients(device: torch.device) -> None:
    """Of half a batch each, the mean of both; an optimiser might hide a factor."""
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(0)
    host = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).double()
    own = copy.deepcopy(host).to(device)
    for layer in (own[0], own[2], own):
        fully_shard(layer)
    x = torch.randn(4, 6, dtype=torch.float64)
    half = x[2 * dist.get_rank() :][:2]
    own(half.to(device)).square().mean().backward()
    host(x).square().mean().backward()
    for mine, theirs in zip(own.parameters(), host.parameters(), strict=True):
        grad: Any = mine.grad
        torch.testing.assert_close(grad.full_tensor().cpu(), theirs.grad, atol=1e-10, rtol=1e-10)


def shared_norms(device: torch.device) -> None:
    """SyncBatchNorm: a batch of which the processes have 3 and 2 rows, as one, with what is remembered of it."""
    torch.manual_seed(0)
    for dtype in (torch.float32, torch.float64):
        host = torch.nn.Sequential(torch.nn.Conv1d(3, 4, 2), torch.nn.BatchNorm1d(4), torch.nn.Tanh()).to(
            dtype
        )
        own = torch.nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(host)).to(device)
        x = torch.randn(5, 3, 7, dtype=dtype)
        rows = (slice(0, 3), slice(3, 5))[dist.get_rank()]
        found, wanted = own(x[rows].to(device)), host(x)
        torch.testing.assert_close(found.detach().cpu(), wanted[rows].detach())
        found.square().sum().backward()
        wanted.square().sum().backward()
        for mine, theirs in zip(own.parameters(), host.parameters(), strict=True):
            assert mine.grad is not None
            dist.all_reduce(mine.grad)
            close(mine.grad.cpu(), theirs.grad)
        for mine, theirs in zip(own.buffers(), host.buffers(), strict=True):
            torch.testing.assert_close(mine.cpu(), theirs)
        half = own.to(torch.bfloat16)(x[rows].to(device, torch.bfloat16))
        torch.testing.assert_close(half.float().cpu(), wanted[rows].detach().float(), atol=0.05, rtol=0.05)


def compiled_collectives(device: torch.device) -> None:
    """In one graph, between stages."""
    import torch.distributed._functional_collectives as functions

    everybody: Any = dist.group.WORLD

    def summed(x: Any) -> Any:
        return functions.all_reduce(x * 2, "sum", everybody) + 1

    x = torch.arange(3.0, device=device) + dist.get_rank()
    found = torch.compile(summed, fullgraph=True)(x)
    assert found.tolist() == [3.0, 7.0, 11.0]

    def in_place(x: Any) -> Any:
        y = x * 2
        dist.all_reduce(y)
        return y + 1

    assert torch.compile(in_place)(x).tolist() == [3.0, 7.0, 11.0]


CHECKS = (
    sharded_attention,
    dropped_attention,
    sharded_sequences,
    means,
    fully_sharded_gradients,
    shared_norms,
    compiled_collectives,
)


def work(rank: int, folder: str) -> None:
    os.environ |= {"HOLOGRAM_CPU_THREADS": "1", "HOLOGRAM_BACKEND": "cpu"}
    import hologram_torch  # noqa: F401  (in the process that was started)

    dist.init_process_group(init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    device = torch.device("hologram", 0)
    for check in CHECKS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            check(device)
    dist.destroy_process_group()
