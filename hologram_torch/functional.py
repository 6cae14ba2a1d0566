"""torch.nn.functional on an executor: `functional.gelu(executor, x)`.

Every function of torch.nn.functional, and of torch where that has none, under its own name and with its own arguments
after the executor. Tensors may be on the host or on a device; results are where the first tensor was. On an executor
that computes in host memory, tensors of the host are neither copied there nor back. Gradients flow.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as theirs

from hologram.frontend.executor import Executor
from hologram_torch.device.devices import devices
from hologram_torch.tensors.transfer import computed_on


def device_of(executor: Any) -> torch.device:
    """The device of PyTorch's that an executor computes on; TypeError for what is no executor."""
    if not isinstance(executor, Executor):
        raise TypeError(
            f"hologram_torch: the first argument must be an hg.Executor, got {type(executor).__name__}"
        )
    return torch.device("hologram", devices.number(executor))


def __getattr__(name: str) -> Callable[..., Any]:
    return _function(name)


@functools.cache
def _function(name: str) -> Callable[..., Any]:
    function: Any = getattr(theirs, name, None) or getattr(torch, name, None)
    if not _public(name, function):
        raise AttributeError(f"neither torch.nn.functional nor torch has a function {name!r}")

    @functools.wraps(function)
    def on(executor: Executor, *args: Any, **kwargs: Any) -> Any:
        return computed_on(device_of(executor), function, args, kwargs)

    on.__module__, on.__name__, on.__qualname__ = __name__, name, name  # pickles find it by these
    return on


def _public(name: str, value: Any) -> bool:
    return not name.startswith("_") and callable(value) and not isinstance(value, type)


def __dir__() -> list[str]:
    return sorted(name for name in dir(theirs) if _public(name, getattr(theirs, name)))
