"""The source of a function: its syntax tree, what its names stand for, and errors that point into its file."""

from __future__ import annotations

import ast
import builtins
import inspect
import textwrap
from collections.abc import Mapping
from dataclasses import field
from functools import lru_cache
from types import FunctionType
from typing import Any

from hologram.foundation.errors import KernelError
from hologram.foundation.frozen import frozen

_UNREADABLE = (
    "its source cannot be read: a kernel is read from the file that it is written in. Code of exec, of python -c and "
    "of Python's prompt has no file; write it into a module, or into a cell of IPython or Jupyter"
)


@frozen(eq=False)
class Source:
    """A function as it is written."""

    function: Any
    tree: ast.FunctionDef
    file: str
    first_line: int
    lines: tuple[str, ...]  # as they stand in the file
    indent: int
    names: Mapping[str, Any] = field(repr=False)

    @property
    def name(self) -> str:
        return self.function.__name__

    def refuse(self, node: ast.AST | None, what: str) -> KernelError:
        """The error that points at a node: file, line and column, what is wrong, and the line itself."""
        node = self.tree if node is None else node
        line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0) + self.indent
        text = self.lines[line - 1].rstrip() if line <= len(self.lines) else ""
        where = f"{self.file}:{self.line(node)}:{column + 1}"
        marked = f"\n    {text}\n    {' ' * column}^" if text else ""
        return KernelError(f"{where}: {self.name}: {what}{marked}", self.file, self.line(node), column + 1)

    def line(self, node: ast.AST) -> int:
        """Where in its file a node stands."""
        return self.first_line + getattr(node, "lineno", 1) - 1

    def resolve(self, node: ast.Name) -> Any:
        """What a name stands for outside of the function."""
        for among in (self.names, vars(builtins)):
            if node.id in among:
                return among[node.id]
        raise self.refuse(node, f"{node.id} is not defined, neither here nor around the function")


@lru_cache(maxsize=256)
def read(function: Any) -> Source:
    """The source of a function; raises KernelError where it cannot be read."""
    if not isinstance(function, FunctionType):
        raise KernelError(f"a kernel must be a function, got {type(function).__name__}")
    code = function.__code__
    place = f"{code.co_filename}:{code.co_firstlineno}: {function.__name__}"
    try:
        lines, first = inspect.getsourcelines(function)
        module = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, SyntaxError, IndentationError) as error:
        raise KernelError(f"{place}: {_UNREADABLE}") from error
    tree = module.body[0] if module.body else None
    if not isinstance(tree, ast.FunctionDef):
        raise KernelError(f"{place}: a kernel must be written as `def name(...):`")
    indent = len(lines[0]) - len(lines[0].lstrip())
    return Source(function, tree, code.co_filename, first, tuple(lines), indent, names_of(function))


def names_of(function: Any) -> dict[str, Any]:
    """What names around a function stand for: those of its module, and of the functions that it is written in."""
    names = dict(function.__globals__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            names[name] = cell.cell_contents
        except ValueError:  # it is assigned later
            names.pop(name, None)
    return names


def words(node: ast.AST, kind: type[ast.AST] | None = None) -> str:
    """A node in words: `a ListComp` as `ListComp`."""
    return f"`{ast.unparse(node).splitlines()[0][:40]}` ({(kind or type(node)).__name__})"
