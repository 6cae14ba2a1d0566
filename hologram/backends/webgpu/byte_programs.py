"""Fills and copies at any byte, as Atlas programs over 32-bit words.

WebGPU's own commands want multiples of 4 and two different buffers. Here one lane owns one word of the target:
where the range covers only some of its bytes, it keeps the others.
"""

from __future__ import annotations

from functools import cache

from hologram.atlas.builder import Builder, Value
from hologram.atlas.functions import select
from hologram.atlas.program import Access, BufferParameter, Program
from hologram.backends.webgpu.memory import WORD
from hologram.foundation.dtypes import index, u32


def _masked(b: Builder, target: BufferParameter, position: Value, value: Value) -> None:
    """Stores the bytes of a word that the scalars `head` and `tail` select in the first and the last word."""
    i = b.coordinate(0)
    ones = b.constant(0xFFFFFFFF, u32)
    head = select(i == 0, b.scalar("head", u32), ones)
    tail = select(i + 1 == b.extent(0), b.scalar("tail", u32), ones)
    mask = head & tail
    b.store(target, position, (value & mask) | (b.load(target, position) & ~mask))


@cache
def fill_program() -> Program:
    """Scalars: first word, masks of the first and last word, and the pattern's two words in turn."""
    b = Builder("atlas_fill_bytes")
    target = b.buffer("target", u32, Access.READ_WRITE)
    first = b.scalar("first", index)
    b.scalar("head", u32)
    b.scalar("tail", u32)
    even, odd = b.scalar("even", u32), b.scalar("odd", u32)
    i = b.coordinate(0)
    _masked(b, target, i + first, select(i.to(u32) & 1 == 0, even, odd))
    return b.build()


@cache
def copy_program() -> Program:
    """Scalars: first word of each side, masks, and by how many bits the source's bytes sit higher than the target's.

    A word of the target takes the high bytes of one word of the source and the low bytes of the next.
    """
    b = Builder("atlas_copy_bytes")
    source = b.buffer("source", u32, Access.READ)
    target = b.buffer("target", u32, Access.READ_WRITE)
    from_, first = b.scalar("from_", index), b.scalar("first", index)
    b.scalar("head", u32)
    b.scalar("tail", u32)
    shift = b.scalar("shift", u32)  # 0, 8, 16 or 24
    i = b.coordinate(0)
    low, high = b.load(source, i + from_), b.load(source, i + from_ + 1)
    # A shift by 32 gives 0, so an aligned source takes nothing of the second word.
    _masked(b, target, i + first, (low >> shift) | (high << (b.constant(32, u32) - shift)))
    return b.build()


def masks(offset: int, nbytes: int) -> tuple[int, int, int, int]:
    """The first word of a byte range, the count of its words, and the masks of the first and last."""
    first, last = offset // WORD, -(-(offset + nbytes) // WORD)
    head = 0xFFFFFFFF << 8 * (offset - first * WORD) & 0xFFFFFFFF
    tail = 0xFFFFFFFF >> 8 * (last * WORD - offset - nbytes)
    return first, last - first, head, tail


def fill_scalars(offset: int, nbytes: int, pattern: bytes) -> tuple[tuple[int, ...], int]:
    """The scalars of `fill_program`, and its lanes."""
    first, count, head, tail = masks(offset, nbytes)
    lead = offset - first * WORD  # bytes of the first word before the range
    turn = [pattern[(k - lead) % len(pattern)] for k in range(2 * WORD)]
    even, odd = (int.from_bytes(turn[k : k + WORD], "little") for k in (0, WORD))
    return (first, head, tail, even, odd), count


def copy_scalars(source: int, target: int, nbytes: int) -> tuple[tuple[int, ...], int]:
    """The scalars of `copy_program` for byte offsets of both sides, and its lanes."""
    first, count, head, tail = masks(target, nbytes)
    # The byte that lands at the start of the first word, perhaps -1 to -3.
    start = source - (target - first * WORD)
    return (start // WORD, first, head, tail, 8 * (start % WORD)), count
