"""HOLOGRAM_BOUNDS=1: indices, divisions and assertions are checked, and the first that fails is kept.

The program has one more buffer: the number of the place in the source that was first (0: none), the index, and the
point of the grid. Whoever finds it empty writes there. An access outside of its array then does nothing, as ever. What
is printed comes behind; see prints.py.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from hologram.atlas.builder import Value
from hologram.atlas.functions import select
from hologram.atlas.opcodes import NOWHERE, Opcode
from hologram.atlas.program import Access
from hologram.foundation import dtypes
from hologram.foundation.errors import AssertionFailed, BoundsError, DivisionByZero, HologramError
from hologram.foundation.frozen import frozen
from hologram.kernels.grid import Grid
from hologram.kernels.scope import Located
from hologram.kernels.source import Source

MOST_AXES = 8
WORDS = 1 + 2 * MOST_AXES  # of the buffer, before what is printed


@frozen(eq=False)
class Site:
    """A place in the source that may fail: what is said of it, where {index} is the index that was kept."""

    says: str
    axes: int
    error: type[HologramError]
    source: Source
    node: ast.AST


class Checks:
    """The checks of a kernel under construction."""

    def __init__(self, builder: Located, name: str, grid: Grid) -> None:
        self.b = builder
        self.name = name
        self.grid = grid
        self.sites: list[Site] = []
        self.prints: list[Any] = []  # see prints.py
        builder.buffer(name, dtypes.i32, Access.READ_WRITE)

    def checked(self, place: Value, indices: Sequence[Value], lengths: Sequence[Value], site: Site) -> Value:
        """A position, or one outside of every array where an index is none of its axis."""
        inside = self.b.constant(True, dtypes.bool_)
        for i, n in zip(indices, lengths, strict=True):
            inside = inside & (i >= 0) & (i < n)
        self.held(inside, indices, site)
        return select(inside, place, self.b.constant(NOWHERE, dtypes.index))

    def held(self, holds: Value, indices: Sequence[Value], site: Site) -> None:
        """Keeps the site, the indices and the point, where a condition does not hold and none has failed yet."""
        b = self.b
        wrong = ~holds if self.grid.inside is None else ~holds & self.grid.inside
        self.sites.append(site)
        number = len(self.sites)

        def keep() -> None:
            zero, own = b.constant(0, dtypes.i32), b.constant(number, dtypes.i32)
            compare = Opcode.ATOMIC_COMPARE_EXCHANGE
            first = b.emit(compare, dtypes.i32, self.at(0), zero, own, attribute=self.name)

            def note() -> None:
                self.put(self.at(1), indices)
                self.put(self.at(1 + MOST_AXES), self.point())

            b.if_(first == 0, note, lambda: None)

        b.if_(wrong, keep, lambda: None)

    def at(self, k: int) -> Value:
        return self.b.constant(k, dtypes.index)

    def put(self, first: Value, words: Sequence[Value]) -> None:
        """Stores words of the buffer, one after the other."""
        for k, word in enumerate(words):
            self.b.write(Opcode.STORE, self.name, first + k, word)

    def point(self) -> list[Value]:
        """Where in the grid the lane is."""
        return [n.value for n in self.grid.numbers("index") or ()]


def of_index(array: str, axes: int, source: Source, node: ast.AST) -> Site:
    """The site of an access to an array."""
    return Site(f"{array}[{{index}}] is outside of the array", axes, BoundsError, source, node)


def of_part(vector: str, source: Source, node: ast.AST) -> Site:
    """The site of an access to a part of a vector or matrix."""
    return Site(f"{vector}[{{index}}] is outside of the vector", 1, BoundsError, source, node)


def of_division(source: Source, node: ast.AST) -> Site:
    """The site of a division of integers."""
    return Site("an integer is divided by zero", 0, DivisionByZero, source, node)


def of_assertion(source: Source, node: ast.Assert) -> Site:
    """The site of an `assert`."""
    said = node.msg.value if isinstance(node.msg, ast.Constant) else None
    why = f" ({said if said is not None else ast.unparse(node.msg)})" if node.msg is not None else ""
    says = f"assert {ast.unparse(node.test)} does not hold{why}"
    return Site(says.replace("{", "{{").replace("}", "}}"), 0, AssertionFailed, source, node)


def refusal(words: Sequence[int], sites: Sequence[Site], rank: int) -> HologramError | None:
    """The error that a kernel's buffer tells of, if it does."""
    if not words[0]:
        return None
    site = sites[words[0] - 1]
    index = ", ".join(str(k) for k in words[1 : 1 + site.axes])
    point = tuple(int(k) for k in words[1 + MOST_AXES : 1 + MOST_AXES + rank])
    what = f"{site.says.format(index=index)}, at index {point} of the grid"
    return site.error(str(site.source.refuse(site.node, what)))
