"""What code generation made of a program, outliving the process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from hologram.compiler.digest import generator_digest
from hologram.compiler.pipeline import observed
from hologram.foundation import store

T = TypeVar("T")


def kept(folder: Path, identity: str, make: Callable[[], bytes], load: Callable[[bytes], T]) -> T:
    """What `make` gives, loaded; from the store if any process made it before, by the same sources.

    Args:
        folder: the backend's, whose sources count as well; its name is the store's kind.
        identity: tells apart all that `make` may give under one code generator.
        make: generates. What it raises is raised.
        load: raises ValueError, TypeError or KeyError for what `make` did not give.
    """
    generator = generator_digest(folder)
    # Rewrites that are to be shown, or checked, have to be made.
    key = None if generator is None or observed() else store.key(identity, generator)
    return store.shared().kept(folder.name, key, make, load)
