"""Atlas programs as source text of a C-like language: declarations, entry point, and how to launch it."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace

from hologram.atlas import arithmetic
from hologram.atlas.opcodes import ATOMICS, REDUCTIONS, Opcode
from hologram.atlas.program import Access, BufferParameter, Program, ScalarParameter
from hologram.atlas.ssa import named
from hologram.compiler.analysis.phases import rows
from hologram.compiler.dialect import (
    BufferDeclaration,
    Declarations,
    Dialect,
    Number,
    SharedDeclaration,
    words,
)
from hologram.compiler.scheduling.schedule import (
    Schedule,
    Sweep,
    choose,
    fold,
    vector_buffers,
)
from hologram.compiler.source import entry_map, entry_row
from hologram.compiler.source.emit import Emitter, hidden, identifier
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.foundation.errors import ProgramError, ShapeError
from hologram.foundation.frozen import frozen
from hologram.machine.limits import Limits


@frozen
class Source:
    """A generated kernel: its text and everything a launch needs.

    Buffers are bound in order, with the access the text declares. A binding's size is rounded up to a multiple of
    `binding_multiple` bytes, so memory must be allocated in such multiples; what lies past a buffer's elements in
    the last vector is neither interpreted nor overwritten. `parameters` are the launch words in order: the extents,
    then the program's scalars.
    """

    text: str
    entry: str
    workgroup: tuple[int, int, int]
    buffers: tuple[BufferParameter, ...]
    parameters: tuple[ScalarParameter, ...]
    schedule: Schedule
    reduced: int
    sweeps: int  # passes over a row
    index_bits: int = 32
    binding_multiple: int = 16
    measured: tuple[int, ...] = ()  # the last parameters: the lengths of these buffers, in elements

    @property
    def writable(self) -> tuple[bool, ...]:
        """How each buffer is declared."""
        return tuple(b.access is not Access.READ for b in self.buffers)

    @property
    def parameter_bytes(self) -> int:
        return 4 * sum(words(p.dtype, self.index_bits) for p in self.parameters)

    def pack(self, scalars: Sequence[Number], grid: Sequence[int], lengths: Sequence[int] = ()) -> bytes:
        """The launch words, little-endian, 64-bit ones as low and high word without padding.

        `lengths` are those of all buffers, where the text asks for some. Raises ShapeError for axes, or rows, that an
        index cannot count.
        """
        values = [*grid, *scalars, *(lengths[k] for k in self.measured)]
        if len(values) != len(self.parameters):
            what = ", ".join(p.name for p in self.parameters)
            raise ProgramError(
                f"{self.entry} takes {what}: {len(self.parameters)} numbers, got {len(values)}"
            )
        row = math.prod(grid[len(grid) - self.reduced :])
        places = [
            abs(int(v)) for p, v in zip(self.parameters, values, strict=True) if p.dtype == dtypes.index
        ]
        if max(row, *places, 0) >> self.index_bits:
            what = f"this device counts the elements of an axis, row or buffer in {self.index_bits} bits"
            raise ShapeError(f"{self.entry}: {what}, got {max(row, *places, 0)}: split it")
        pairs = zip(self.parameters, values, strict=True)
        return b"".join(_word(p.dtype, v, self.index_bits) for p, v in pairs)

    def groups(self, grid: Sequence[int], limits: Limits) -> tuple[int, int, int]:
        """Workgroups along x, y and z; ShapeError where one launch cannot take the grid."""
        if limits.loop_turns and self.reduced:
            turns = self.schedule.turns(grid, self.reduced, self.sweeps)
            if turns > limits.loop_turns:
                what = f"a software adapter's thread may take {limits.loop_turns} loop turns"
                raise ShapeError(f"{self.entry}: {what}, a row of {tuple(grid)} takes {turns}: split it")
        return fold(self.schedule.groups(grid, self.reduced, self.index_bits), limits)


def _word(dtype: DType, value: Number, index_bits: int) -> bytes:
    if dtype == dtypes.f64:
        return struct.pack("<d", value)
    if dtype.is_float:
        return struct.pack("<f", arithmetic.number(float(value), dtype))
    bits = index_bits if dtype == dtypes.index else max(dtype.bits, 32)
    # Index arithmetic is modular, so that negative strides work.
    return (int(value) & (2**bits - 1)).to_bytes(bits // 8, "little")


def generate(
    program: Program,
    dialect: Dialect,
    limits: Limits,
    *,
    schedule: Schedule | None = None,
    grid: Sequence[int] | None = None,
    watched: bool = False,
) -> Source:
    """The source of a program whose instructions the dialect spells (see lower.py).

    It serves every grid; a `grid` given (or the `schedule` that `choose` gives for it) makes it fit that size best.
    `watched`: one more buffer follows the program's, two u32, the second of which is 2; the first is set where the
    driver ended the loops of a thread, see Limits.loop_turns. Raises UnsupportedDType where the language or the adapter
    lacks a type or an operation on it.
    """
    if watched:
        program = replace(program, buffers=(*program.buffers, _unfinished(program)))
    schedule = schedule or choose(program, dialect, limits, grid)
    declarations = _declarations(program, dialect, schedule)
    emitter = Emitter(program, dialect, declarations)
    if schedule.sweep is Sweep.ELEMENT:
        entry_map.write(emitter, schedule)
    else:
        entry_row.write(emitter, schedule)
    if watched:
        _watch(emitter)
    lines = [
        _headline(program, dialect, schedule),
        *dialect.head(_used(program)),
        *dialect.declare(declarations),
        "",
        *emitter.helper_text(),
    ]
    return Source(
        text="\n".join([*lines, *emitter.lines, ""]),
        entry=identifier(program.name, dialect),
        workgroup=declarations.workgroup,
        buffers=tuple(
            BufferParameter(b.name, dtypes.u32 if b.dtype in dialect.packed else b.dtype, d.access)
            for b, d in zip(program.buffers, declarations.buffers, strict=True)
        ),
        parameters=(*_extents(program), *program.scalars),
        schedule=schedule,
        reduced=program.reduced,
        sweeps=len(rows(program).phases),
        index_bits=dialect.index_bits,
    )


def _declarations(program: Program, dialect: Dialect, schedule: Schedule) -> Declarations:
    vectors = vector_buffers(program, dialect, schedule)
    touched, stored = named(program, ATOMICS), named(program, {Opcode.STORE})
    buffers = []
    for b in program.buffers:
        vector = b.name in vectors
        atomic = b.name in touched or (b.dtype in dialect.packed and not vector and b.name in stored)
        access = Access.READ_WRITE if dialect.read_write or atomic else b.access
        buffers.append(BufferDeclaration(identifier(b.name, dialect), b.dtype, access, vector, atomic))
    parameters = tuple(_extents(program))
    parameters += tuple(ScalarParameter(identifier(s.name, dialect), s.dtype) for s in program.scalars)
    shared = [
        SharedDeclaration(identifier(s.name, dialect), s.dtype, s.size, s.name in touched)
        for s in program.shared
    ]
    if schedule.threads > 1:
        folded = dict.fromkeys(i.type for i in program.body.walk() if i.opcode in REDUCTIONS)
        places = {
            d: schedule.workgroup // (schedule.subgroup if d in dialect.exchange else 1) for d in folded
        }
        alone = {d for d in folded if d in dialect.exchange and schedule.subgroup == schedule.threads}
        shared += [SharedDeclaration(f"partial_{d}", d, n) for d, n in places.items() if d not in alone]
    return Declarations(
        entry=identifier(program.name, dialect),
        workgroup=(schedule.workgroup, 1, 1),
        buffers=tuple(buffers),
        parameters=parameters,
        shared=tuple(shared),
        hides=any(program.types[v] in dialect.hidden for v in hidden(program, dialect)),
    )


def _unfinished(program: Program) -> BufferParameter:
    taken = {p.name for p in (*program.buffers, *program.scalars, *program.shared, *program.local)}
    name = "unfinished"
    while name in taken:
        name += "_again"
    return BufferParameter(name, dtypes.u32, Access.READ_WRITE)


def _watch(emitter: Emitter) -> None:
    """Ends the entry point with a loop of two turns, which takes one where the driver lets loops take no more."""
    assert emitter.lines[-1] == "}"
    emitter.lines.pop()
    emitter.depth, name = 1, emitter.declarations.buffers[-1].name
    one, count = emitter.literal(1, dtypes.u32), f"{name}_turns"
    emitter.var(count, dtypes.u32, emitter.literal(0, dtypes.u32))
    with emitter.loop(f"{name}_turn", dtypes.u32, emitter.literal(0, dtypes.u32), f"{name}[1]", one):
        emitter.line(f"{count} += {one};")
    with emitter.scope(f"if ({count} < {name}[1]) {{"):
        emitter.line(f"{name}[0] = {one};")
    emitter.depth = 0
    emitter.line("}")


def _used(program: Program) -> frozenset[DType]:
    declared = (*program.buffers, *program.scalars, *program.shared, *program.local)
    return frozenset(program.types.values()) | {p.dtype for p in declared}


def _extents(program: Program) -> Iterator[ScalarParameter]:
    return (ScalarParameter(f"extent_{k}", dtypes.index) for k in range(program.rank))


def _headline(program: Program, dialect: Dialect, schedule: Schedule) -> str:
    read = ", ".join(b.name for b in program.buffers if b.access is not Access.WRITE)
    written = ", ".join(b.name for b in program.buffers if b.access is not Access.READ)
    axes = f"{program.rank} axes" if program.rank != 1 else "1 axis"
    over = f"over {axes}" + (f", the last {program.reduced} reduced" if program.reduced else "")
    work = f"{schedule.workgroup} threads a workgroup"
    if schedule.sweep is Sweep.ROW:
        work += f", {schedule.threads} a row"
    elif schedule.elements > 1:
        work += f", {schedule.elements} elements a thread"
    return f"{dialect.comment}{program.name}: {read or 'nothing'} -> {written}, {over}; {work}."
