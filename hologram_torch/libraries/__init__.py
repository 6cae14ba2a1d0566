"""Other people's libraries that know devices by lists in their code: what each needs, done when it is imported.

A module of theirs is changed right after it was executed, before others take names from it. Where it is not as an
adapter expects it, nothing is changed and a warning says so.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from hologram_torch.reach import REACHES, reach

HERE = __name__
# Lightning is two packages, and all of it once more in a third.
_LIGHTNING = {
    "accelerators": ("accelerators",),
    "connector": ("connector", "trainer.connectors.accelerator_connector"),
    "data_parallel": ("strategies.ddp",),
}
_LIGHTNING_ROOTS = ("lightning_fabric", "lightning.fabric", "pytorch_lightning", "lightning.pytorch")
# Modules, and functions of this folder that are given them.
ADAPTERS = {
    "accelerate.accelerator": ("with_accelerate", "accelerator"),
    "accelerate.state": ("with_accelerate", "state"),
    "accelerate.utils.modeling": ("with_accelerate", "modeling"),
    "sentence_transformers.util.environment": ("with_sentence_transformers", "environment"),
    "torch._dynamo.trace_rules": ("with_dynamo", "trace_rules"),
    "torch.distributed.tensor": ("with_dtensor", "operators"),
    "torch.distributed.tensor.experimental._context_parallel._attention": ("with_dtensor", "sequences"),
    "torch.autograd.profiler": ("with_profiler", "profiler"),
    "transformers.cli.serving.model_manager": ("with_transformers", "serving"),
    "transformers.generation.utils": ("with_transformers", "generation"),
    "transformers.pipelines.base": ("with_transformers", "pipelines"),
    "transformers.training_args": ("with_transformers", "training_args"),
    **{
        f"{root}.{name}": ("with_lightning", function)
        for root in _LIGHTNING_ROOTS
        for function, names in _LIGHTNING.items()
        for name in names
    },
}


def adapt(module: ModuleType) -> None:
    """Has a library's module take the device; warns where it is not as expected."""
    name = module.__name__
    file, function = ADAPTERS[name]
    reach(
        name,
        name,
        "the library may not find the device",
        lambda: getattr(import_module(f"{HERE}.{file}"), function)(module),
        None,
    )
    problem = REACHES[name].problem
    if problem:
        warnings.warn(
            f"hologram: this version of {name} is not known, it may not find the device: {problem}",
            RuntimeWarning,
            stacklevel=2,
        )


class Adapted:
    """Finds the modules as they are found without it, and changes what their loaders do at the end."""

    def __init__(self) -> None:
        self._finding: set[str] = set()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """As importlib asks its finders; None for modules of no interest."""
        if name not in ADAPTERS or name in self._finding:
            return None
        self._finding.add(name)
        try:
            spec = find_spec(name)
        finally:
            self._finding.discard(name)
        loader: Any = spec and spec.loader
        if loader is None:
            return None
        execute = loader.exec_module

        def executed(module: ModuleType) -> None:
            execute(module)
            adapt(module)

        loader.exec_module = executed
        return spec


class Executing(ModuleSpec):
    """Of a module that is being executed; importlib writes here when it was, and then it is adapted."""

    @property
    def _initializing(self) -> bool:
        return self.__dict__["_initializing"]

    @_initializing.setter
    def _initializing(self, lasts: bool) -> None:
        self.__dict__["_initializing"] = lasts
        if not lasts:
            self.__class__ = ModuleSpec  # type: ignore[assignment]
            if self.name in sys.modules:  # not where it failed
                adapt(sys.modules[self.name])


def settle() -> None:
    """Adapts what is imported already, or being imported: libraries import torch. All else is when it is."""
    finders: Any = sys.meta_path
    finders.insert(0, Adapted())
    for name in ADAPTERS:
        if name not in sys.modules:
            continue
        spec: Any = sys.modules[name].__spec__
        if getattr(spec, "_initializing", False):
            spec.__class__ = Executing
        else:
            adapt(sys.modules[name])
