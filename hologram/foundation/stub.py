"""A package's names, as its stub lists them: each is imported when it is first asked for."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

from hologram.foundation.frozen import frozen


@frozen
class Listed:
    """A line `from module import name as ...` of a stub; `name` may be a module in a package."""

    module: str
    name: str

    def fetched(self) -> Any:
        """What it names, imported."""
        module = import_module(self.module)
        if not hasattr(module, self.name):
            import_module(f"{self.module}.{self.name}")
        return getattr(module, self.name)


def listed(package_file: str) -> dict[str, Listed]:
    """The public names of the stub beside a package's `__init__.py`, which is read, not run.

    Public is what a checker takes for it: `from m import x as x`, and assignments of what is imported.
    """
    stub = Path(package_file).with_suffix(".pyi")
    imported: dict[str, Listed] = {}
    public: dict[str, Listed] = {}
    for node in ast.parse(stub.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                imported[alias.name] = Listed(node.module, alias.name)
                if alias.asname == alias.name:
                    public[alias.name] = imported[alias.name]
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
            public |= {
                target.id: imported[node.value.id] for target in node.targets if isinstance(target, ast.Name)
            }
    return public
