"""PyTorch on any GPU: `model.to("hologram")`.

`import torch` makes the device known where hologram is installed, as `import hologram_torch` does. What computes is
loaded when the device is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hologram_torch import requirement

# isort: split
try:
    from hologram_torch import registration  # noqa: F401  which needs it
except (ImportError, AttributeError) as error:
    raise requirement.unfit(error) from error
from hologram_torch.loading import whole

if TYPE_CHECKING:
    from hologram_torch import distributed, functional, nn, utils
    from hologram_torch.compile.saving import export_web, save_compiled
    from hologram_torch.custom_operator import custom_op

__all__ = ["custom_op", "distributed", "export_web", "functional", "nn", "save_compiled", "utils"]


# Functions that stand in a module of another name.
FUNCTIONS = {
    "custom_op": "hologram_torch.custom_operator",
    "export_web": "hologram_torch.compile.saving",
    "save_compiled": "hologram_torch.compile.saving",
}


def __getattr__(name: str) -> Any:
    if name not in __all__ and name not in ("autocast", "aten", "module"):
        raise AttributeError(f"hologram_torch has no {name}")
    whole()
    if name in FUNCTIONS:
        return getattr(import_module(FUNCTIONS[name]), name)
    return import_module(f"hologram_torch.{name}")
