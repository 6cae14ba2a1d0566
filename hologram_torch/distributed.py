"""torch.distributed for tensors of the device: collectives of gloo on copies in host memory.

    torch.distributed.init_process_group("hologram", ...)

Tensors of the host take part as they are. A collective runs while the caller goes on, and its results are copied to the
device as soon as they are there: DistributedDataParallel reduces a bucket while its backward pass computes the next.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.utils import _pytree as pytree

from hologram_torch.loading import NAME, whole
from hologram_torch.tensors.memory import is_ours

# Collectives whose first argument takes the results, and gloo's names of them; what `send` is given stays as it is.
WRITING = {
    name: name
    for name in (
        "allgather",
        "_allgather_base",
        "allreduce",
        "allreduce_coalesced",
        "alltoall",
        "alltoall_base",
        "broadcast",
        "gather",
        "recv",
        "recv_anysource",
        "reduce",
        "reduce_scatter",
        "_reduce_scatter_base",
        "scatter",
    )
} | {
    "all_gather_single": "_allgather_base",
    "all_to_all_single": "alltoall_base",
    "reduce_scatter_single": "_reduce_scatter_base",
}


class Staged(dist.Work):
    """A collective under way on the host, and what its results are to be copied to."""

    def __init__(self, work: Any, results: Any, pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
        super().__init__()
        self._future = _future(work).then(lambda done: _copied(done, results, pairs))

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Waits until the results are on the device; raises what the collective raised."""
        self._future.wait()
        return True

    def is_completed(self) -> bool:
        return self._future.done()

    def get_future(self) -> Any:
        return self._future


def _future(work: Any) -> Any:
    """A collective's own future; gloo's scattered reductions have none, and are waited for."""
    try:
        return work.get_future()
    except RuntimeError:
        work.wait()
        done = torch.futures.Future()
        done.set_result(None)
        return done


def _copied(done: Any, results: Any, pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> Any:
    done.value()  # raises what the collective did
    with torch.no_grad():
        for there, here in pairs:
            there.copy_(here)
    return pytree.tree_leaves(results)


class HostGroup(dist.ProcessGroup):
    """A process group over gloo."""

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(rank, size)  # pyright: ignore[reportCallIssue]
        self._gloo: Any = dist.ProcessGroupGloo(store, rank, size, timeout)

    def getBackendName(self) -> str:  # noqa: N802  (torch.distributed asks by this name)
        return NAME

    # A group without a backend in C++ has no name there, and meshes of devices ask for it.

    def _set_group_name(self, name: str) -> None:
        self._name = name

    @property
    def group_name(self) -> Any:
        return self._name

    def barrier(self, *args: Any, **kwargs: Any) -> Any:
        return self._gloo.barrier(*args, **kwargs)

    def send(self, tensors: Any, *rest: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self._gloo.send([x.cpu() if is_ours(x) else x for x in tensors], *rest)


def _collective(theirs: str) -> Callable[..., Any]:
    """A collective that writes to its first argument."""

    def run(self: HostGroup, results: Any, *rest: Any, **options: Any) -> Any:
        staged: dict[int, torch.Tensor] = {}

        def down(x: torch.Tensor) -> torch.Tensor:
            if not is_ours(x):
                return x
            if id(x) not in staged:
                staged[id(x)] = x.cpu()
            return staged[id(x)]

        given = pytree.tree_map_only(torch.Tensor, down, (results, *rest))
        work = getattr(self._gloo, theirs)(*given, **options)
        pairs = [(x, staged[id(x)]) for x in pytree.tree_leaves(results) if id(x) in staged]
        return Staged(work, results, pairs) if staged else work

    return run


for _name, _theirs in WRITING.items():
    setattr(HostGroup, _name, _collective(_theirs))


def opened(store: Any, rank: int, size: int, timeout: timedelta) -> HostGroup:
    """A group, as torch.distributed asks for one of a backend."""
    whole()
    return HostGroup(store, rank, size, timeout)
