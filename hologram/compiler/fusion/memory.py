"""Where the scratch memory of a plan lies: areas whose lives do not touch share bytes of a few arenas.

An area lives from the first step that uses it to the last, both included, so that what a step writes never shares
bytes with what it reads. The largest are placed first, each in the smallest gap that the areas alive with it leave
(greedy by size: Pisarchyk and Lee, "Efficient memory management for deep neural net inference", 2020).

Where a device tracks whole buffers (Limits.tracks_whole_buffers), an area that a step only reads and one that it
writes lie in different arenas: a colouring of the graph of such pairs, breadth first, which needs two colours for a
chain and for everything else that is bipartite.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from hologram.atlas.program import Access
from hologram.foundation.frozen import frozen
from hologram.machine.limits import ALIGNMENT, Limits
from hologram.machine.plan import Plan, Scratch, Step


@frozen(slots=True)
class Place:
    """Where an area begins: an arena, and bytes from its start, a multiple of ALIGNMENT."""

    arena: int
    offset: int


@frozen
class Arenas:
    """The bytes of each arena, and the place of each of a plan's scratch areas."""

    sizes: tuple[int, ...]
    places: tuple[Place, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of all arenas."""
        return sum(self.sizes)


@frozen(slots=True)
class Life:
    """The first and the last step that use an area; none do if the last comes before the first."""

    first: int
    last: int


@dataclass
class _Arena:
    """An arena in the making: offsets, sizes and lives of the areas in it."""

    nbytes: int = 0
    areas: list[tuple[int, int]] = field(default_factory=list)
    # Of each area, in arrays: a plan may have thousands, and each asks which of all others live with it.
    firsts: array[int] = field(default_factory=lambda: array("q"))
    lasts: array[int] = field(default_factory=lambda: array("q"))

    def gap(self, nbytes: int, life: Life) -> int:
        """The offset of the smallest gap that is free for a life; the end of what is in its way if there is none."""
        end, best, room = 0, -1, self.nbytes + 1
        firsts, lasts = (np.frombuffer(numbers, np.int64) for numbers in (self.firsts, self.lasts))
        in_the_way = np.flatnonzero((firsts <= life.last) & (lasts >= life.first))
        for offset, size in sorted(self.areas[k] for k in in_the_way):
            if nbytes <= offset - end < room:
                best, room = end, offset - end
            end = max(end, offset + size)
        if best < 0 or nbytes <= self.nbytes - end < room:
            best = end
        return best

    def put(self, offset: int, nbytes: int, life: Life) -> None:
        self.areas.append((offset, nbytes))
        self.firsts.append(life.first)
        self.lasts.append(life.last)
        self.nbytes = max(self.nbytes, offset + nbytes)


def arrange(plan: Plan, first: int, limits: Limits) -> Arenas:
    """Places for a plan's scratch areas; `first` is the position of the first of them among the steps' operands.

    No arena is larger than the device's largest buffer, unless an area alone is.
    """
    lives = _lives(plan, first)
    sizes = [_aligned(scratch) for scratch in plan.scratch]
    colours = _colours(_apart(plan, first)) if limits.tracks_whole_buffers else {}
    arenas: list[_Arena] = []
    of_colour: dict[int, list[int]] = {}
    places = [Place(0, 0)] * len(sizes)
    for k in sorted(range(len(sizes)), key=lambda k: (-sizes[k], lives[k].first)):
        if lives[k].last < lives[k].first:
            continue  # no step binds it
        mine = of_colour.setdefault(colours.get(k, 0), [])
        for number in mine:
            offset = arenas[number].gap(sizes[k], lives[k])
            if offset + sizes[k] <= max(limits.max_buffer_bytes, arenas[number].nbytes):
                break
        else:
            number, offset = len(arenas), 0
            arenas.append(_Arena())
            mine.append(number)
        arenas[number].put(offset, sizes[k], lives[k])
        places[k] = Place(number, offset)
    return Arenas(tuple(arena.nbytes for arena in arenas), tuple(places))


def _aligned(scratch: Scratch) -> int:
    """Bytes of an area in whole alignments, at least one."""
    return max(1, -(-scratch.size * scratch.dtype.itemsize // ALIGNMENT)) * ALIGNMENT


def _lives(plan: Plan, first: int) -> list[Life]:
    begin, end = [len(plan.steps)] * len(plan.scratch), [-1] * len(plan.scratch)
    for number, step in enumerate(plan.steps):
        for position in step.operands:
            if position >= first:
                begin[position - first] = min(begin[position - first], number)
                end[position - first] = number
    return [Life(*life) for life in zip(begin, end, strict=True)]


def _apart(plan: Plan, first: int) -> dict[int, set[int]]:
    """For each area those that may not lie in one buffer with it: a step only reads one and writes the other."""
    apart: dict[int, set[int]] = {}
    for step in plan.steps:
        read, written = _uses(step, first)
        for a in read - written:
            for b in written:
                apart.setdefault(a, set()).add(b)
                apart.setdefault(b, set()).add(a)
    return apart


def _uses(step: Step, first: int) -> tuple[set[int], set[int]]:
    """The areas that a step reads, and those it writes. Hand-written kernels may do either to all they bind."""
    if step.kernel.stem:
        return set(), {k - first for k in step.operands if k >= first}
    read, written = set(), set()
    for parameter, k in zip(step.kernel.buffers, step.operands, strict=True):
        if k >= first:
            (read if parameter.access is Access.READ else written).add(k - first)
    return read, written


def _colours(apart: Mapping[int, set[int]]) -> dict[int, int]:
    """A small number for each area, another than any it must lie apart from."""
    colours: dict[int, int] = {}
    for area in _breadth_first(apart):
        taken = {colours[other] for other in apart[area] if other in colours}
        colours[area] = next(c for c in range(len(taken) + 1) if c not in taken)
    return colours


def _breadth_first(graph: Mapping[int, set[int]]) -> Iterator[int]:
    seen: set[int] = set()
    for start in graph:
        waiting = deque([start])
        while waiting:
            node = waiting.popleft()
            if node not in seen:
                seen.add(node)
                yield node
                waiting.extend(sorted(graph[node] - seen))
