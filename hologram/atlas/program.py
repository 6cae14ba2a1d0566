"""What an Atlas program is: frozen values, SSA, structured control flow.

A program runs once per lane of a grid. The grid has `rank` axes, named by their number. If `reduced` is not 0, the
last `reduced` axes together form a *row*: values that depend on their coordinates differ along the row, reductions
fold them, and everything else is the same for the whole row. Loads and stores name their position explicitly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, fields
from enum import Enum
from functools import cached_property
from typing import Any

from hologram.atlas.opcodes import LOOPS, Opcode
from hologram.foundation.dtypes import DType
from hologram.foundation.frozen import frozen


class Access(Enum):
    READ = "read"
    WRITE = "write"
    READ_WRITE = "read_write"


@frozen(slots=True)
class BufferParameter:
    """A buffer the program reads or writes."""

    name: str
    dtype: DType
    access: Access


@frozen(slots=True)
class ScalarParameter:
    """A number given at launch; its dtype may be `index`."""

    name: str
    dtype: DType


@frozen(slots=True)
class SharedArray:
    """Memory that the threads of one workgroup share; `size` in elements."""

    name: str
    dtype: DType
    size: int


@frozen(slots=True)
class LocalArray:
    """Memory that each lane has for itself; `size` in elements. It begins as zeros."""

    name: str
    dtype: DType
    size: int


@frozen(slots=True)
class Instruction:
    """One instruction; values are known by number, unique in the program."""

    opcode: Opcode
    results: tuple[int, ...] = ()
    types: tuple[DType, ...] = ()  # of the results
    operands: tuple[int, ...] = ()
    attribute: Any = field(default=None, compare=False)  # a name or a number
    blocks: tuple[Block, ...] = ()
    # The attribute for comparisons: 0.0 is not -0.0, and a NaN is itself.
    exact: str | int | bool | None = field(init=False, default=None, repr=False)

    def __post_init__(self) -> None:
        attribute = self.attribute
        if isinstance(attribute, float):
            attribute = attribute.hex()
        elif isinstance(attribute, complex):
            attribute = f"{attribute.real.hex()} {attribute.imag.hex()}"
        object.__setattr__(self, "exact", attribute)

    @property
    def result(self) -> int:
        return self.results[0]

    @property
    def type(self) -> DType:
        return self.types[0]


@frozen(slots=True)
class Block:
    """Instructions in order, with the values that enter (a loop's) and those that leave; of a `while` first whether."""

    instructions: tuple[Instruction, ...]
    arguments: tuple[int, ...] = ()
    argument_types: tuple[DType, ...] = ()
    yields: tuple[int, ...] = ()

    def walk(self) -> Iterator[Instruction]:
        """Every instruction, those of inner blocks after the one that holds them."""
        for instruction in self.instructions:
            yield instruction
            for block in instruction.blocks:
                yield from block.walk()


class Launchable:
    """What a device compiles: a Program, or a hand-written kernel (machine.plan.Tile). Both answer these questions."""

    name: str  # the entry point
    buffers: tuple[BufferParameter, ...]
    scalars: tuple[ScalarParameter, ...]
    reduced: int  # how many of the grid's last axes are a row, which has a result even without elements
    stem: str  # of its files, which are written by hand; "" of a program
    epilogue: Program | None  # what it applies to its results
    maps: tuple[Any, ...]  # of buffers of which the device itself copies boxes; see machine.plan.TensorMap
    shared_bytes: int  # workgroup memory that a launch asks for, beside what the source declares

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Asked at every look-up of a kernel, and as long to compute as the kernel is."""
        return hash(tuple(self.__getstate__().values()))

    def __getstate__(self) -> dict[str, object]:
        """Without what was computed: strings have other hashes in another process."""
        return {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]

    @property
    def program(self) -> Program | None:
        """The program in it: itself, or a tile's epilogue."""
        return self.epilogue

    @property
    def accumulates(self) -> bool:
        """Whether the source applies an epilogue, be it none."""
        return False

    @property
    def label(self) -> str:
        """The entry point and, of a tile with an epilogue, the epilogue's."""
        return self.name + (self.epilogue.name.removeprefix("atlas") if self.epilogue else "")

    @property
    def read_by_epilogue(self) -> list[int]:
        """Which buffers only the epilogue reads: the last ones, in the order of the epilogue's own."""
        if self.epilogue is None:
            return []
        places = [b.name for b in self.buffers]
        return [places.index(b.name) for b in self.epilogue.buffers if b.name in places]

    def lengths(self, sizes: Iterable[int]) -> list[int]:
        """Of buffers of so many bytes, the elements."""
        return [nbytes // b.dtype.itemsize for nbytes, b in zip(sizes, self.buffers, strict=True)]


@frozen
class Program(Launchable):
    """A kernel: its parameters, its grid and its body. `name` is the entry point, e.g. `atlas_add_f32`."""

    stem = ""
    epilogue = None
    maps = ()
    shared_bytes = 0

    name: str
    buffers: tuple[BufferParameter, ...]
    scalars: tuple[ScalarParameter, ...]
    shared: tuple[SharedArray, ...]
    rank: int
    reduced: int
    # Threads per workgroup, where the program depends on it; with reduced axes, those that share a row, if measured.
    workgroup: int | None
    body: Block
    local: tuple[LocalArray, ...] = ()
    disjoint: bool = False  # its author says: no two lanes store into one element

    __hash__ = Launchable.__hash__

    @property
    def program(self) -> Program:
        return self

    @cached_property
    def types(self) -> dict[int, DType]:
        """The dtype of every value."""
        types: dict[int, DType] = {}

        def visit(block: Block) -> None:
            types.update(zip(block.arguments, block.argument_types, strict=True))
            for instruction in block.instructions:
                types.update(zip(instruction.results, instruction.types, strict=True))
                for inner in instruction.blocks:
                    visit(inner)

        visit(self.body)
        return types

    def buffer(self, name: str) -> BufferParameter:
        return next(b for b in self.buffers if b.name == name)

    @cached_property
    def opcodes(self) -> frozenset[Opcode]:
        """The opcodes that occur."""
        return frozenset(i.opcode for i in self.body.walk())

    def __str__(self) -> str:
        """The text form; `hologram.atlas.text` says what it is and parses it."""
        return "\n".join(written(self, {})[0])

    def __repr__(self) -> str:
        names = ", ".join(p.name for p in (*self.buffers, *self.scalars))
        return f"Program({self.name}({names}), rank={self.rank}, reduced={self.reduced})"


def written(program: Program, names: Mapping[str, str]) -> tuple[list[str], dict[int, int]]:
    """The lines of a program's text, and the line where each instruction stands, by the `id` of its object."""
    workgroup = "" if program.workgroup is None else f" workgroup {program.workgroup}"

    def called(thing: Program | BufferParameter | ScalarParameter | SharedArray | LocalArray) -> str:
        return names.get(thing.name, thing.name)

    disjoint = " disjoint" if program.disjoint else ""
    lines = [f"program {called(program)} rank {program.rank} reduced {program.reduced}{workgroup}{disjoint}"]
    lines += [f"buffer {called(b)} : {b.dtype} {b.access.value}" for b in program.buffers]
    lines += [f"scalar {called(s)} : {s.dtype}" for s in program.scalars]
    lines += [f"shared {called(s)} : {s.dtype} {s.size}" for s in program.shared]
    lines += [f"local {called(s)} : {s.dtype} {s.size}" for s in program.local]
    places: dict[int, int] = {}
    _write_block(program.body, "", lines, places, names)
    return lines, places


def _write_block(
    block: Block, indent: str, lines: list[str], places: dict[int, int], names: Mapping[str, str]
) -> None:
    for i in block.instructions:
        lines.append(indent + _spell(i, names))
        places[id(i)] = len(lines)
        for k, inner in enumerate(i.blocks):
            if k:
                lines.append(f"{indent}else")
            _write_block(inner, indent + "  ", lines, places, names)
        if i.blocks:
            lines.append(f"{indent}end")
    if block.yields:
        lines.append(f"{indent}yield {_values(block.yields)}")


def _values(ids: tuple[int, ...]) -> str:
    return ", ".join(f"%{v}" for v in ids)


def _spell(i: Instruction, names: Mapping[str, str]) -> str:
    words = [f"{_values(i.results)} ="] if i.results else []
    words.append(i.opcode.value)
    if i.opcode is Opcode.CONSTANT and i.types:
        words.append(_spell_number(i.attribute, i.type))
    elif i.attribute is not None:
        words.append(
            names.get(i.attribute, i.attribute) if isinstance(i.attribute, str) else str(i.attribute)
        )
    if i.operands:
        words.append(_values(i.operands))
    if i.opcode in LOOPS and i.blocks:
        pairs = zip(i.blocks[0].arguments, i.blocks[0].argument_types, strict=True)
        words.append("(" + ", ".join(f"%{v} : {t}" for v, t in pairs) + ")")
    if i.types:
        words.append(": " + ", ".join(t.name for t in i.types))
    return " ".join(words)


def _spell_number(number: str | complex | bool | None, d: DType) -> str:
    if d.kind == "bool":
        return "true" if number else "false"
    if isinstance(number, complex):
        imaginary = repr(number.imag)
        return f"{number.real!r}{'' if imaginary.startswith('-') else '+'}{imaginary}j"
    return repr(float(number)) if d.is_float and isinstance(number, (int, float)) else str(number)
