"""The argument block of a launch, 8-byte slots that compiled code reads at its start."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Program
from hologram.backends.cpu.llvm.division import inverts, prepare
from hologram.backends.cpu.llvm.lane import Frame
from hologram.backends.cpu.llvm.writer import Writer, memory_type, register_type
from hologram.compiler.scheduling.loops import Variant
from hologram.foundation.dtypes import DType
from hologram.foundation.frozen import frozen


@frozen
class Slots:
    """Which slot holds what: addresses, scalars, extents, then the numbers of the schedule."""

    program: Program

    @cached_property
    def scalars(self) -> int:
        return len(self.program.buffers)

    @cached_property
    def extents(self) -> int:
        return self.scalars + len(self.program.scalars)

    @cached_property
    def tile(self) -> int:
        """Form "columns": outputs per tile. Form "split": chunks per row."""
        return self.extents + self.program.rank

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
    memory = {b.name: load_slot(w, k, "ptr") for k, b in enumerate(program.buffers)}
    extents = dict(enumerate(map(str, variant.grid)))
    if not extents:
        extents = {k: load_slot(w, slots.extents + k, "i64") for k in range(program.rank)}
    arrays = (*program.shared, *program.local)
    memory |= {a.name: w.alloca(memory_type(a.dtype), a.size) for a in arrays}
    alone = frozenset(a.name for a in arrays)
    return Frame(program, w, memory, scalars, extents, alone, variant.brief)
