"""Launches larger than a binding may be: the grid is cut along its first axis longer than 1, and each page binds what
it touches.

The program of a page adds the page's start to its coordinate along that axis and takes each binding's first element
off the positions; both arrive as scalars, so one compiled kernel serves every page. Where a position is the lane's own
coordinate, the two cancel and nothing is added: contiguous element-wise programs page at full speed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hologram.atlas.builder import Builder, Value
from hologram.atlas.opcodes import BUFFER_ACCESSES, Opcode
from hologram.atlas.program import Instruction, Program, ScalarParameter
from hologram.atlas.rewrite import rewrite
from hologram.compiler.analysis.ranges import Lanes, Paths, paths, reached, references
from hologram.foundation.dtypes import Number, index
from hologram.foundation.errors import ShapeError
from hologram.foundation.frozen import frozen
from hologram.machine.kernel import Binding
from hologram.machine.limits import ALIGNMENT

START, EXTENT = "page_start", "page_extent"


@frozen
class Page:
    """One dispatch of the paged program."""

    bindings: tuple[Binding, ...]
    scalars: tuple[Number, ...]
    grid: tuple[int, ...]


@frozen
class Cut:
    """How a program is paged: along an axis, ahead of which all extents are 1.

    `kept` names contiguous buffers whose binding starts at the page's own start; every other has a base.
    """

    axis: int
    kept: frozenset[str]


def contiguous(program: Program, axis: int) -> frozenset[str]:
    """The buffers that are only accessed at the coordinate along the axis, or at the lane where that is the same."""
    own: set[int] = set()
    alone = program.rank - program.reduced == axis + 1
    found: dict[str, bool] = {}
    for i in program.body.walk():
        if (i.opcode is Opcode.COORDINATE and i.attribute == axis) or (i.opcode is Opcode.LANE and alone):
            own.add(i.result)
        if i.opcode in BUFFER_ACCESSES:
            name = str(i.attribute)
            found[name] = found.get(name, True) and i.operands[0] in own
    return frozenset(name for name, yes in found.items() if yes)


def paged(program: Program, cut: Cut) -> Program:
    """The program of a page; it takes the start, the whole extent of the axis, and bases as well."""
    defined = {r: i.opcode for i in program.body.walk() for r in i.results}

    def local(b: Builder, opcode: Opcode) -> Value:
        return b.position(opcode) if opcode is Opcode.LANE else b.coordinate(cut.axis)

    def rule(b: Builder, i: Instruction, operands: list[Any]) -> Value | tuple[()] | None:
        if i.opcode is Opcode.EXTENT and i.attribute == cut.axis:
            return b.scalar(EXTENT, index)
        if i.opcode is Opcode.COORDINATE and i.attribute == cut.axis:
            return local(b, i.opcode) + b.scalar(START, index)
        if i.opcode is Opcode.LANE:
            skipped = b.scalar(START, index)
            for axis in range(cut.axis + 1, program.rank - program.reduced):
                skipped = skipped * b.extent(axis)
            return local(b, i.opcode) + skipped
        if i.opcode not in BUFFER_ACCESSES:
            return None
        buffer = program.buffer(str(i.attribute))
        if buffer.name in cut.kept:
            position = local(b, defined[i.operands[0]])
        else:
            position = operands[0] - b.scalar(f"{buffer.name}_base", index)
        if i.opcode is Opcode.LOAD:
            return b.load(buffer, position)
        if i.opcode is Opcode.STORE:
            b.store(buffer, position, operands[1])
            return ()
        return b.atomic(i.opcode, buffer, position, operands[1])

    names = [START, EXTENT, *(f"{b.name}_base" for b in program.buffers if b.name not in cut.kept)]
    scalars = program.scalars + tuple(ScalarParameter(name, index) for name in names)
    return replace(rewrite(program, rule), scalars=scalars)


def pages(
    program: Program,
    bindings: Sequence[Binding],
    scalars: Sequence[Number],
    grid: Sequence[int],
    limit: int,
) -> tuple[Cut, list[Page]]:
    """The dispatches of `paged(program, cut)` that together are one of `program`: `cut` and the pages.

    None binds more than `limit` bytes.

    Raises ShapeError where no cut along that axis achieves that.
    """
    if program.reduced >= program.rank or {Opcode.WORKGROUP, Opcode.THREAD, Opcode.BARRIER} & program.opcodes:
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
        found = [_page(known, cut, bindings, scalars, grid, s, min(size, rows - s)) for s in starts]
        widest = max((page.bindings for page in found), key=lambda bound: max(b.nbytes for b in bound))
        if all(b.nbytes <= limit for b in widest):
            return cut, found
        size //= 2
    raise _refusal(program, widest, limit, "a launch cannot be cut any finer")


def _page(
    found: Paths,
    cut: Cut,
    bindings: Sequence[Binding],
    scalars: Sequence[Number],
    grid: Sequence[int],
    start: int,
    count: int,
) -> Page:
    program = found.program
    axes = [(0, extent - 1) for extent in grid]
    axes[cut.axis] = start, start + count - 1
    names = dict(zip((s.name for s in program.scalars), scalars, strict=True))
    reach = reached(references(found, Lanes(program, names, axes, grid)))
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
