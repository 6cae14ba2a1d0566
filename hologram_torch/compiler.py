"""`torch.compile(model)` without a backend: graphs of the device go to hologram's, all others to Inductor.

Inductor writes kernels for a list of devices. The class that torch.compile makes for it asks where a graph's tensors
are, so that a model may be compiled before it is moved, and one program may have both.
"""

from __future__ import annotations

import pkgutil
import warnings
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch

from hologram_torch.loading import NAME

# What runs beneath PyTorch's operators is not to be compiled itself where a graph breaks and they run one by one.
# What programs do with the library is: demos, the models that are measured, and modules.
PROGRAMS = ("benchmark", "demo", "examples", "packed", "gguf", "torchao")
Theirs: Any = torch._TorchCompileInductorWrapper


@cache
def keep_apart() -> None:
    """Has PyTorch's tracing of Python leave alone what runs beneath operators."""
    rules = import_module("torch._dynamo.trace_rules")
    for package in ("hologram", "hologram_torch"):
        spec = find_spec(package)
        assert spec is not None
        for part in pkgutil.iter_modules(spec.submodule_search_locations):
            if part.name not in PROGRAMS:
                rules.add(f"{package}.{part.name}")


def on_device(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> bool:
    """Whether a tensor of a graph is the device's: what it is given, or what it makes."""
    made = (node.meta.get("example_value", node.meta.get("val")) for node in graph.graph.nodes)
    return any(isinstance(x, torch.Tensor) and x.device.type == NAME for each in (inputs, made) for x in each)


class Wrapper(Theirs):
    """What torch.compile calls where no backend is named."""

    def __init__(self, mode: Any, options: Any, dynamic: Any, name: Any = None) -> None:
        super().__init__(mode, options, dynamic, name)
        self._asked = sorted(options or ())
        keep_apart()

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
    changed: Any = torch
    changed._TorchCompileInductorWrapper = Wrapper
