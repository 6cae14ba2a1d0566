"""Fills and copies of any bytes as Atlas programs, where a device's own way cannot do all, or is slow."""

from __future__ import annotations

from functools import cache

from hologram.atlas.builder import Builder
from hologram.atlas.program import Access, Program
from hologram.foundation.dtypes import DType, index, u8, u16, u32, u64

WORDS: dict[int, DType] = {8: u64, 4: u32, 2: u16, 1: u8}  # by bytes


def word(*numbers: int) -> int:
    """The bytes of the largest word that all offsets and sizes are multiples of."""
    return next(size for size in WORDS if not any(n % size for n in numbers))


@cache
def fill_program(size: int) -> Program:
    """Stores a word everywhere; scalars: the first word's position, and the word."""
    b = Builder(f"atlas_fill_{WORDS[size].name}")
    target = b.buffer("target", WORDS[size], Access.WRITE)
    first, value = b.scalar("first", index), b.scalar("value", WORDS[size])
    b.store(target, b.coordinate(0) + first, value)
    return b.build()


@cache
def copy_program(size: int) -> Program:
    """Copies words; scalars: the first word's position in the source and in the target."""
    b = Builder(f"atlas_copy_{WORDS[size].name}")
    source = b.buffer("source", WORDS[size], Access.READ)
    target = b.buffer("target", WORDS[size], Access.WRITE)
    from_, first = b.scalar("from_", index), b.scalar("first", index)
    i = b.coordinate(0)
    b.store(target, i + first, b.load(source, i + from_))
    return b.build()
