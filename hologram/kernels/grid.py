"""Where a lane is: in the grid, in its workgroup, and which workgroup that is.

A workgroup of one axis is Atlas' own. One of two or three is a block of the grid, so the program has one axis, which
counts threads, workgroup by workgroup; the lane's place follows from both numbers. The grid is rounded up to whole
workgroups, and lanes outside of it have no effects: as in Atlas, they are missing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from hologram.atlas.builder import Value
from hologram.atlas.opcodes import Opcode
from hologram.foundation import dtypes
from hologram.kernels.numbers import Numbers
from hologram.kernels.scope import Located
from hologram.kernels.values import Number

SIZE = "grid_size{}"  # the scalars that say how large the grid is, where it is cut into blocks


class Grid:
    """The grid of a kernel under construction."""

    def __init__(
        self, builder: Located, numbers: Numbers, rank: int, workgroup: tuple[int, ...] | None
    ) -> None:
        self.b = builder
        self.rank = rank
        self.workgroup = workgroup
        self.inside: Value | None = None  # whether the lane is one of the grid's, where it may not be
        self._words: dict[str, Sequence[Number]] = {}
        emit, index = builder.emit, dtypes.index
        if workgroup is None or rank == 1:
            places = [emit(Opcode.COORDINATE, index, attribute=k) for k in range(rank)]
            self._words["grid_size"] = [
                numbers.counted(emit(Opcode.EXTENT, index, attribute=k)) for k in range(rank)
            ]
            self._words["index"] = [numbers.counted(p) for p in places]
            if workgroup is not None:
                self._words["thread_index"] = [numbers.counted(builder.position(Opcode.THREAD))]
                self._words["workgroup_index"] = [numbers.counted(builder.position(Opcode.WORKGROUP))]
            return
        sizes = [builder.scalar(SIZE.format(k), index) for k in range(rank)]
        counts = [(size + (n - 1)) // n for size, n in zip(sizes, workgroup, strict=True)]
        threads = _split(builder.position(Opcode.THREAD), [builder.constant(n, index) for n in workgroup])
        groups = _split(builder.position(Opcode.WORKGROUP), counts)
        places = [g * n + t for g, n, t in zip(groups, workgroup, threads, strict=True)]
        for place, size in zip(places, sizes, strict=True):
            within = place < size
            self.inside = within if self.inside is None else self.inside & within
        found = {"grid_size": sizes, "index": places, "thread_index": threads, "workgroup_index": groups}
        self._words = {word: [numbers.counted(x) for x in values] for word, values in found.items()}

    def numbers(self, word: str) -> Sequence[Number] | None:
        """What a word of the language gives, by axis; None where there are no workgroups."""
        return self._words.get(word)

    def effect(self, write: Callable[[], None]) -> None:
        """Writes what only lanes of the grid may do."""
        if self.inside is None:
            write()
        else:
            self.b.if_(self.inside, lambda: write(), lambda: None)

    def answered(self, ask: Callable[[], Value]) -> Value:
        """The same of what has a result, which other lanes have as 0."""
        if self.inside is None:
            return ask()
        then, orelse = self.b.region(), self.b.region()
        with self.b.inside(then):
            found = ask()
        with self.b.inside(orelse):
            other = self.b.constant(found.dtype.python(0), found.dtype)
        return self.b.branch(self.inside, then, orelse, ([found], [other]))[0]


def _split(number: Value, sizes: Sequence[Value]) -> list[Value]:
    """A number in row-major order as one along each axis."""
    places: list[Value] = []
    for size in reversed(sizes[1:]):
        places.append(number % size)
        number = number // size
    return [number, *reversed(places)]


def lanes(grid: Sequence[int], workgroup: tuple[int, ...] | None) -> tuple[int, ...]:
    """The grid of the program."""
    if workgroup is None or len(grid) == 1:
        return tuple(grid)
    counts = [-(-size // n) for size, n in zip(grid, workgroup, strict=True)]
    return (math.prod(counts) * math.prod(workgroup),)
