"""In which order a launch's elements are visited, so that memory is read and written along its lines."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hologram.atlas.program import BufferParameter
from hologram.compiler.analysis.accesses import Reference

VECTOR_BYTES = 64  # of the widest vectors, to which streamed results are aligned, and of a line of memory
_STRIPPED = 1 << 15  # elements, from which on rows go by strips
_SETS, _WAYS = 64, 12  # of lines in the first cache: those a page apart are all of one set
# What costs more an element begins a run later: it goes by strips from four times as many elements on.
_LIGHT_NS = 0.2


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
    element_ns: float,
) -> int:
    """Elements of the innermost axis that fill a line of memory, where rows go across lines; 0 where they need not.

    A row that goes across more lines than there is room for in the cache, where they lie, wants them again in the next
    row, when they have left it. Rows that are too few to share a whole line gain nothing.
    """
    least = _STRIPPED if element_ns < _LIGHT_NS else 4 * _STRIPPED
    if len(order) < 2 or math.prod(grid) < least:
        return 0
    *_, before, last = order
    sizes = {p.name: p.dtype.itemsize for p in buffers}
    strips = [0]
    for s in accesses:
        step, size = s.stride(last), sizes.get(str(s.instruction.attribute))
        if not size or step in (None, 0, 1) or s.stride(before) != 1:
            continue
        if grid[before] * size >= VECTOR_BYTES:  # or too few rows share a line
            strip, apart = VECTOR_BYTES // size, abs(step) * size
            sets = _SETS // math.gcd(_SETS, apart // VECTOR_BYTES) if apart % VECTOR_BYTES == 0 else _SETS
            most = max(strip, _WAYS * sets)
            strips.append(strip if grid[last] > most and grid[last] % strip == 0 else 0)
    return min(filter(None, strips), default=0)
