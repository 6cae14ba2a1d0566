"""The text form of Atlas programs: one instruction a line, blocks indented, parses back to the same program.

program atlas_axpy_f32 rank 1 reduced 0
buffer x : f32 read
buffer y : f32 read_write
scalar a : f32
%0 = scalar a : f32
%1 = coordinate 0 : index
%2 = load x %1 : f32
%3 = mul %0, %2 : f32
%4 = load y %1 : f32
%5 = add %3, %4 : f32
store y %1, %5
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from hologram.atlas.opcodes import ACCESSES, LOOPS, STRUCTURED, Opcode
from hologram.atlas.program import (
    Access,
    Block,
    BufferParameter,
    Instruction,
    LocalArray,
    Program,
    ScalarParameter,
    SharedArray,
    written,
)
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.foundation.errors import ProgramError

# What stands after the opcode: a parameter's name, an axis or a width, or a number of the result's dtype.
NAMED = ACCESSES | {Opcode.SCALAR}
AXIS = frozenset({Opcode.COORDINATE, Opcode.EXTENT})
COUNTED = AXIS | {Opcode.SHUFFLE}  # with a whole number

_DTYPES = {d.name: d for d in (*dtypes.ALL, dtypes.index)}
# re compiles them when a text is read: a program that is only written needs none.
_INSTRUCTION = (
    r"(?:(?P<results>%\d+(?:\s*,\s*%\d+)*)\s*=\s*)?(?P<opcode>[a-z]\w*)"
    r"(?:\s+(?P<attribute>[^\s%(:,]+))?"
    r"(?:\s+(?P<operands>%\d+(?:\s*,\s*%\d+)*))?"
    r"(?:\s*\((?P<arguments>[^)]*)\))?"
    r"(?:\s*:\s*(?P<types>\w+(?:\s*,\s*\w+)*))?"
)
_HEADER = r"program\s+(\S+)\s+rank\s+(\d+)\s+reduced\s+(\d+)(?:\s+workgroup\s+(\d+))?(\s+disjoint)?"
_PARAMETER = r"(buffer|scalar|shared|local)\s+(\S+)\s*:\s*(\w+)(?:\s+(\w+))?"


# Writing.


def format_program(program: Program, names: Mapping[str, str] = MappingProxyType({})) -> str:
    """The program's text, ending in a newline; `names` says what to write for its own and its parameters'."""
    return "\n".join(written(program, names)[0]) + "\n"


def digest(program: Program) -> str:
    """SHA-256 of the text, in hexadecimal."""
    return hashlib.sha256(format_program(program).encode()).hexdigest()


def line_numbers(program: Program) -> dict[int, int]:
    """The line in the text form where each instruction stands, by the `id` of its object."""
    return written(program, {})[1]


# Reading.


def parse_program(text: str) -> Program:
    """The program that a text describes; `#` starts a comment. Raises ProgramError naming the line."""
    lines = [(n, line.split("#", 1)[0].strip()) for n, line in enumerate(text.splitlines(), 1)]
    return _Reader([(n, line) for n, line in lines if line]).program()


@dataclass
class _Reader:
    lines: list[tuple[int, str]]
    at: int = 0

    def fail(self, rule: str) -> ProgramError:
        number, line = self.lines[min(self.at, len(self.lines) - 1)] if self.lines else (1, "")
        return ProgramError(f"line {number}: {rule}, got {line!r}")

    def peek(self) -> str:
        return self.lines[self.at][1] if self.at < len(self.lines) else ""

    def dtype(self, name: str) -> DType:
        dtype = _DTYPES.get(name.strip())
        if dtype is None:
            raise self.fail(f"a dtype must be one of {' '.join(_DTYPES)}")
        return dtype

    def program(self) -> Program:
        header = re.fullmatch(_HEADER, self.peek())
        if header is None:
            raise self.fail(
                "a program must start with `program NAME rank N reduced N [workgroup N] [disjoint]`"
            )
        self.at += 1
        buffers: list[BufferParameter] = []
        scalars: list[ScalarParameter] = []
        shared: list[SharedArray] = []
        local: list[LocalArray] = []
        while self.peek().split(" ", 1)[0] in ("buffer", "scalar", "shared", "local"):
            self.parameter(buffers, scalars, shared, local)
        body = self.block((), ())
        if self.at < len(self.lines):
            raise self.fail("an instruction must stand here")
        name, rank, reduced, workgroup, disjoint = header.groups()
        threads = None if workgroup is None else int(workgroup)
        return Program(
            name,
            tuple(buffers),
            tuple(scalars),
            tuple(shared),
            int(rank),
            int(reduced),
            threads,
            body,
            tuple(local),
            disjoint is not None,
        )

    def parameter(
        self,
        buffers: list[BufferParameter],
        scalars: list[ScalarParameter],
        shared: list[SharedArray],
        local: list[LocalArray],
    ) -> None:
        match = re.fullmatch(_PARAMETER, self.peek())
        kind, name, dtype, last = match.groups() if match else ("", "", "", None)
        if kind == "buffer" and last in {a.value for a in Access}:
            buffers.append(BufferParameter(name, self.dtype(dtype), Access(last)))
        elif kind == "scalar" and last is None:
            scalars.append(ScalarParameter(name, self.dtype(dtype)))
        elif kind == "shared" and last is not None and last.isdecimal():
            shared.append(SharedArray(name, self.dtype(dtype), int(last)))
        elif kind == "local" and last is not None and last.isdecimal():
            local.append(LocalArray(name, self.dtype(dtype), int(last)))
        else:
            raise self.fail(
                "a parameter must be `buffer NAME : DTYPE read|write|read_write`, `scalar NAME : DTYPE`, "
                "`shared NAME : DTYPE SIZE` or `local NAME : DTYPE SIZE`"
            )
        self.at += 1

    def block(self, arguments: tuple[int, ...], types: tuple[DType, ...]) -> Block:
        """Instructions up to `else`, `end`, the text's end, or a `yield`, which is taken too."""
        instructions: list[Instruction] = []
        yields: tuple[int, ...] = ()
        while self.peek() not in ("", "else", "end"):
            line = self.peek()
            if line.startswith("yield "):
                if not re.fullmatch(r"yield %\d+(\s*,\s*%\d+)*", line):
                    raise self.fail("a yield must be `yield %1, %2, ...`")
                yields = _ids(line)
                self.at += 1
                break
            instructions.append(self.instruction())
        return Block(tuple(instructions), arguments, types, yields)

    def instruction(self) -> Instruction:
        match = re.fullmatch(_INSTRUCTION, self.peek())
        if match is None:
            raise self.fail(
                "an instruction must be `[%1, ... =] OPCODE [ATTRIBUTE] [%2, ...] [: DTYPE, ...]`"
            )
        try:
            opcode = Opcode(match["opcode"])
        except ValueError:
            raise self.fail(f"{match['opcode']!r} is no opcode") from None
        results = _ids(match["results"])
        types = tuple(self.dtype(t) for t in match["types"].split(",")) if match["types"] else ()
        if len(results) != len(types):
            raise self.fail("each result must have a dtype")
        if match["arguments"] is not None and opcode not in LOOPS:
            raise self.fail("only a loop or while has block arguments")
        attribute = self.attribute(opcode, match["attribute"], types)
        blocks: tuple[Block, ...] = ()
        arguments, argument_types = self.arguments(match["arguments"] or "")
        self.at += 1
        if opcode in STRUCTURED:
            blocks = self.blocks(opcode, arguments, argument_types)
        return Instruction(opcode, results, types, _ids(match["operands"]), attribute, blocks)

    def blocks(
        self, opcode: Opcode, arguments: tuple[int, ...], types: tuple[DType, ...]
    ) -> tuple[Block, ...]:
        blocks = [self.block(arguments, types)]
        if opcode is Opcode.IF:
            if self.peek() != "else":
                raise self.fail("an if must have an `else`")
            self.at += 1
            blocks.append(self.block((), ()))
        if self.peek() != "end":
            raise self.fail(f"a block of {opcode.value} must close with `end`")
        self.at += 1
        return tuple(blocks)

    def arguments(self, text: str) -> tuple[tuple[int, ...], tuple[DType, ...]]:
        pairs = [part.split(":") for part in text.split(",")] if text.strip() else []
        if any(len(p) != 2 or not re.fullmatch(r"%\d+", p[0].strip()) for p in pairs):
            raise self.fail("block arguments must be `(%1 : DTYPE, ...)`")
        return tuple(int(p[0].strip()[1:]) for p in pairs), tuple(self.dtype(p[1]) for p in pairs)

    def attribute(
        self, opcode: Opcode, word: str | None, types: tuple[DType, ...]
    ) -> str | complex | bool | None:
        needed = opcode in NAMED or opcode in COUNTED or opcode is Opcode.CONSTANT
        if needed != (word is not None):
            raise self.fail(f"{opcode.value} must have {'an' if needed else 'no'} attribute")
        if word is None or opcode in NAMED:
            return word
        if opcode is Opcode.CONSTANT and len(types) != 1:
            raise self.fail("a constant must have one result")
        d = dtypes.index if opcode in COUNTED else types[0]
        try:
            return _read_number(word, d)
        except ValueError:
            raise self.fail(f"{word!r} is no number of {d}") from None


def _ids(text: str | None) -> tuple[int, ...]:
    return tuple(int(v) for v in re.findall(r"%(\d+)", text or ""))


def _read_number(word: str, d: DType) -> complex | bool:
    if d.kind == "bool":
        if word not in ("true", "false"):
            raise ValueError(word)
        return word == "true"
    if d.is_complex:
        return complex(word)
    if not d.is_float:
        return int(word, 0)
    number = float.fromhex(word) if "0x" in word.lower() else float(word)
    return math.nan if math.isnan(number) else number
