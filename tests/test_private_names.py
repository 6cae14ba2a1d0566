"""Private names that tests import of ours, or name in a string: what ruff's SLF001 does not see."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent
PRIVATE = re.compile(r"_[a-zA-Z]\w*")
BY_STRING = {"setattr", "getattr", "delattr", "hasattr", "object", "patch", "attrgetter"}  # of mock, too
REASON = "# private: "


def called(call: ast.Call) -> str:
    """The last name of what is called."""
    return getattr(call.func, "attr", None) or getattr(call.func, "id", "")


def unseen(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Lines and names of private names that are imported from our packages, or attributes by a string."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names = [each.name for each in node.names if (node.module or "").startswith("hologram")]
        elif isinstance(node, ast.Call) and (called(node) in BY_STRING):
            strings = (a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str))
            names = [text.rpartition(".")[2] for text in strings]
        else:
            continue
        for name in filter(PRIVATE.fullmatch, names):
            yield node.lineno, name


def test_each_has_its_reason_beside_it() -> None:
    bare = []
    for path in TESTS.rglob("*.py"):
        text = path.read_text("utf-8")
        if not re.search(r"[\"'.]_[a-zA-Z]|import .*\b_[a-zA-Z]", text):
            continue
        lines = text.split("\n")
        bare += [
            f"{path.relative_to(TESTS)}:{line}: {name}"
            for line, name in unseen(ast.parse(text))
            if REASON not in lines[line - 1]
        ]
    assert not bare, f"private names without {REASON!r} and the reason: {bare}"


def test_they_are_found() -> None:
    text = (
        "from hologram.a import b, _c\nimport torch\npatch.setattr(x, '_d', 1)\nsetattr('hologram.e._f', None)\n"
        "getattr(x, '__g')\nsetattr(x, 'h', '_i j')\n"
    )
    assert list(unseen(ast.parse(text))) == [(1, "_c"), (3, "_d"), (4, "_f")]
