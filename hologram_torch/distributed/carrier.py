"""torch.distributed as what carries hologram's own arrays between processes; see hologram.frontend.distributed."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.distributed as dist


class _Begun:
    """A collective that torch.distributed began."""

    def __init__(self, work: Any) -> None:
        self._work = work

    def Test(self) -> bool:  # noqa: N802
        return self._work.is_completed() and self._work.wait()  # which raises what it failed with


class _Carrier:
    """See hologram.distributed.Carrier."""

    SUM, PROD, MAX = dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT, dist.ReduceOp.MAX

    def __init__(self, group: Any) -> None:
        self._group = group

    def Get_rank(self) -> int:  # noqa: N802
        return dist.get_rank(self._group)

    def Get_size(self) -> int:  # noqa: N802
        return dist.get_world_size(self._group)

    def Iallreduce(self, sendbuf: np.ndarray, recvbuf: np.ndarray, op: Any) -> _Begun:  # noqa: N802
        np.copyto(recvbuf, sendbuf)
        return _Begun(dist.all_reduce(torch.from_numpy(recvbuf), op, self._group, async_op=True))

    def Iallgather(self, sendbuf: np.ndarray, recvbuf: np.ndarray) -> _Begun:  # noqa: N802
        parts = torch.from_numpy(recvbuf).view(self.Get_size(), -1).unbind()
        return _Begun(
            dist.all_gather(list(parts), torch.from_numpy(sendbuf).view(-1), self._group, async_op=True)
        )

    def Ibcast(self, buf: np.ndarray, root: int) -> _Begun:  # noqa: N802
        source = root if self._group is None else dist.get_global_rank(self._group, root)
        return _Begun(dist.broadcast(torch.from_numpy(buf), source, self._group, async_op=True))


def carrier(group: Any = None) -> Any:
    """What `hg.distributed.init` takes, over a group of torch.distributed that has gloo for the host.

    None is the default group: where there is none yet, one of gloo is made, as torchrun's environment says.
    """
    if group is None and not dist.is_initialized():
        dist.init_process_group("gloo")
    return _Carrier(group)
