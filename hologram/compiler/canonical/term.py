"""Programs as terms: values known by what they are made of, not by their number, so that equal ones are one object.

A term's digest says how it is computed, down to the coordinates and buffers; names of buffers and scalars take no part
in it. Terms live at a level, the number of loops around them that they depend on: those of an outer level may be
computed outside of the inner loops.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from hologram.atlas.opcodes import Opcode
from hologram.foundation.dtypes import DType, Number


@dataclass(slots=True, eq=False)
class Epoch:
    """What memory holds between two effects: loads of one epoch at one position give one value."""

    digest: bytes
    level: int


@dataclass(slots=True, eq=False)
class Region:
    """The body of a program or of an `if`, `loop` or `while`: effects in order, and the terms it yields."""

    level: int  # loops around its contents
    path: bytes = b""  # which sides and loops it is inside of
    epochs: set[Epoch] = field(default_factory=set)  # that begin, or go on, outside of its inner regions
    arguments: tuple[Term, ...] = ()
    effects: list[Term] = field(default_factory=list)
    yields: tuple[Term, ...] = ()
    again: tuple[Term, ...] = ()  # of a `while`: whether it goes on
    parent: Region | None = None  # where its term is placed
    depth: int = 0

    @property
    def digest(self) -> bytes:
        effects = b"".join(t.digest for t in self.effects)
        return digest(
            "region", len(self.arguments), effects, b"".join(t.digest for t in (*self.again, *self.yields))
        )


@dataclass(slots=True, eq=False)
class Term:
    """One instruction, or one result of a structured one.

    `opcode` is None for the arguments of a loop's body and the results of `if` and `loop`, whose `attribute` is their
    place among their like; `operands` of a result is the structured term, of an argument empty.
    """

    opcode: Opcode | None
    type: DType | None
    operands: tuple[Term, ...]
    attribute: str | Number | None
    digest: bytes
    level: int
    rank: int  # how far in it varies: 0 for constants and scalars, then the grid's axes, then loops
    serial: int  # operands have lower ones
    epochs: tuple[Epoch, ...] = ()  # what it must be computed in, because it loads
    regions: tuple[Region, ...] = ()
    ends: tuple[Epoch, ...] = ()  # what an effect ends
    anchored: bool = False  # depends on memory, or on a place along the row
    pinned: bool = False  # an effect, which stays in its place
    place: Region | None = None
    form: object = None  # what it is as a sum, product or chain; see integers.py

    @property
    def number(self) -> int:
        """Which result or argument it is."""
        assert isinstance(self.attribute, int)
        return self.attribute

    @property
    def constant(self) -> bool:
        return self.opcode is Opcode.CONSTANT

    @property
    def key(self) -> tuple[bool, int, bytes]:
        """Where it stands among operands that may be exchanged: what varies least first, constants last."""
        return self.opcode is Opcode.CONSTANT, self.rank, self.digest


def digest(*parts: object) -> bytes:
    """A short fingerprint; the same in every process."""
    words = [p if isinstance(p, bytes) else str(p).encode() for p in parts]
    return hashlib.blake2b(b"|".join(words), digest_size=12).digest()
