"""The argument block of a launch, 8-byte slots that compiled code reads at its start, and the variant it is for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property

from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Program
from hologram.backends.cpu.llvm.division import inverts, prepare
from hologram.backends.cpu.llvm.lane import Frame
from hologram.backends.cpu.llvm.writer import Writer, memory_type, register_type
from hologram.compiler.analysis.ranges import Place
from hologram.foundation.dtypes import DType
from hologram.foundation.frozen import frozen

COLUMN_TILE = 1024  # outputs that are accumulated side by side


@frozen
class Variant:
    """How a program is compiled: what a launch knows and the code depends on."""

    form: str  # "map", "stream", "row", "columns", "split" or "workgroup"
    order: tuple[int, ...]  # axes that are not reduced, the innermost loop last
    reduced: tuple[int, ...]  # reduced axes likewise
    constants: tuple[tuple[str, int], ...] = ()  # index scalars that are 0 or 1: strides, mostly
    unproven: frozenset[Place] = frozenset()  # accesses that need a bounds check
    split: int = -1  # form "split": the reduced axis that is cut into chunks
    keep: bool = False  # costly values of a row are kept from one sweep to the next
    early: bool = False  # elements of rows are stored in the sweep that has them

    @property
    def text(self) -> str:
        """The same for equal variants, in every process."""
        return json.dumps({**vars(self), "unproven": sorted(self.unproven)})


@frozen
class Slots:
    """Which slot holds what: addresses, scalars, extents, lengths, then the numbers of the schedule."""

    program: Program

    @cached_property
    def scalars(self) -> int:
        return len(self.program.buffers)

    @cached_property
    def extents(self) -> int:
        return self.scalars + len(self.program.scalars)

    @cached_property
    def lengths(self) -> int:
        return self.extents + self.program.rank

    @cached_property
    def tile(self) -> int:
        """Form "columns": outputs per tile. Form "split": chunks per row."""
        return self.lengths + len(self.program.buffers)

    @property
    def scratch(self) -> int:
        """Form "split": address of the partial results."""
        return self.tile + 1

    @property
    def count(self) -> int:
        return self.tile + 2


def load_slot(w: Writer, slot: int, type_: str) -> str:
    address = w(f"getelementptr inbounds i64, ptr %arguments, i64 {slot}")
    if type_ == "i1":
        return w(f"icmp ne i8 {w(f'load i8, ptr {address}, align 8')}, 0")
    return w(f"load {type_}, ptr {address}, align 8")


def _divisors(program: Program) -> dict[str, DType]:
    """The scalars that are divisors of integers of 64 bits."""
    scalars = {i.result: str(i.attribute) for i in program.body.walk() if i.opcode is Opcode.SCALAR}
    divisions = [i for i in program.body.walk() if i.opcode in (Opcode.DIV, Opcode.REM) and inverts(i.type)]
    return {scalars[y]: i.type for i in divisions if (y := i.operands[1]) in scalars}


def open_frame(w: Writer, program: Program, variant: Variant) -> Frame:
    """Reads the argument block."""
    slots = Slots(program)
    fixed: Mapping[str, int] = dict(variant.constants)
    scalars = {
        s.name: str(fixed[s.name])
        if s.name in fixed
        else load_slot(w, slots.scalars + k, register_type(s.dtype))
        for k, s in enumerate(program.scalars)
    }
    prepare(w, [(d, scalars[name]) for name, d in _divisors(program).items()])
    buffers = {b.name: load_slot(w, k, "ptr") for k, b in enumerate(program.buffers)}
    lengths = {b.name: load_slot(w, slots.lengths + k, "i64") for k, b in enumerate(program.buffers)}
    extents = {k: load_slot(w, slots.extents + k, "i64") for k in range(program.rank)}
    shared = {a.name: w.alloca(memory_type(a.dtype), a.size + 1) for a in program.shared}
    return Frame(program, w, buffers, lengths, scalars, extents, variant.unproven, shared)
