"""PyTorch's part of `hologram bench` on an adapter: `python -m hologram_torch.benchmark TASK`, eager and compiled."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import torch

from hologram.benchmark.models import with_torch
from hologram.benchmark.pipelines import Way
from hologram.benchmark.torch_process import answer
from hologram_torch import module
from hologram_torch.device.devices import devices


def ways(adapter: str) -> list[Way]:
    """The adapter as the device of PyTorch, and torch.compile for it."""
    device = f"hologram:{[place.name for place in devices.places].index(adapter)}"
    compiled = partial(torch.compile, backend="hologram", dynamic=False)
    return [
        _way("hologram_torch eager", adapter, device),
        _way("hologram_torch compiled", adapter, device, compiled),
    ]


def _way(who: str, adapter: str, device: str, compiled: Any = with_torch.as_it_is) -> Way:
    def waiting(call: Any) -> Any:
        def called() -> None:
            call()
            module.synchronize(device)

        return called

    def make(function: Any) -> Any:
        return partial(function, compiled=compiled, device=device)

    return Way(who, adapter, make(with_torch.forward), make(with_torch.trained), with_torch.to_numpy, waiting)


if __name__ == "__main__":
    answer(ways, sys.argv[1:])
