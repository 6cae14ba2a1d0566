"""PyTorch's tracing of Python: it leaves alone what runs beneath operators, and what PyTorch asks of an accelerator.

These run between the graphs of any compiled function, whatever its backend: traced themselves, they would ask again.
"""

from __future__ import annotations

import pkgutil
from importlib.util import find_spec
from typing import Any

# What programs do with the library is traced: demos, the models that are measured, and modules.
PROGRAMS = ("benchmark", "demo", "examples", "packed", "gguf", "torchao")


def trace_rules(module: Any) -> None:
    """Adds all of ours to the places that are not traced; each `add` compiles the list of them anew."""
    parts: list[str] = []
    for package in ("hologram", "hologram_torch"):
        spec = find_spec(package)
        assert spec is not None
        found = pkgutil.iter_modules(spec.submodule_search_locations)
        parts += [f"{package}.{part.name}" for part in found if part.name not in PROGRAMS]
    *others, last = parts
    module.SKIP_DIRS += [_place(name) for name in others]
    module.add(last)


def _place(name: str) -> str:
    """A module's file, or a package's folder."""
    spec = find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    return spec.origin.removesuffix("__init__.py")
