"""The collectives of `c10d` for tensors of the device: those of the engine that a group has, gloo or NCCL.

What goes to the device in a group's collectives are these operators, which every way to a collective ends in:
torch.distributed's functions, functional collectives, DistributedDataParallel in C++. Their kernels are here. With gloo
a collective runs while the caller goes on, and its results are copied to the device as soon as they are there:
DistributedDataParallel reduces a bucket while its backward pass computes the next. NCCL: cards.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, ClassVar

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _create_work_from_future  # pyright: ignore
from torch.utils import _pytree as pytree

from hologram_torch.distributed import cards
from hologram_torch.distributed.engine import Engine, Handed
from hologram_torch.loading import NAME, whole
from hologram_torch.tensors.memory import hologram_tensor, is_ours

HOST = torch.device("cpu")
DEVICE = torch.device(NAME)
c10d = torch.ops.c10d
# Collectives, and whether they write to their first argument; what the others are given stays as it is.
COLLECTIVES = {
    c10d._allgather_base_: True,
    c10d._reduce_scatter_base_: True,
    c10d.allgather_: True,
    c10d.allgather_coalesced_: True,
    c10d.allgather_into_tensor_coalesced_: True,
    c10d.allreduce_: True,
    c10d.allreduce_coalesced_: True,
    c10d.alltoall_: True,
    c10d.alltoall_base_: True,
    c10d.barrier: False,
    c10d.broadcast_: True,
    c10d.gather_: True,
    c10d.recv_: True,
    c10d.recv_any_source_: True,
    c10d.reduce_: True,
    c10d.reduce_scatter_: True,
    c10d.reduce_scatter_tensor_coalesced_: True,
    c10d.scatter_: True,
    c10d.send: False,
}
# Their tensors are one memory, of any shape; gloo wants the same of both.
FLAT = (
    c10d._allgather_base_,
    c10d._reduce_scatter_base_,
    c10d.allgather_into_tensor_coalesced_,
    c10d.reduce_scatter_tensor_coalesced_,
)
# What goes through the host where a group has an engine there: two that send to each other would wait in NCCL.
BY_HOST = (c10d.barrier, c10d.recv_, c10d.recv_any_source_, c10d.send)
SHARED = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8)
_operations: Any = dist.ReduceOp.RedOpType
AVERAGE = int(_operations.AVG)
# What gloo does not reduce. It says so when the collective runs, which nobody may wait for.
UNREDUCED = (torch.int16, torch.uint16, torch.uint32, torch.uint64)
# What complex numbers have, part by part.
LINEAR = (int(_operations.SUM), AVERAGE, int(_operations.PREMUL_SUM))

library = torch.library.Library("c10d", "IMPL")


def opened(store: Any, rank: int, size: int, timeout: timedelta) -> Any:
    """What a group has for a device, as torch.distributed asks for it: gloo, which is given tensors of the host."""
    whole()  # which has groups agree on NCCL
    return dist.ProcessGroupGloo(store, rank, size, timeout=timeout)


_get_backend: Callable[..., Any] = dist.ProcessGroup._get_backend
_register_backend: Callable[..., None] = dist.ProcessGroup._register_backend


def _registered(group: Any, device: torch.device, kind: Any, backend: Any = None) -> None:
    """Gives a group a backend for a device, and NCCL beside that which was made by `opened`, where that can be.

    Gloo is known by its own name too, which PyTorch asks for where no backend was named.
    """
    kinds = dist.ProcessGroup.BackendType
    if device != DEVICE or kind != kinds.CUSTOM:
        return _register_backend(group, device, kind, backend)
    for known in (kinds.GLOO, kind):
        _register_backend(group, device, known, backend)
    _backend(group, HOST)  # which C++ asks for by itself
    gloo = getattr(backend, "wrapped_pg", backend)  # PyTorch wraps it where it is to tell more
    cards.agree(group, gloo.options._timeout, cards.card(), _register_backend)


def _backend(group: Any, device: Any) -> Any:
    """A group's backend for tensors of a device, where it was made for the host or for the device alone, too."""
    kind = torch.device(torch.device(device).type)
    other = {HOST: DEVICE, DEVICE: HOST}.get(kind)
    if kind not in group._device_types and other in group._device_types:
        _register_backend(group, kind, dist.ProcessGroup.BackendType.CUSTOM, _get_backend(group, other))
    return _get_backend(group, device)


def _host(x: torch.Tensor) -> Handed:
    """For gloo, a tensor's memory where that is the host's, else a copy."""
    own = hologram_tensor(x)
    if own.executor.limits.host_resident and own.layout.is_contiguous and x.dtype in SHARED:
        return torch.from_dlpack(own), None
    copy = x.detach().cpu().contiguous()
    return copy, copy


GLOO = Engine(hand=_host)


def _finished(work: Any) -> Any:
    """A collective's own future; some of gloo's have none, and are waited for."""
    try:
        return work.get_future()
    except RuntimeError:
        work.wait()
        done = torch.futures.Future()
        done.set_result(None)
        return done


@contextmanager
def _told(where: str) -> Iterator[None]:
    """Has what a collective fails with say where."""
    try:
        yield
    except RuntimeError as error:
        # In gloo's words, which say whether another process is gone or late.
        raise dist.DistBackendError(f"{where}: {error}") from error


def _spoilt(results: Sequence[torch.Tensor], error: Exception) -> None:
    """What nobody can take for results: a work of a future (_create_work_from_future) waits, and says nothing."""
    warnings.warn(f"{error}; the results are NaN where they can be", RuntimeWarning, stacklevel=1)
    with torch.no_grad():
        for x in results:
            if x.is_floating_point() or x.is_complex():
                x.fill_(float("nan"))


class Received(dist.Work):
    """What came from whichever process: the one form of work that is asked from which, and by Python alone."""

    under_way: ClassVar[set[Received]] = (
        set()
    )  # Python's part of an object that C++ has goes with the last reference

    def __init__(self, work: Any, copied: Callable[[], Any]) -> None:
        super().__init__()
        self._work, self._copied = work, copied
        self.under_way.add(self)

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Waits until it is on the device."""
        if self in self.under_way:
            self._work.wait()
            self._copied()
            self.under_way.discard(self)
        return True

    def is_completed(self) -> bool:
        return self._work.is_completed()

    def _source_rank(self) -> int:
        return self._work._source_rank()

    source_rank = _source_rank


def _engine(collective: Any, group: Any, tensors: Sequence[torch.Tensor]) -> Engine:
    """Which of a group's engines runs a collective on tensors of the device."""
    by_host = collective in BY_HOST and not {HOST, DEVICE}.isdisjoint(group._device_types)
    if tensors and not by_host and cards.reached(group, tensors):
        return cards.NCCL
    _backend(group, HOST)
    return GLOO


def kernel_of(collective: Any, writes: bool) -> Callable[..., Any]:
    """What runs a collective on tensors of the device; `writes`: it writes into those it is given."""
    operator = collective.default
    names = [argument.name for argument in operator._schema.arguments]
    group_at = names.index("process_group")
    reduces = names.index("reduce_op") if "reduce_op" in names else None
    async_at = names.index("async_op") if "async_op" in names else len(names)
    alone = len(operator._schema.returns) == 1  # the Work, without the tensors

    def run(*given: Any) -> Any:
        group = dist.ProcessGroup.unbox(given[group_at])
        ours = [x for x in pytree.tree_leaves(given) if is_ours(x)]
        engine = _engine(collective, group, ours)
        staged: dict[int, tuple[torch.Tensor, Handed]] = {}

        def handed(x: torch.Tensor) -> torch.Tensor:
            if not is_ours(x):
                return x
            if id(x) not in staged:
                staged[id(x)] = (x, engine.hand(x))
            here, _ = staged[id(x)][1]
            return here.view(-1) if collective in FLAT else here

        if reduces is not None and given[reduces].op() not in LINEAR and any(x.is_complex() for x in ours):
            raise ValueError(f"{operator.name()}: complex numbers have sums and means alone")
        theirs = list(pytree.tree_map_only(torch.Tensor, handed, given))
        unfit = next((x.dtype for x in ours if x.dtype in UNREDUCED), None) if reduces is not None else None
        if unfit is not None:
            raise RuntimeError(
                f"{operator.name()}: Invalid scalar type: {unfit} is not reduced between processes"
            )
        mean = reduces is not None and not engine.means and given[reduces].op() == AVERAGE
        if mean and not all(x.is_floating_point() or x.is_complex() for x in pytree.tree_leaves(given[0])):
            raise ValueError(f"{operator.name()}: ReduceOp.AVG is of floats, got integers")
        if reduces is not None:
            theirs[reduces] = torch.classes.c10d.ReduceOp() if mean else given[reduces]  # a sum
        # What runs on gloo's thread holds no group: the last reference to it would go there, and end the process.
        size, where = group.size(), f"{operator.name()} of rank {group.rank()} of {group.size()}"
        with engine.turn(ours), _told(where):
            results = operator(*theirs)
        work = dist.Work.unbox(results if alone else results[-1])
        wanted = [staged[id(x)] for x in pytree.tree_leaves(given[0]) if id(x) in staged] if writes else []

        def copied() -> list[torch.Tensor]:
            with torch.no_grad():
                for there, (here, result) in wanted:
                    if mean:
                        here.div_(size)
                    if result is not None:
                        there.copy_(result)
                    elif not there.is_inference():
                        torch.autograd.graph.increment_version(there)
            return [there for there, *_ in wanted]

        if engine.queued or (wanted and async_at < len(given) and not given[async_at]):
            with engine.turn(ours), _told(where):
                if work is not None:  # NCCL gives none where the queue waits already
                    work.wait()
                found = copied()
            done = torch.futures.Future()
            done.set_result(found)
            work = _create_work_from_future(done)  # some of gloo's write their results at each wait
        elif wanted and collective is c10d.recv_any_source_:
            work = Received(work, copied)
        elif wanted:

            def taken(done: Any) -> list[torch.Tensor]:
                try:
                    with _told(where):
                        done.value()
                except dist.DistBackendError as error:
                    _spoilt([there for there, *_ in wanted], error)
                    raise
                return copied()

            work = _create_work_from_future(_finished(work).then(taken))
        return work.boxed() if alone else (given[0], work.boxed())

    return run


def settle() -> None:
    """Has the operators run so on the device; where PyTorch was built without torch.distributed there are none."""
    groups: Any = dist.ProcessGroup
    groups._get_backend, groups._register_backend = _backend, _registered
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Warning only once for all operators", UserWarning)
        for collective, writes in COLLECTIVES.items():
            library.impl(
                collective.default.name().partition("::")[2], kernel_of(collective, writes), "PrivateUse1"
            )
