"""Modules that load when they are first used.

`import hologram` and opening an executor must be quick, and neither needs the operations' declarations, the compiler
or a code generator. A module at such a seam is imported like this, so that checkers see an ordinary import:

    if TYPE_CHECKING:
        from hologram.compiler import split
    else:
        split = lazy.module("hologram.compiler.scheduling.split")
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


class _Lazy:
    """Stands for a module; imports it (under Python's own import lock) when an attribute is asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(import_module(self._name), attribute)
        setattr(self, attribute, value)
        return value


def module(name: str) -> Any:
    """A stand-in for the module of that full name."""
    return _Lazy(name)
