"""torch.distributed for tensors of the device.

    torch.distributed.init_process_group()          # or "hologram", "gloo", "cpu:gloo,hologram:gloo", "nccl"

A group is PyTorch's own. Its engine is NCCL where every process computes on a CUDA card of its own and PyTorch was
built with NCCL: it is given the tensors' memory on the card, and the queue that orders them, and the host waits for
nothing. Elsewhere it is gloo, on copies in host memory where the memory is not the host's.
"""

from hologram_torch.distributed.carrier import carrier
from hologram_torch.distributed.collectives import opened as opened
from hologram_torch.distributed.collectives import settle as settle

__all__ = ["carrier", "opened"]
