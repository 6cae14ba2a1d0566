"""The sources of a code generator, which what it generated is kept for."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from hologram.foundation import store

PACKAGE = Path(__file__).parents[1]


@functools.lru_cache(maxsize=16)
def generator_digest(backend: Path) -> str | None:
    """SHA-256 of all by which programs become code: dtypes, instruction set, compiler, and a backend's folder.

    None where they are no files, as in an application that was frozen into one.
    """
    compiler = compiler_digest()
    try:
        return None if compiler is None else store.key(compiler, digest_of_sources(backend))
    except OSError:
        return None


@functools.lru_cache(maxsize=1)
def compiler_digest() -> str | None:
    """The same of what all backends share, by which programs are rewritten."""
    try:
        return digest_of_sources(
            PACKAGE / "foundation" / "dtypes.py", PACKAGE / "atlas", PACKAGE / "compiler"
        )
    except OSError:
        return None


def digest_of_sources(*places: Path) -> str:
    """SHA-256 of files, and of all in folders and the folders below: names and contents. Raises OSError.

    What Python itself writes beside its sources (`__pycache__`) does not count.
    """
    digest = hashlib.sha256()
    for place in places:
        above = len(f"{place.parent}{os.sep}")
        for path in _files(place) if place.is_dir() else (str(place),):
            with open(path, "rb", buffering=0) as file:
                content = file.read()
            digest.update(f"{path[above:].replace(os.sep, '/')} {len(content)}\n".encode())
            digest.update(content)
    return digest.hexdigest()


def _files(folder: Path) -> Iterator[str]:
    """Everything below a folder, in an order that depends on nothing but names. Raises OSError."""

    def refuse(error: OSError) -> None:
        raise error

    for place, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        yield from (os.path.join(place, name) for name in sorted(names))
