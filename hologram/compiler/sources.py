"""The sources of a code generator, which what it generated is kept for."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

PACKAGE = Path(__file__).parents[1]


@functools.lru_cache(maxsize=16)
def generator_digest(backend: Path) -> str | None:
    """SHA-256 of all by which programs become code: dtypes, instruction set, compiler, and a backend's folder.

    None where they are no files, as in an application that was frozen into one.
    """
    try:
        return digest_of_sources(PACKAGE / "dtypes.py", PACKAGE / "atlas", PACKAGE / "compiler", backend)
    except OSError:
        return None


def digest_of_sources(*places: Path) -> str:
    """SHA-256 of files, and of those that lie right in folders: names and contents. Raises OSError."""
    found = hashlib.sha256()
    for place in places:
        for path in sorted(p for p in place.iterdir() if p.is_file()) if place.is_dir() else (place,):
            content = path.read_bytes()
            found.update(f"{path.parent.name}/{path.name} {len(content)}\n".encode())
            found.update(content)
    return found.hexdigest()
