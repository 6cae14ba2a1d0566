"""Where the sources of hand-written kernels are, and which there are."""

from __future__ import annotations

from functools import cache
from pathlib import Path


def shaders() -> Path:
    """The folder of hand-written kernels: packed in the wheel, beside the package in a checkout."""
    package = Path(__file__).parents[1]
    packed = package / "shaders"
    return packed if packed.is_dir() else package.parent / "shaders"


@cache
def stems(language: str) -> frozenset[str]:
    """The hand-written kernels of a language: files that no other includes."""
    return frozenset(p.stem for p in (shaders() / language).glob("*") if p.suffix != ".h")
