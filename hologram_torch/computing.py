"""All that computes: every operator's kernel, and what PyTorch's classes do on the device."""

from __future__ import annotations

import torch

from hologram_torch.loading import whole

whole.open()  # what follows changes what stood behind the doors

from hologram_torch import aten, autocast, flexible, module, replicas  # noqa: E402
from hologram_torch.device import current, generator, pinned, profiling, streams  # noqa: E402
from hologram_torch.door import door  # noqa: E402
from hologram_torch.fallback import unknown  # noqa: E402
from hologram_torch.tensors import interchange, storages  # noqa: E402
from hologram_torch.tensors.conversion import keep_parameters  # noqa: E402

__all__ = ["aten", "autocast", "module", "unknown"]

current.tell()
pinned.tell()
for _class in (generator.Generator, streams.Stream, streams.Event):
    setattr(torch, _class.__name__, _class)
storages.settle()
interchange.settle()
flexible.settle()
replicas.settle()
profiling.settle()
keep_parameters()
door.become(module)
if torch.distributed.is_available():
    from hologram_torch import distributed

    distributed.register()
whole.loaded = True
