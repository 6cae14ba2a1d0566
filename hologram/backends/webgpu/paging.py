"""Launches larger than a binding may be: the grid is cut along its first axis longer than 1, and each page binds what
it touches.

compiler/lowering/paging.py has the program of a page.
"""

from __future__ import annotations

from collections.abc import Sequence

from hologram.atlas.opcodes import MEETINGS, Opcode
from hologram.atlas.program import Program
from hologram.compiler.analysis.accesses import Paths, paths, reached, references
from hologram.compiler.analysis.ranges import Lanes
from hologram.compiler.lowering.paging import Cut, contiguous
from hologram.foundation.dtypes import Number
from hologram.foundation.errors import ShapeError
from hologram.foundation.frozen import frozen
from hologram.machine.kernel import Binding
from hologram.machine.limits import ALIGNMENT


@frozen
class Page:
    """One dispatch of the paged program."""

    bindings: tuple[Binding, ...]
    scalars: tuple[Number, ...]
    grid: tuple[int, ...]


def pages(
    program: Program, bindings: Sequence[Binding], scalars: Sequence[Number], grid: Sequence[int], limit: int
) -> tuple[Cut, list[Page]]:
    """The dispatches of `paged(program, cut)` that together are one of `program`: `cut` and the pages.

    None binds more than `limit` bytes.

    Raises ShapeError where no cut along that axis achieves that.
    """
    if program.reduced >= program.rank or ({Opcode.WORKGROUP, Opcode.THREAD} | MEETINGS) & program.opcodes:
        raise _refusal(program, bindings, limit, "this kernel cannot be cut")
    lanes = grid[: program.rank - program.reduced]
    axis = next((k for k, extent in enumerate(lanes) if extent > 1), 0)
    rows = grid[axis]
    widest, known = tuple(bindings), paths(program)
    size = -(-rows // -(-max(b.nbytes for b in bindings) // limit))
    while size:
        # Pages of whole alignments let contiguous bindings start where they do.
        cut = Cut(axis, contiguous(program, axis) if size >= ALIGNMENT else frozenset())
        size = size // ALIGNMENT * ALIGNMENT if cut.kept else size
        starts = range(0, rows, size)
        parts = [_page(known, cut, bindings, scalars, grid, s, min(size, rows - s)) for s in starts]
        widest = max((page.bindings for page in parts), key=lambda bound: max(b.nbytes for b in bound))
        if all(b.nbytes <= limit for b in widest):
            return cut, parts
        size //= 2
    raise _refusal(program, widest, limit, "a launch cannot be cut any finer")


def _page(
    known: Paths,
    cut: Cut,
    bindings: Sequence[Binding],
    scalars: Sequence[Number],
    grid: Sequence[int],
    start: int,
    count: int,
) -> Page:
    program = known.program
    axes = [(0, extent - 1) for extent in grid]
    axes[cut.axis] = start, start + count - 1
    names = dict(zip((s.name for s in program.scalars), scalars, strict=True))
    reach = reached(references(known, Lanes(program, names, axes, grid)))
    bound, bases = [], []
    for parameter, binding in zip(program.buffers, bindings, strict=True):
        itemsize = parameter.dtype.itemsize
        low, high = 0, max(binding.nbytes // itemsize - 1, 0)
        if parameter.name in reach:
            low, high = (max(low, min(edge, high)) for edge in reach[parameter.name])
        first = low * itemsize // ALIGNMENT * ALIGNMENT
        last = min((high + 1) * itemsize, binding.nbytes)
        bound.append(Binding(binding.memory, binding.offset + first, last - first))
        if parameter.name not in cut.kept:
            bases.append(first // itemsize)
    size = (*grid[: cut.axis], count, *grid[cut.axis + 1 :])
    return Page(tuple(bound), (*scalars, start, grid[cut.axis], *bases), size)


def _refusal(program: Program, bindings: Sequence[Binding], limit: int, why: str) -> ShapeError:
    largest = max(range(len(bindings)), key=lambda k: bindings[k].nbytes)
    what = f"{program.name}: buffer {program.buffers[largest].name} takes {bindings[largest].nbytes} bytes"
    return ShapeError(
        f"{what}, this adapter binds at most {limit} at once, and {why}: run it on parts of the data"
    )
