"""Launches larger than a binding may be: the grid is cut along its first axis, and each page binds what it touches.

The program of a page adds the page's start to its first coordinate and takes each binding's first element off the
positions; both arrive as scalars, so one compiled kernel serves every page. Where a position is the lane's own
coordinate, the two cancel and nothing is added: contiguous element-wise programs page at full speed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hologram import dtypes
from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Block, Instruction, Program, ScalarParameter
from hologram.backends.webgpu.aliasing import ADDRESSING
from hologram.backends.webgpu.intervals import Number, Reach
from hologram.backends.webgpu.memory import ALIGNMENT
from hologram.device import Binding
from hologram.errors import ShapeError

START, EXTENT = "page_start", "page_extent"


@dataclass(frozen=True)
class Page:
    """One dispatch of the paged program."""

    bindings: tuple[Binding, ...]
    scalars: tuple[Number, ...]
    grid: tuple[int, ...]


def contiguous(program: Program) -> frozenset[str]:
    """The buffers that are only accessed at the coordinate along axis 0."""
    own: set[int] = set()
    alone = program.rank - program.reduced == 1
    found: dict[str, bool] = {}
    for i in program.body.walk():
        if (i.opcode is Opcode.COORDINATE and i.attribute == 0) or (i.opcode is Opcode.LANE and alone):
            own.add(i.result)
        if i.opcode in ADDRESSING:
            name = str(i.attribute)
            found[name] = found.get(name, True) and i.operands[0] in own
    return frozenset(name for name, yes in found.items() if yes)


def paged(program: Program, kept: frozenset[str]) -> Program:
    """The program of a page; it takes the start, the whole extent of axis 0, and bases as well.

    `kept` names contiguous buffers whose binding starts at the page's own start; every other has a base.
    """
    scalars = [ScalarParameter(START, dtypes.index), ScalarParameter(EXTENT, dtypes.index)]
    scalars += [
        ScalarParameter(f"{b.name}_base", dtypes.index) for b in program.buffers if b.name not in kept
    ]
    body = _Pager(program, kept, scalars).body()
    return replace(program, scalars=program.scalars + tuple(scalars), body=body)


class _Pager:
    """Rewrites the body: `self.shifted` maps the local first coordinate and lane to those in the whole grid."""

    def __init__(self, program: Program, kept: frozenset[str], scalars: Sequence[ScalarParameter]) -> None:
        self.program = program
        self.kept = kept
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
        if i.opcode is Opcode.EXTENT and i.attribute == 0:
            self.global_[i.result] = self.scalar[EXTENT]
            return
        local = i.operands[0] if i.opcode in ADDRESSING else None
        operands = tuple(self.global_.get(o, o) for o in i.operands)
        if local is not None and str(i.attribute) in self.kept:
            operands = (local, *operands[1:])
        elif local is not None:
            base = self.scalar[f"{i.attribute}_base"]
            operands = (self._emit(out, Opcode.SUB, (operands[0], base)), *operands[1:])
        out.append(replace(i, operands=operands, blocks=tuple(self._block(b) for b in i.blocks)))
        if i.opcode is Opcode.COORDINATE and i.attribute == 0:
            self.global_[i.result] = self._emit(out, Opcode.ADD, (i.result, self.scalar[START]))
        elif i.opcode is Opcode.LANE:
            skipped = self.scalar[START]
            for axis in range(1, self.program.rank - self.program.reduced):
                extent = self._emit(out, Opcode.EXTENT, (), axis)
                skipped = self._emit(out, Opcode.MUL, (skipped, extent))
            self.global_[i.result] = self._emit(out, Opcode.ADD, (i.result, skipped))


def pages(
    program: Program,
    bindings: Sequence[Binding],
    scalars: Sequence[Number],
    grid: Sequence[int],
    limit: int,
) -> tuple[frozenset[str], list[Page]]:
    """The dispatches of `paged(program, kept)` that together are one of `program`: `kept` and the pages.

    None binds more than `limit` bytes.

    Raises ShapeError where no cut along the first axis achieves that.
    """
    if program.reduced >= program.rank or {Opcode.WORKGROUP, Opcode.THREAD, Opcode.BARRIER} & program.opcodes:
        raise _refusal(program, bindings, limit, "this kernel cannot be cut along its first axis")
    rows = grid[0]
    widest = tuple(bindings)
    size = -(-rows // -(-max(b.nbytes for b in bindings) // limit))
    while size:
        # Pages of whole alignments let contiguous bindings start where they do.
        kept = contiguous(program) if size >= ALIGNMENT else frozenset[str]()
        size = size // ALIGNMENT * ALIGNMENT if kept else size
        starts = range(0, rows, size)
        cut = [_page(program, kept, bindings, scalars, grid, s, min(size, rows - s)) for s in starts]
        widest = max((page.bindings for page in cut), key=lambda bound: max(b.nbytes for b in bound))
        if all(b.nbytes <= limit for b in widest):
            return kept, cut
        size //= 2
    raise _refusal(program, widest, limit, "a launch cannot be cut any finer")


def _page(
    program: Program,
    kept: frozenset[str],
    bindings: Sequence[Binding],
    scalars: Sequence[Number],
    grid: Sequence[int],
    start: int,
    count: int,
) -> Page:
    axes = [(start, start + count - 1), *((0, extent - 1) for extent in grid[1:])]
    names = dict(zip((s.name for s in program.scalars), scalars, strict=True))
    reach = Reach(program, axes, grid, names).of()
    bound, bases = [], []
    for parameter, binding in zip(program.buffers, bindings, strict=True):
        itemsize = parameter.dtype.itemsize
        low, high = 0, max(binding.nbytes // itemsize - 1, 0)
        if parameter.name in reach:
            low, high = (max(low, min(edge, high)) for edge in reach[parameter.name])
        first = low * itemsize // ALIGNMENT * ALIGNMENT
        last = min((high + 1) * itemsize, binding.nbytes)
        bound.append(Binding(binding.memory, binding.offset + first, last - first))
        if parameter.name not in kept:
            bases.append(first // itemsize)
    return Page(tuple(bound), (*scalars, start, grid[0], *bases), (count, *grid[1:]))


def _refusal(program: Program, bindings: Sequence[Binding], limit: int, why: str) -> ShapeError:
    largest = max(range(len(bindings)), key=lambda k: bindings[k].nbytes)
    what = f"{program.name}: buffer {program.buffers[largest].name} takes {bindings[largest].nbytes} bytes"
    return ShapeError(
        f"{what}, this adapter binds at most {limit} at once, and {why}: run it on parts of the data"
    )
