"""All that computes: every operator's kernel, and what PyTorch's classes do on the device."""

from __future__ import annotations

import torch

from hologram_torch import requirement
from hologram_torch.loading import whole

requirement.warn_beyond()
whole.open()  # what follows changes what stood behind the doors

from hologram_torch import aten, autocast, module  # noqa: E402
from hologram_torch.device import current, generator, pinned, profiling, streams  # noqa: E402
from hologram_torch.door import door  # noqa: E402
from hologram_torch.fallback import unknown  # noqa: E402
from hologram_torch.reach import reach, settle  # noqa: E402
from hologram_torch.tensors import interchange, storages  # noqa: E402
from hologram_torch.tensors.conversion import keep_parameters  # noqa: E402

__all__ = ["aten", "autocast", "module", "unknown"]

reach(
    "current-device",
    "the C++ table of c10::impl::DeviceGuardImplInterface",
    "PyTorch's C++ takes device 0 for the current one; an exception in a hook of a backward pass may end Python",
    current.tell,
    None,
)
reach(
    "pinned-memory",
    "the C++ tables of at::PrivateUse1HooksInterface and c10::Allocator",
    "PyTorch refuses pin_memory=True and DistributedDataParallel's find_unused_parameters",
    pinned.tell,
    None,
)
for _class in (generator.Generator, streams.Stream, streams.Event):
    setattr(torch, _class.__name__, _class)
storages.settle()
interchange.settle()
settle(
    "flex-attention",
    "torch._higher_order_ops.flex_attention",
    "FlexAttention holds all scores of a call in memory, or refuses the device",
    "flexible",
)
settle(
    "data-parallel", "torch._C._broadcast and its kin", "torch.nn.DataParallel refuses the device", "replicas"
)
profiling.settle()
keep_parameters()
door.become(module)
if torch.distributed.is_available():
    settle(
        "collectives",
        "torch._C._distributed_c10d and torch.distributed.ProcessGroup's private methods",
        "torch.distributed refuses tensors of the device: move them to the host first",
        "distributed",
    )
whole.loaded = True
