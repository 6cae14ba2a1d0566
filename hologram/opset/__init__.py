"""Every operation of hologram, each declared once: a module here, or in neural/ or special/, is a subject; forms/ and
tiles/ serve them.

`OPERATIONS` holds them by name; asking for it imports every module of the package, and so declares them all.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import walk_packages
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hologram.opset.forms.operation import OPERATIONS

__all__ = ["OPERATIONS"]


def __getattr__(name: str) -> Any:
    if name != "OPERATIONS":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    for module in walk_packages(__path__, f"{__name__}."):
        import_module(module.name)
    globals()["OPERATIONS"] = import_module(f"{__name__}.forms.operation").OPERATIONS
    return globals()["OPERATIONS"]
