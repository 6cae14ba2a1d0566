"""How a row reduction accumulates: in which types, from which start, by which instructions."""

from __future__ import annotations

from hologram.atlas.arithmetic import identity
from hologram.atlas.opcodes import FOLDS
from hologram.atlas.program import Instruction
from hologram.backends.cpu.llvm.instructions import convert
from hologram.backends.cpu.llvm.writer import Writer, literal, register_type
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.foundation.frozen import frozen


@frozen
class Fold:
    """One reduction. A `part` accumulates within a block in the row's precision, a `total` over blocks.

    `ordered`: values are folded as written, where no vector runs along the row.
    """

    instruction: Instruction
    ordered: bool = False

    @property
    def dtype(self) -> DType:
        return self.instruction.type

    @property
    def operation(self) -> str:
        return FOLDS[self.instruction.opcode].value

    @property
    def rounds(self) -> bool:
        """Whether folding rounds, so that precision matters."""
        return self.dtype.is_float and self.operation in ("add", "mul")

    @property
    def part_type(self) -> str:
        return "i8" if self.dtype.kind == "bool" else register_type(self.dtype)

    @property
    def total_type(self) -> str:
        return "double" if self.rounds else self.part_type

    @property
    def identity(self) -> str:
        return self._identity(self.dtype)

    @property
    def total_identity(self) -> str:
        return self._identity(dtypes.f64 if self.rounds else self.dtype)

    def _identity(self, d: DType) -> str:
        number = identity(self.instruction.opcode, d)
        return str(int(number)) if d.kind == "bool" else literal(number, d)

    def step(self, w: Writer, part: str, value: str) -> str:
        """The part with one more value."""
        if self.dtype.kind == "bool":
            value = w(f"zext i1 {value} to i8")
        return self._fold(w, self.part_type, part, value)

    def steps(self, w: Writer, part: str, values: list[str]) -> str:
        """The part with a few more values, which are folded by a tree where that rounds: not one after the other."""
        while self.rounds and len(values) > 1:
            pairs = [values[k : k + 2] for k in range(0, len(values), 2)]
            values = [self._fold(w, self.part_type, *p) if len(p) > 1 else p[0] for p in pairs]
        for value in values:
            part = self.step(w, part, value)
        return part

    def join(self, w: Writer, total: str, part: str) -> str:
        """Two totals in one."""
        return self._fold(w, self.total_type, total, part)

    def _fold(self, w: Writer, t: str, x: str, y: str) -> str:
        if self.dtype.kind == "bool":
            return w(f"{'and' if self.operation in ('min', 'mul') else 'or'} {t} {x}, {y}")
        if not self.dtype.is_float:
            if self.operation in ("add", "mul"):
                return w(f"{self.operation} {t} {x}, {y}")
            sign = "s" if self.dtype.is_signed else "u"
            return w.intrinsic(f"llvm.{sign}{self.operation}.{t}", t, (t, x), (t, y))
        if self.rounds:
            return w(f"f{self.operation}{'' if self.ordered else ' reassoc'} {t} {x}, {y}")
        # minimum and maximum pass NaN on, and LLVM vectorises them as reductions.
        suffix = "f64" if t == "double" else "f32"
        return w.intrinsic(f"llvm.{self.operation}imum.{suffix}", t, (t, x), (t, y))

    def widen(self, w: Writer, part: str) -> str:
        """A part as a total."""
        return w(f"fpext float {part} to double") if self.rounds and self.part_type == "float" else part

    def result(self, w: Writer, total: str) -> str:
        """The reduction's value."""
        if self.dtype.kind == "bool":
            return w(f"icmp ne i8 {total}, 0")
        return convert(w, total, dtypes.f64, self.dtype) if self.rounds else total
