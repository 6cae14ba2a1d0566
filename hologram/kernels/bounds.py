"""HOLOGRAM_BOUNDS=1: every index is checked where it is used, and the first one outside of its array is kept.

The program has one more buffer: the number of the place in the source that was first (0: none), the index, and the
point of the grid. Whoever finds it empty writes there. The access itself then does nothing, as ever.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from hologram.atlas.builder import Value, select
from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Access
from hologram.foundation import dtypes
from hologram.foundation.errors import BoundsError
from hologram.kernels.grid import Grid
from hologram.kernels.scope import Located
from hologram.kernels.source import Source

MOST_AXES = 8
WORDS = 1 + 2 * MOST_AXES  # of the buffer
_NOWHERE = 2**31 - 1  # a position outside of every array
Site = tuple[str, int, Source, ast.AST]  # an array, its axes, and where in the source it is accessed


class Checks:
    """The checks of a kernel under construction."""

    def __init__(self, builder: Located, name: str, grid: Grid) -> None:
        self.b = builder
        self.name = name
        self.grid = grid
        self.sites: list[Site] = []
        builder.buffer(name, dtypes.i32, Access.READ_WRITE)

    def checked(self, place: Value, indices: Sequence[Value], lengths: Sequence[Value], site: Site) -> Value:
        """A position, or one outside of every array where an index is none of its axis."""
        b = self.b
        inside = b.constant(True, dtypes.bool_)
        for i, n in zip(indices, lengths, strict=True):
            inside = inside & (i >= 0) & (i < n)
        wrong = ~inside if self.grid.inside is None else ~inside & self.grid.inside
        self.sites.append(site)
        number = len(self.sites)

        def at(k: int) -> Value:
            return b.constant(k, dtypes.index)

        def keep() -> None:
            zero, own = b.constant(0, dtypes.i32), b.constant(number, dtypes.i32)
            compare = Opcode.ATOMIC_COMPARE_EXCHANGE
            first = b.emit(compare, dtypes.i32, at(0), zero, own, attribute=self.name)

            def note() -> None:
                for k, i in enumerate(indices):
                    b.write(Opcode.STORE, self.name, at(1 + k), i)
                for k, n in enumerate(self.grid.numbers("index") or ()):
                    b.write(Opcode.STORE, self.name, at(1 + MOST_AXES + k), n.value)

            b.if_(first == 0, note, lambda: None)

        b.if_(wrong, keep, lambda: None)
        return select(inside, place, b.constant(_NOWHERE, dtypes.index))


def refusal(words: Sequence[int], sites: Sequence[Site], rank: int) -> BoundsError | None:
    """The error that a kernel's buffer tells of, if it does."""
    if not words[0]:
        return None
    name, axes, source, node = sites[words[0] - 1]
    index = ", ".join(str(k) for k in words[1 : 1 + axes])
    point = tuple(int(k) for k in words[1 + MOST_AXES : 1 + MOST_AXES + rank])
    found = source.refuse(node, f"{name}[{index}] is outside of the array, at index {point} of the grid")
    return BoundsError(str(found))
