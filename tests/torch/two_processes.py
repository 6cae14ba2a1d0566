"""One of the processes of test_distributed: trains its half of the batch, on a device of its own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

STEPS = 3


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    layers = (
        torch.nn.Linear(6, 16),
        torch.nn.Tanh(),
        torch.nn.Linear(16, 16),
        torch.nn.Tanh(),
        torch.nn.Linear(16, 2),
    )
    return torch.nn.Sequential(*layers)


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(8, 6, generator=generator), torch.randn(8, 2, generator=generator)


def train(trained: Any, x: torch.Tensor, y: torch.Tensor) -> None:
    optimiser = torch.optim.SGD(trained.parameters(), lr=0.1, momentum=0.9)
    for _ in range(STEPS):
        optimiser.zero_grad()
        torch.nn.functional.mse_loss(trained(x), y).backward()
        optimiser.step()


State = dict[str, torch.Tensor]


def fully_sharded(own: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, device: torch.device) -> State:
    """Trains a model whose parameters are distributed tensors; what becomes of them."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("hologram", (2,))
    for layer in own.children():
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer, mesh=mesh)
    train(fully_shard(own, mesh=mesh), x, y)
    return {name: p.full_tensor().cpu() for name, p in own.named_parameters()}  # pyright: ignore


def sharded(own: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, device: torch.device) -> State:
    """Trains a model whose parameters are parts of one flat tensor; what becomes of them."""
    from torch.distributed.fsdp import FullyShardedDataParallel

    trained = FullyShardedDataParallel(own, device_id=device, use_orig_params=True)
    train(trained, x, y)
    with FullyShardedDataParallel.summon_full_params(trained):
        return {
            n.removeprefix("_fsdp_wrapped_module."): p.detach().cpu().clone()
            for n, p in trained.named_parameters()
        }


def work(rank: int, folder: str) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "HOLOGRAM_CPU_THREADS": "1"}
    from hologram_torch.device.devices import devices  # (in the process that was started)

    dist.init_process_group("hologram", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    device = torch.device("hologram", rank % len(devices.places))
    torch.accelerator.set_device_index(device.index)
    parallel = torch.nn.parallel.DistributedDataParallel(model().to(device), bucket_cap_mb=0.0005)
    x, y = (t[rank::2].to(device) for t in batch())
    train(parallel, x, y)
    for form in (sharded, fully_sharded):
        found = form(model().to(device), x, y, device)
        torch.save(found, Path(folder) / f"{rank}-{form.__name__}.pt")
    gathered = [torch.zeros(1, device=device) for _ in range(2)]
    dist.all_gather(gathered, torch.full((1,), float(rank), device=device))
    assert [float(t) for t in gathered] == [0, 1]
    both = torch.full((2,), rank + 1.0, device=device)
    dist.all_reduce(both, op=dist.ReduceOp.MAX)
    assert both.tolist() == [2, 2]
    dist.barrier()
    torch.save({n: p.cpu() for n, p in parallel.module.state_dict().items()}, Path(folder) / f"{rank}.pt")
    dist.destroy_process_group()
