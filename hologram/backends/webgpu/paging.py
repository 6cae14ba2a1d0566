"""Launches larger than a binding may be: the grid is cut along its first axis longer than 1, and each page binds what
it touches.

The program of a page adds the page's start to its coordinate along that axis and takes each binding's first element
off the positions; both arrive as scalars, so one compiled kernel serves every page. Where a position is the lane's own
coordinate, the two cancel and nothing is added: contiguous element-wise programs page at full speed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hologram import dtypes
from hologram.atlas.opcodes import BUFFER_ACCESSES, Opcode
from hologram.atlas.program import Block, Instruction, Program, ScalarParameter
from hologram.compiler.analysis.ranges import Lanes, Number, Paths, paths, reached, references
from hologram.device import Binding
from hologram.errors import ShapeError
from hologram.limits import ALIGNMENT

START, EXTENT = "page_start", "page_extent"


@dataclass(frozen=True)
class Page:
    """One dispatch of the paged program."""

    bindings: tuple[Binding, ...]
    scalars: tuple[Number, ...]
    grid: tuple[int, ...]


@dataclass(frozen=True)
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
    scalars = [ScalarParameter(START, dtypes.index), ScalarParameter(EXTENT, dtypes.index)]
    scalars += [
        ScalarParameter(f"{b.name}_base", dtypes.index) for b in program.buffers if b.name not in cut.kept
    ]
    body = _Pager(program, cut, scalars).body()
    return replace(program, scalars=program.scalars + tuple(scalars), body=body)


class _Pager:
    """Rewrites the body: `self.global_` maps the local first coordinate and lane to those in the whole grid."""

    def __init__(self, program: Program, cut: Cut, scalars: Sequence[ScalarParameter]) -> None:
        self.program = program
        self.axis, self.kept = cut.axis, cut.kept
        self.next = max(program.types, default=-1) + 1
        self.preamble: list[Instruction] = []
        self.scalar = {s.name: self._emit(self.preamble, Opcode.SCALAR, (), s.name) for s in scalars}
        self.global_: dict[int, int] = {}  # a value in the page -> its value in the whole grid

    def body(self) -> Block:
        body = self._block(self.program.body)
        return replace(body, instructions=tuple(self.preamble) + body.instructions)

    def _emit(
        self,
        into: list[Instruction],
        opcode: Opcode,
        operands: tuple[int, ...],
        attribute: str | int | None = None,
    ) -> int:
        self.next += 1
        into.append(Instruction(opcode, (self.next,), (dtypes.index,), operands, attribute))
        return self.next

    def _block(self, block: Block) -> Block:
        out: list[Instruction] = []
        for i in block.instructions:
            self._rewrite(i, out)
        return replace(
            block, instructions=tuple(out), yields=tuple(self.global_.get(y, y) for y in block.yields)
        )

    def _rewrite(self, i: Instruction, out: list[Instruction]) -> None:
        if i.opcode is Opcode.EXTENT and i.attribute == self.axis:
            self.global_[i.result] = self.scalar[EXTENT]
            return
        local = i.operands[0] if i.opcode in BUFFER_ACCESSES else None
        operands = tuple(self.global_.get(o, o) for o in i.operands)
        if local is not None and str(i.attribute) in self.kept:
            operands = (local, *operands[1:])
        elif local is not None:
            base = self.scalar[f"{i.attribute}_base"]
            operands = (self._emit(out, Opcode.SUB, (operands[0], base)), *operands[1:])
        out.append(replace(i, operands=operands, blocks=tuple(self._block(b) for b in i.blocks)))
        if i.opcode is Opcode.COORDINATE and i.attribute == self.axis:
            self.global_[i.result] = self._emit(out, Opcode.ADD, (i.result, self.scalar[START]))
        elif i.opcode is Opcode.LANE:
            skipped = self.scalar[START]
            for axis in range(self.axis + 1, self.program.rank - self.program.reduced):
                extent = self._emit(out, Opcode.EXTENT, (), axis)
                skipped = self._emit(out, Opcode.MUL, (skipped, extent))
            self.global_[i.result] = self._emit(out, Opcode.ADD, (i.result, skipped))


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
