"""The code of a kernel's Python form: the function's own, line by line, with the two things that Python has otherwise.

A vector, a matrix and a dataclass are values: `p.x = 1.0` changes p alone, so it is a copy from then on. A variable
with an annotation has its dtype: `total: hg.f64 = 0.0` is `total = hg.f64(0.0)`.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any

from hologram.kernels.exits import owner_of
from hologram.kernels.source import read
from hologram.kernels.vectors import Parts

OWN = "$own"  # the name of `own` in the code


def own(value: Any) -> Any:
    """A value that nobody else has: a copy of a vector, matrix or dataclass, with its parts; anything else as it is."""
    if isinstance(value, Parts):
        return type(value)(*value)
    if not is_dataclass(value) or isinstance(value, type):
        return value
    found = copy.copy(value)
    for f in fields(value):
        object.__setattr__(found, f.name, own(getattr(value, f.name)))
    return found


@lru_cache(maxsize=256)
def code_of(function: FunctionType) -> CodeType:
    """The code of a function whose values are values; breakpoints and line numbers are those of its file."""
    source = read(function)
    tree = _Values().visit(copy.deepcopy(source.tree))
    tree.decorator_list = []
    free = ", ".join(function.__code__.co_freevars)  # names of a function around it, as they are here
    module = ast.parse(f"def around({free}): pass")
    (around,) = module.body
    assert isinstance(around, ast.FunctionDef)
    around.body = [tree]
    ast.increment_lineno(tree, source.first_line - 1)
    compiled = compile(module, source.file, "exec", dont_inherit=True)
    for name in (around.name, function.__name__):
        compiled = next(c for c in compiled.co_consts if isinstance(c, CodeType) and c.co_name == name)
    return compiled


class _Values(ast.NodeTransformer):
    """Puts `p = own(p)` before `p.x = ...`, and a conversion into an assignment with an annotation."""

    def _assigned(self, node: ast.stmt, targets: Sequence[ast.expr]) -> list[ast.stmt]:
        parts = [
            x for target in targets for x in ast.walk(target) if isinstance(x, (ast.Attribute, ast.Subscript))
        ]
        roots = {owner_of(x): None for x in parts if isinstance(x.ctx, ast.Store)}
        copies = [ast.parse(f"{name} = 0").body[0] for name in roots if name is not None]
        for name, statement in zip((n for n in roots if n is not None), copies, strict=True):
            statement.value = ast.Call(ast.Name(OWN, ast.Load()), [ast.Name(name, ast.Load())], [])  # type: ignore[attr-defined]
            for x in ast.walk(statement):
                ast.copy_location(x, node)
        return [*copies, node]

    def visit_Assign(self, node: ast.Assign) -> list[ast.stmt]:
        return self._assigned(node, node.targets)

    def visit_AugAssign(self, node: ast.AugAssign) -> list[ast.stmt]:
        return self._assigned(node, [node.target])

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        if node.value is None:
            return node
        value = ast.copy_location(ast.Call(node.annotation, [node.value], []), node.value)
        return self._assigned(ast.copy_location(ast.Assign([node.target], value), node), [node.target])
