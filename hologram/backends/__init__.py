"""The backends, a folder each, and `hg.backends()`, which asks them all.

The contract gives one name to both: `import hologram.backends.cpu` binds this package to `hologram.backends`, so the
package itself can be called. What it holds is in registry.py.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

from hologram.backends.registry import probes, source
from hologram.machine.backend_module import Probe

__all__ = ["source"]


class _Backends(ModuleType):
    def __call__(self) -> tuple[Probe, ...]:
        """Every backend in order of preference: its devices, or why it has none and what to do."""
        return probes()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled by its name, as the function is that it stands for."""
        return import_module, (__name__,)


sys.modules[__name__].__class__ = _Backends
