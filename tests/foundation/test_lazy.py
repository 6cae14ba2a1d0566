"""Modules that load when they are first used are named in full, exist, and are imported beside for checkers."""

from __future__ import annotations

import ast
from importlib.util import find_spec
from pathlib import Path

import pytest

import hologram

ROOT = Path(hologram.__file__).parent
FILES = [p for p in sorted(ROOT.rglob("*.py")) if p.name != "lazy.py" and "lazy.module(" in p.read_text()]


def fetched(tree: ast.Module) -> list[ast.Call]:
    """The calls of `lazy.module` in a file."""
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "lazy.module"
    ]


def imported_for_types(tree: ast.Module) -> set[str]:
    """The modules that are imported, in full names, where TYPE_CHECKING holds."""
    found = set()
    for block in ast.walk(tree):
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING":
            for node in block.body:
                if isinstance(node, ast.Import):
                    found |= {alias.name for alias in node.names}
                elif isinstance(node, ast.ImportFrom):
                    found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def test_some_are_lazy() -> None:
    assert len(FILES) > 5


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_lazy_module_is_imported_for_checkers(path: Path) -> None:
    tree = ast.parse(path.read_text())
    for call in fetched(tree):
        (name,) = call.args
        assert isinstance(name, ast.Constant), f"line {call.lineno}: a name in full is needed"
        if not str(name.value).startswith("hologram."):
            continue  # a peer that is measured: it may be missing, and its types are its own affair
        assert find_spec(str(name.value)), f"line {call.lineno}: there is no module {name.value}"
        assert name.value in imported_for_types(tree), (
            f"line {call.lineno}: {name.value} is hidden from checkers"
        )
