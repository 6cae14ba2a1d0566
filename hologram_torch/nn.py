"""torch.nn with an executor: `nn.Linear(executor, 784, 10)`.

Every module class of torch.nn under its own name, as a subclass: what it is given after the executor, its state_dict
and its place in larger modules are PyTorch's. Without an executor, modules live on the current device of hologram.
Inputs may be on the host or on a device; outputs are where the first input was.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from hologram.frontend.executor import Executor
from hologram_torch.device.devices import devices
from hologram_torch.functional import device_of
from hologram_torch.tensors.transfer import computed_on

CONTAINERS = (torch.nn.ModuleList, torch.nn.ModuleDict, torch.nn.ParameterList, torch.nn.ParameterDict)


class OnDevice:
    """What the subclasses share: a device, and a forward pass there."""

    hologram_device: torch.device

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        executor = None
        if args and isinstance(args[0], Executor):
            executor, *rest = args
            args = tuple(rest)
        super().__init__(*args, **kwargs)
        here = torch.device("hologram", devices.current) if executor is None else device_of(executor)
        self.hologram_device = here
        module: Any = self
        module.to(here)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        parent: Any = super()
        return computed_on(self.hologram_device, parent.forward, args, kwargs)

    def _apply(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        """`to` another device of hologram's takes the computation along; elsewhere parameters alone would go."""
        parent: Any = super()
        moved = parent._apply(function, *args, **kwargs)
        parameter = next(iter((*moved.parameters(), *moved.buffers())), None)
        if parameter is not None:
            self.hologram_device = parameter.device
        return moved


def __getattr__(name: str) -> Any:
    return _module(name)


@functools.cache
def _module(name: str) -> Any:
    theirs: Any = getattr(torch.nn, name, None)
    if not _public(theirs):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}: torch.nn has no such module")
    if theirs is torch.nn.Module or issubclass(theirs, CONTAINERS):
        return theirs
    return type(name, (OnDevice, theirs), {"__module__": __name__, "__doc__": theirs.__doc__})


def _public(theirs: Any) -> bool:
    return isinstance(theirs, type) and issubclass(theirs, torch.nn.Module)


def __dir__() -> list[str]:
    return sorted(name for name in dir(torch.nn) if _public(getattr(torch.nn, name)))
