"""In which order a launch's elements are visited, so that memory is read and written along its lines."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hologram.atlas.program import BufferParameter
from hologram.compiler.analysis.ranges import Reference

VECTOR_BYTES = 64  # of the widest vectors, to which streamed results are aligned, and of a line of memory
# Lines that a row goes across, and elements, from which on it goes by strips; what lies a page apart has one place in
# the first cache.
_ACROSS, _STRIPPED, _PAGE = 128, 1 << 15, 4096


def innermost(axes: Sequence[int], accesses: Sequence[Reference], grid: Sequence[int]) -> tuple[int, ...]:
    """The axes in an order whose last one reads and writes memory with the smallest strides."""
    if not axes:
        return ()
    best = min(axes, key=lambda axis: (_roughness(axis, accesses, grid), -axis))
    return (*(a for a in axes if a != best), best)


def _roughness(axis: int, accesses: Sequence[Reference], grid: Sequence[int]) -> float:
    """Accesses that a vector along this axis cannot make in one piece; short axes count as if one were more."""
    return sum(s.stride(axis) not in (0, 1) for s in accesses) + (
        8 / max(grid[axis], 1) if grid[axis] < 32 else 0
    )


def crosswise(
    order: Sequence[int], reduced: Sequence[int], accesses: Sequence[Reference], grid: Sequence[int]
) -> bool:
    """Whether a vector over outputs does better than one along the row."""
    if not order or grid[order[-1]] < 8:
        return False
    return _roughness(order[-1], accesses, grid) < _roughness(reduced[-1], accesses, grid)


def strips_of(
    order: Sequence[int],
    accesses: Sequence[Reference],
    grid: Sequence[int],
    buffers: Sequence[BufferParameter],
) -> int:
    """Elements of the innermost axis that fill a line of memory, where rows go across lines; 0 where they need not.

    A row that goes across many lines, or across lines that have one place in the cache, wants them again in the next
    row, when they have left it.
    """
    if len(order) < 2 or math.prod(grid) < _STRIPPED:
        return 0
    *_, before, last = order
    sizes = {p.name: p.dtype.itemsize for p in buffers}
    strips = [0]
    for s in accesses:
        step, size = s.stride(last), sizes.get(str(s.instruction.attribute))
        if size and step not in (None, 0, 1) and s.stride(before) == 1:
            strip = VECTOR_BYTES // size
            most = strip if step * size % _PAGE == 0 else _ACROSS
            strips.append(strip if grid[last] > most and grid[last] % strip == 0 else 0)
    return min(filter(None, strips), default=0)
