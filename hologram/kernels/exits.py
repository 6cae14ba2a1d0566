"""How statements end, and what they assign: what control flow without jumps is made from."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

# The state of an exit, ordered by how far it leads: the next statement, the next round, behind the loop, the caller.
NONE, CONTINUE, BREAK, RETURN = range(4)
JUMPS: dict[type[ast.stmt], int] = {ast.Continue: CONTINUE, ast.Break: BREAK, ast.Return: RETURN}


def exits(statements: Iterable[ast.stmt]) -> set[int]:
    """The ways in which statements may leave for elsewhere than the next one."""
    ways: set[int] = set()
    for s in statements:
        if type(s) in JUMPS:
            ways.add(JUMPS[type(s)])
        elif isinstance(s, ast.If):
            ways |= exits(s.body) | exits(s.orelse)
        elif isinstance(s, (ast.For, ast.While)):
            ways |= exits(s.body) & {RETURN}
    return ways


def ends(statements: Sequence[ast.stmt]) -> bool:
    """Whether nothing behind the statements is ever reached."""
    if not statements:
        return False
    last = statements[-1]
    return type(last) in JUMPS or (isinstance(last, ast.If) and ends(last.body) and ends(last.orelse))


def returns(statements: Iterable[ast.stmt]) -> bool:
    """Whether every way through the statements returns."""
    for s in statements:
        if isinstance(s, ast.Return):
            return True
        if isinstance(s, ast.If) and returns(s.body) and returns(s.orelse):
            return True
        endless = isinstance(s, ast.While) and isinstance(s.test, ast.Constant) and bool(s.test.value)
        if endless and BREAK not in exits(s.body):  # type: ignore[attr-defined]
            return True
    return False


def assigned(statements: Iterable[ast.stmt]) -> dict[str, None]:
    """The names that statements assign, in order."""
    return dict.fromkeys(name for s in statements for name in _assigned(s))


@lru_cache(4096)
def _assigned(statement: ast.stmt) -> tuple[str, ...]:
    return tuple(_names_assigned(statement))


def _names_assigned(statement: ast.stmt) -> Iterator[str]:
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Store):
            # A part of a vector, or of a part of one; an element of an array changes no variable.
            yield from filter(None, [owner_of(node)])


def owner_of(part: ast.expr) -> str | None:
    """The variable that a part of a part is of."""
    while isinstance(part, (ast.Attribute, ast.Subscript)):
        part = part.value
    return part.id if isinstance(part, ast.Name) else None
