"""PyTorch's tracing of Python: it leaves alone what runs beneath operators, and what PyTorch asks of an accelerator.

These run between the graphs of any compiled function, whatever its backend: traced themselves, they would ask again.
"""

from __future__ import annotations

import os
import pkgutil
from importlib.util import find_spec
from typing import Any

# What programs do with the library is traced: demos, the models that are measured, and modules.
PROGRAMS = ("benchmark", "demo", "examples", "packed", "gguf", "torchao", "traced")


def trace_rules(module: Any) -> None:
    """Adds all of ours to the places that are not traced, and imports none; each `add` compiles the list anew."""
    for package in ("hologram", "hologram_torch"):
        spec = find_spec(package)
        assert spec is not None
        for part in pkgutil.iter_modules(spec.submodule_search_locations):
            if part.name not in PROGRAMS:
                module.SKIP_DIRS.append(_place(part))
    module.add(__name__)


def _place(part: pkgutil.ModuleInfo) -> str:
    """A module's file, or a package's folder."""
    finder: Any = part.module_finder
    return os.path.join(finder.path, part.name + (os.sep if part.ispkg else ".py"))
