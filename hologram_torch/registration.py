"""Makes `hologram` a device of PyTorch's, on its key for other people's devices."""

from __future__ import annotations

from typing import Any

import torch
from torch._C import _acc  # pyright: ignore
from torch._C._autograd import DeviceType  # pyright: ignore
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from hologram_torch import accelerator, flexible, module
from hologram_torch.device import current, generator, streams
from hologram_torch.tensors import interchange, storages
from hologram_torch.tensors.conversion import keep_parameters


class Hooks(_acc.PrivateUse1Hooks):
    """What PyTorch asks about all devices."""

    def is_available(self) -> bool:
        return True

    def has_primary_context(self, dev_id: int) -> bool:
        return True

    def is_built(self) -> bool:
        return True


class Guard(_acc.DeviceGuard):
    """What PyTorch asks about the current device."""

    def type_(self) -> Any:
        return DeviceType.PrivateUse1


_kept = (Hooks(), Guard())  # PyTorch holds no reference
_setup_privateuseone_for_python_backend("hologram", module.itself(), *_kept)

current.tell()
for _class in (generator.Generator, streams.Stream, streams.Event):
    setattr(torch, _class.__name__, _class)
for _name, _answer in accelerator.ANSWERS.items():
    setattr(torch._C, _name, _answer)
storages.settle()
interchange.settle()
flexible.settle()
keep_parameters()
