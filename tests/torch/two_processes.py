"""One of the processes of test_distributed: trains its half of the batch in each way there is, as one process does."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

STEPS = 3
State = dict[str, torch.Tensor]


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    layers = (
        torch.nn.Linear(6, 16),
        torch.nn.Tanh(),
        torch.nn.Linear(16, 16),
        torch.nn.Tanh(),
        torch.nn.Linear(16, 2),
    )
    return torch.nn.Sequential(*layers).double()


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(8, n, generator=generator, dtype=torch.float64) for n in (6, 2)]  # pyright: ignore


def train(trained: Any, x: torch.Tensor, y: torch.Tensor) -> None:
    optimiser = torch.optim.AdamW(trained.parameters(), lr=0.1)
    for _ in range(STEPS):
        optimiser.zero_grad()
        torch.nn.functional.mse_loss(trained(x), y).backward()
        optimiser.step()


def whole(own: torch.nn.Module) -> State:
    """The parameters, each all of it, on the host."""
    return {
        n: (p.full_tensor() if hasattr(p, "full_tensor") else p).cpu() for n, p in own.state_dict().items()
    }


class Turns(torch.nn.Module):
    """Uses one of its layers at a time, another in each process; nobody uses the last."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(6, 2).double() for _ in range(3))

    def forward(self, x: torch.Tensor, step: int) -> torch.Tensor:
        return self.layers[dist.get_rank() if step else 0](x)


def partly_used(device: torch.device) -> list[torch.Tensor | None]:
    """The gradients of two passes, in which the wrapper finds out what was used."""
    own = Turns().to(device)
    trained = torch.nn.parallel.DistributedDataParallel(own, find_unused_parameters=True)
    found: list[torch.Tensor | None] = []
    for step in range(2):
        own.zero_grad()
        trained(batch()[0].to(device), step).square().sum().backward()
        found += [None if p.grad is None else p.grad.cpu() for p in own.parameters()]
    return found


class Each:
    """The ways of training on several processes: what becomes of the parameters."""

    def __init__(self, device: torch.device, folder: str) -> None:
        self.device, self.folder = device, folder
        self.whole = [t.to(device) for t in batch()]
        self.half = [t[dist.get_rank() :: 2].to(device) for t in batch()]

    def data_parallel(self) -> State:
        own = model().to(self.device)
        train(torch.nn.parallel.DistributedDataParallel(own, bucket_cap_mb=0.0005), *self.half)
        return whole(own)

    def sharded(self) -> State:
        """Parameters are parts of one flat tensor."""
        from torch.distributed.fsdp import FullyShardedDataParallel

        own = model().to(self.device)
        trained = FullyShardedDataParallel(own, device_id=self.device, use_orig_params=True)
        train(trained, *self.half)
        with FullyShardedDataParallel.summon_full_params(trained):
            return {
                n.removeprefix("_fsdp_wrapped_module."): p.detach().cpu().clone()
                for n, p in trained.named_parameters()
            }

    def fully_sharded(self) -> State:
        """Parameters are distributed tensors, saved and loaded on the way by another way to shard."""
        import torch.distributed.checkpoint
        from torch.distributed.fsdp import fully_shard

        own = model().to(self.device)
        for layer in own.children():
            if isinstance(layer, torch.nn.Linear):
                fully_shard(layer)
        train(fully_shard(own), *self.half)
        checkpoint: Any = torch.distributed.checkpoint
        checkpoint.save({"model": own.state_dict()}, checkpoint_id=f"{self.folder}/checkpoint")
        again = self.by_columns(model().to(self.device))
        state = again.state_dict()
        checkpoint.load({"model": state}, checkpoint_id=f"{self.folder}/checkpoint")
        again.load_state_dict(state)
        return whole(again)

    def by_columns(self, own: Any) -> Any:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import Replicate
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

        last = ColwiseParallel(output_layouts=Replicate())
        plan: Any = {"0": ColwiseParallel(), "2": RowwiseParallel(), "4": last}
        return parallelize_module(own, init_device_mesh("hologram", (2,)), plan)

    def tensor_parallel(self) -> State:
        """Layers are cut by columns and by rows; each process has all of the batch."""
        own = self.by_columns(model().to(self.device))
        train(own, *self.whole)
        return whole(own)

    def accelerated(self) -> State:
        """accelerate's own loop, as torchrun starts it."""
        accelerate = import_module("accelerate")
        rank = str(dist.get_rank())
        os.environ |= {"LOCAL_RANK": rank, "RANK": rank, "WORLD_SIZE": "2"}
        accelerator = accelerate.Accelerator()
        assert (accelerator.num_processes, accelerator.device) == (2, self.device)
        own = model()
        optimiser = torch.optim.AdamW(own.parameters(), lr=0.1)
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*batch()), batch_size=4)
        trained, optimiser, loader = accelerator.prepare(own, optimiser, loader)
        for _ in range(STEPS):
            for x, y in loader:
                optimiser.zero_grad()
                accelerator.backward(torch.nn.functional.mse_loss(trained(x), y))
                optimiser.step()
        accelerator.wait_for_everyone()
        return whole(accelerator.unwrap_model(trained))


FORMS = ("data_parallel", "sharded", "fully_sharded", "tensor_parallel")
FORMS += ("accelerated",) if find_spec("accelerate") else ()


def collectives(device: torch.device) -> None:
    """Each collective on tensors of the device, against what it says."""
    import torch.distributed._functional_collectives as functional

    rank, other = dist.get_rank(), 1 - dist.get_rank()
    group: Any = dist.group.WORLD

    def own(value: float = rank + 1.0) -> torch.Tensor:
        return torch.full((4,), value, device=device)

    def none() -> list[torch.Tensor]:
        return [torch.zeros(4, device=device) for _ in range(2)]

    def check(found: Sequence[torch.Tensor], *wanted: Sequence[float]) -> None:
        assert [t.tolist() for t in found] == [list(w) for w in wanted]
        assert all(t.device == device for t in found)

    one, two, three = [1.0] * 4, [2.0] * 4, [3.0] * 4
    for op, wanted in ((dist.ReduceOp.SUM, 3), (dist.ReduceOp.MAX, 2), (dist.ReduceOp.AVG, 1.5)):
        x = own()
        work: Any = dist.all_reduce(x, op=op, async_op=True)
        assert work.get_future().wait()[0] is x
        check([x], [wanted] * 4)
    dist.all_gather(parts := none(), own())
    check(parts, one, two)
    dist.all_gather_into_tensor(
        both := own().repeat(2), own().reshape(1, 2, 2)
    )  # shapes are the caller's own
    check([both], one + two)
    dist.reduce_scatter(part := own(), [own(), own(0.0)])
    check([part], three if rank == 0 else [0.0] * 4)
    dist.broadcast(x := own(), 1)
    check([x], two)
    dist.scatter(part := own(), [own(5.0), own(6.0)] if rank == 0 else None)
    check([part], [5.0 + rank] * 4)
    dist.gather(own(), parts := none() if rank == 0 else None)
    check(parts or [], *([one, two] if rank == 0 else []))
    if torch.__version__ >= "2.12":  # gloo has none of lists before
        dist.all_to_all(parts := none(), [own(), own()])
        check(parts, one, two)
    if rank:
        dist.send(own(), 0)
    else:
        x = own()
        assert dist.recv(x) == 1  # from whichever
        check([x], two)
    posted = [dist.P2POp(dist.isend, own(), other), dist.P2POp(dist.irecv, x := own(0.0), other)]
    for work in dist.batch_isend_irecv(posted):
        work.wait()
    check([x], [other + 1.0] * 4)
    for _ in range(5):  # it once gave what it was given
        check(functional.all_reduce_coalesced([own(), own(2.0)], "sum", group), three, [4.0] * 4)
    gathers, scatters = "all_gather_single_coalesced", "reduce_scatter_single_coalesced"
    if torch.__version__ < "2.13":
        gathers, scatters = "all_gather_into_tensor_coalesced", "reduce_scatter_tensor_coalesced"
    check(getattr(functional, gathers)([own(), own()], group), one + two, one + two)
    check(getattr(functional, scatters)([own()], "sum", [0], group), three[:2])
    check([functional.all_reduce(own(), "avg", group)], [1.5] * 4)
    with pytest.raises(dist.DistBackendError, match=f"rank {rank} of 2: Cannot use ReduceOp.BAND"):
        dist.all_reduce(own(), op=dist.ReduceOp.BAND)
    with pytest.raises(RuntimeError, match="Invalid scalar type"):  # before anybody would have to wait for it
        dist.all_reduce(own().short(), async_op=True)
    dist.all_reduce(x := torch.ones(2))
    assert x.tolist() == [2, 2]
    dist.barrier()


def work(rank: int, folder: str) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "HOLOGRAM_CPU_THREADS": "1", "HOLOGRAM_BACKEND": "cpu"}
    import hologram_torch  # noqa: F401  (in the process that was started)

    device = torch.device("hologram", 0)
    for name in (None, "hologram", "gloo", "cpu:gloo"):  # the last as where a group is made before the device
        meeting = f"file://{folder}/meeting-{name}"
        dist.init_process_group(name, init_method=meeting, rank=rank, world_size=2)
        dist.all_reduce(first := torch.ones(2))  # of the host, ahead of any of the device
        assert first.tolist() == [2, 2]
        collectives(device)
        wanted = partly_used(torch.device("cpu"))
        assert [g is None for g in wanted] == [False] * 2 + [True] * 4 + [False] * 4 + [True] * 2
        torch.testing.assert_close(partly_used(device), wanted)
        for form in FORMS if name is None else ():
            found: Callable[[], State] = getattr(Each(device, folder), form)
            torch.save(found(), Path(folder) / f"{rank}-{form}.pt")
        dist.destroy_process_group()


COLLECTIVES_OF_ONE: tuple[Callable[[torch.Tensor], Any], ...] = (
    dist.all_reduce,
    lambda x: dist.all_reduce(x, async_op=True).wait(),  # type: ignore[union-attr]
    lambda x: dist.all_gather_into_tensor(x.new_empty(8), x),
    lambda x: dist.recv(x, 1),
)


def deserted(rank: int, folder: str) -> None:
    """Process 1 goes before the second collective; the first one writes what the collective said."""
    os.environ |= {"HOLOGRAM_CPU_THREADS": "1", "HOLOGRAM_BACKEND": "cpu"}
    import hologram_torch  # noqa: F401  (in the process that was started)

    rendezvous = f"file://{folder}/deserted"
    dist.init_process_group("gloo", rendezvous, rank=rank, world_size=2, timeout=timedelta(seconds=5))
    x = torch.ones(4, device="hologram")
    dist.all_reduce(x)
    if rank == 0:
        said = []
        for collective in COLLECTIVES_OF_ONE:
            try:
                collective(x)
            except dist.DistBackendError as error:
                said.append(str(error))
            else:
                said.append("nothing" if x.isfinite().any() else "NaN")
                x.fill_(1)
        (Path(folder) / "said").write_text("\n".join(line.partition("\n")[0] for line in said))
    os._exit(0)


def carried(rank: int, folder: str) -> None:
    """hologram's own collectives over gloo; at the end process 1 does not come, and process 0 says what it is told."""
    os.environ |= {"HOLOGRAM_CPU_THREADS": "1"}
    import hologram as hg
    from hologram_torch.distributed import carrier
    from tests.frontend import ranks

    dist.init_process_group("gloo", f"file://{folder}/carried", rank=rank, world_size=2)
    hg.distributed.init(carrier())
    ranks.check()
    hg.distributed.init(carrier(dist.new_group([1, 0])), timeout_s=0.5)
    said = Path(folder) / "said"
    with hg.Executor("cpu") as ex:
        assert hg.distributed.all_gather(ex.full(1, float(rank))).tolist() == [[0.0], [1.0]]
        hg.distributed.init(carrier(), timeout_s=0.5)
        if rank == 0:
            said.write_text(ranks.deserted(ex))
    while not said.exists():
        time.sleep(0.05)
    os._exit(0)
