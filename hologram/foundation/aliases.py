"""Public module names whose files lie deeper: `import hologram.ops` gives `hologram.frontend.ops`, the same module."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

ALIASES = {
    "hologram.backend": "hologram.frontend.selection",
    "hologram.linalg": "hologram.frontend.linalg",
    "hologram.einops": "hologram.frontend.einops",
    "hologram.fft": "hologram.frontend.fft",
    "hologram.ops": "hologram.frontend.ops",
    "hologram.random": "hologram.frontend.random",
    **{f"hologram.{name}": f"hologram.foundation.{name}" for name in ("config", "dtypes", "errors")},
    **{f"hologram.{name}": f"hologram.machine.{name}" for name in ("device", "layout", "limits", "plan")},
}


class _Alias(Loader):
    """Loads the module that a name stands for, and leaves it as it is."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(ALIASES[spec.name])
        self.spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec  # the import system has put the alias's there


class _Finder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, _Alias()) if fullname in ALIASES else None


def install() -> None:
    """Makes the names importable; they are asked for last, after files."""
    sys.meta_path.append(_Finder())
