"""The one walk over the instructions of a body as it is written: what each opcode asks of a language.

Statements of the C family (emit.py) and instructions of LLVM (backends/cpu/llvm/lane.py) answer it. A value is a text:
a variable, an expression or a register.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence

from hologram.atlas.opcodes import ATOMICS, POSITIONS, Opcode
from hologram.atlas.program import Instruction, Program
from hologram.foundation.dtypes import DType


class Body(ABC):
    """Writes instructions; `values` holds the texts of those in scope."""

    def __init__(self, program: Program, values: Mapping[int, str]) -> None:
        self.program = program
        self.types = program.types
        self.values: dict[int, str] = dict(values)

    def instructions(self, instructions: Iterable[Instruction]) -> None:
        """All of them, in order."""
        for instruction in instructions:
            self.instruction(instruction)

    def instruction(self, i: Instruction) -> None:
        """One instruction; its results become values."""
        operands = [self.values[v] for v in i.operands]
        if i.opcode in POSITIONS:
            self.values[i.result] = self.position(i.opcode, int(i.attribute or 0))
        elif i.opcode is Opcode.CONSTANT:
            self.values[i.result] = self.constant(i)
        elif i.opcode is Opcode.SCALAR:
            self.values[i.result] = self.scalar(i)
        elif i.opcode is Opcode.STORE:
            self.store(i, *operands)
        elif i.opcode is Opcode.SHARED_STORE:
            self.shared_store(i, *operands)
        elif i.opcode is Opcode.LOCAL_STORE:
            self.local_store(i, *operands)
        elif i.opcode is Opcode.BARRIER:
            self.barrier()
        elif i.opcode is Opcode.IF:
            self.if_(i, *operands)
        elif i.opcode is Opcode.LOOP:
            self.loop_(i, *operands)
        elif i.opcode is Opcode.WHILE:
            self.while_(i, *operands)
        elif i.opcode is Opcode.SHUFFLE:
            self.values[i.result] = self.shuffle(i, *operands)
        elif i.opcode in ATOMICS:
            self.values[i.result] = self.atomic(i, *operands)
        else:
            self.values[i.result] = self.pure(i, operands)

    def shared_dtype(self, name: str) -> DType:
        """That of a shared array's elements."""
        return next(a.dtype for a in self.program.shared if a.name == name)

    @abstractmethod
    def position(self, opcode: Opcode, axis: int) -> str: ...

    @abstractmethod
    def constant(self, i: Instruction) -> str: ...

    @abstractmethod
    def scalar(self, i: Instruction) -> str: ...

    @abstractmethod
    def pure(self, i: Instruction, operands: Sequence[str]) -> str:
        """What reads memory or computes."""

    @abstractmethod
    def store(self, i: Instruction, position: str, value: str) -> None: ...

    @abstractmethod
    def shared_store(self, i: Instruction, position: str, value: str) -> None: ...

    @abstractmethod
    def local_store(self, i: Instruction, position: str, value: str) -> None: ...

    @abstractmethod
    def atomic(self, i: Instruction, position: str, *values: str) -> str:
        """The old value; `values` are the new one, or before it the one that is expected."""

    @abstractmethod
    def barrier(self) -> None: ...

    def shuffle(self, i: Instruction, value: str, number: str) -> str:
        """What another thread has; of languages that have no such thing it has become shared memory (shuffles.py)."""
        raise NotImplementedError(f"{self.program.name}: a shuffle is left")

    @abstractmethod
    def if_(self, i: Instruction, condition: str) -> None: ...

    @abstractmethod
    def while_(self, i: Instruction, condition: str, *first: str) -> None: ...

    @abstractmethod
    def loop_(self, i: Instruction, start: str, stop: str, step: str, *first: str) -> None: ...
