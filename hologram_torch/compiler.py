"""`torch.compile(model)` without a backend: graphs of the device go to hologram's, all others to Inductor.

Inductor writes kernels for a list of devices. The class that torch.compile makes for it asks where a graph's tensors
are, so that a model may be compiled before it is moved, and one program may have both.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import torch

from hologram_torch.loading import NAME
from hologram_torch.reach import expect

Theirs: Any = torch._TorchCompileInductorWrapper


def on_device(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> bool:
    """Whether a tensor of a graph is the device's: what it is given, or what it makes."""
    made = (node.meta.get("example_value", node.meta.get("val")) for node in graph.graph.nodes)
    return any(isinstance(x, torch.Tensor) and x.device.type == NAME for each in (inputs, made) for x in each)


class Wrapper(Theirs):
    """What torch.compile calls where no backend is named."""

    def __init__(self, mode: Any, options: Any, dynamic: Any, *name: Any, **named: Any) -> None:
        super().__init__(mode, options, dynamic, *name, **named)  # PyTorch before 2.13 knows no name
        self._asked = sorted(options or ())

    def __call__(self, model_: Any, inputs_: Sequence[Any], **patches: Any) -> Any:
        if not on_device(model_, inputs_):
            return super().__call__(model_, inputs_, **patches)
        if self._asked:
            warnings.warn(
                f"hologram: torch.compile's options are Inductor's and mean nothing on this device, got {self._asked}",
                UserWarning,
                stacklevel=2,
            )
        return import_module("hologram_torch.compile").hologram(model_, inputs_)


def settle() -> None:
    """Has torch.compile ask."""
    taken = list(inspect.signature(Theirs.__init__).parameters)[1:4]
    expect(taken == ["mode", "options", "dynamic"], f"it takes mode, options and dynamic, not {taken}")
    changed: Any = torch
    changed._TorchCompileInductorWrapper = Wrapper
