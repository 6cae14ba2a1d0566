"""`torch.hologram` before the device is used: what PyTorch asks of every device's module, and a way to all the rest.

What is here is asked in programs that may never use the device (torch.manual_seed, Inductor), and so loads nothing.
Anything else is `hologram_torch.module`'s, which takes over here once it is loaded.
"""

from __future__ import annotations

import operator
import types
from importlib import import_module
from typing import Any

import torch

from hologram_torch.loading import NAME, whole
from hologram_torch.reach import reach

CODEGENS = (
    "CppWrapperCodegen",
    "PythonWrapperCodegen",
    "Scheduling",
    "WrapperFxCodegen",
)  # Inductor asks for them
SEEDS = range(-(1 << 63), 1 << 64)


class Door(types.ModuleType):
    """The module. Its functions are attributes of the object, so that the loaded ones can take their places."""

    seed_before: int | None = None  # of torch.manual_seed

    def __init__(self) -> None:
        super().__init__(f"torch.{NAME}", "The device's counterpart of torch.cuda.")
        self._initialized = False  # then there are no random numbers to keep, which checkpoints ask
        self.is_available = lambda: True  # the CPU always is a device
        self.is_initialized = lambda: whole.loaded
        self._is_in_bad_fork = lambda: False
        self._lazy_init = self.init = self._load
        self.current_device = lambda: 0
        self.device_count = lambda: import_module("hologram_torch.device.devices").devices.count
        self.get_amp_supported_dtype = lambda: [torch.float16, torch.bfloat16]
        self.manual_seed_all = self._seed
        self.synchronize = self._synchronize

    def _load(self) -> None:
        whole()

    def _seed(self, seed: int) -> None:
        if hasattr(seed, "__index__") and operator.index(seed) in SEEDS:
            self.seed_before = operator.index(seed)
        else:
            whole().module.manual_seed_all(seed)

    def _synchronize(self, device: Any = None) -> None:
        """A profile of PyTorch's asks for it at its end; there is nothing to wait for yet."""
        if device is not None:
            whole().module.synchronize(device)

    def become(self, module: Any) -> None:
        """Has the functions of a module in the place of those here."""
        own = [name for name in vars(self) if hasattr(module, name) and not name.startswith("__")]
        vars(self).update({name: getattr(module, name) for name in (*own, *module.__all__)})
        if self.seed_before is not None:
            module.manual_seed_all(self.seed_before)

    def __getattr__(self, name: str) -> Any:
        if name in CODEGENS:
            return reach(
                "codegens",
                "torch._inductor.codegen",
                "Inductor refuses graphs of the device in its own words",
                lambda: import_module("hologram_torch.inductor").Refusal,
                None,
            )
        if name.startswith("__"):  # what Python asks of modules
            raise AttributeError(f"torch.{NAME} has no {name}")
        return getattr(whole().module, name)

    def __dir__(self) -> list[str]:
        return sorted({*vars(self), *whole().module.__all__})


door = Door()
