"""Nodes that are known not to pass, each with its reason; see ledger.txt."""

from __future__ import annotations

from functools import cache
from pathlib import Path

FILE = Path(__file__).with_name("ledger.txt")


@cache
def entries(backend: str) -> dict[str, str]:
    """The reason for every node that a backend is expected to fail, by the node's name.

    A line of the file: an entry of the database, its dtypes, the backends (or *), and the reason.
    """
    found: dict[str, str] = {}
    for text in FILE.read_text().splitlines():
        if not text or text.startswith("#"):
            continue
        entry, dtypes, backends, reason = (part.strip() for part in text.split("|"))
        if backends == "*" or backend in backends.split():
            for dtype in dtypes.split():
                name = f"{entry}:{dtype}"
                if name in found:
                    raise ValueError(f"{FILE.name}: {name} stands there twice")
                found[name] = reason
    return found
