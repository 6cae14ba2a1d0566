"""Hand-written kernels: the source file of a Tile, with the names it uses declared ahead of it.

A file of shaders/{wgsl,cuda,msl}/ is never a template. It uses `T`, `TILE_M`, ... as ordinary names, and this declares
them in the language's own words: on the file's own first line, a comment, in WGSL; before a `#line` in CUDA and MSL.
So compilers name the file's own lines. See docs/design/shaders.md.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from functools import cache

from hologram.atlas.opcodes import EFFECTS, Opcode
from hologram.atlas.program import Access, BufferParameter, Instruction, Program, ScalarParameter
from hologram.atlas.ssa import deep, sources
from hologram.compiler.dialect import BufferDeclaration, Declarations, Dialect, Prelude
from hologram.compiler.source.emit import Emitter, identifier
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType, Number
from hologram.foundation.errors import CompileError, ProgramError, ShapeError, UnsupportedDType
from hologram.foundation.frozen import frozen
from hologram.machine import hand_written
from hologram.machine.limits import Limits
from hologram.machine.plan import ACCUMULATOR, Tile

_INCLUDE = re.compile(r'#include "(.+)"')  # of a file beside the kernel's
# Params members are 32 bits wide, so that the struct has one layout in every language.
_PACKED = {dtypes.f32: "<f", dtypes.i32: "<i", dtypes.u32: "<I", dtypes.index: "<I"}


@frozen
class Shader:
    """A hand-written kernel ready to compile; `file` names the source."""

    text: str
    entry: str
    file: str
    workgroup: tuple[int, int, int]
    buffers: tuple[BufferParameter, ...]  # in the order of their bindings; the parameters come after
    scalars: tuple[ScalarParameter, ...]

    @property
    def writable(self) -> tuple[bool, ...]:
        """How each buffer is declared: all alike."""
        return (True,) * len(self.buffers)

    @property
    def parameter_bytes(self) -> int:
        return 4 * len(self.scalars)

    def groups(self, grid: Sequence[int], limits: Limits) -> tuple[int, int, int]:
        """The grid, which counts workgroups; ShapeError where the device takes fewer."""
        x, y, z = (*grid, 1, 1)[:3]
        if max(x, y, z) > limits.max_workgroups:
            raise ShapeError(
                f"{self.entry}: {x} x {y} x {z} workgroups, this adapter takes {limits.max_workgroups} along an axis"
            )
        return x, y, z

    def pack(self, scalars: Sequence[Number], grid: Sequence[int] = (), lengths: Sequence[int] = ()) -> bytes:
        """The bytes of the file's `Params`: little-endian, 4 a member."""
        if len(scalars) != len(self.scalars):
            names = ", ".join(s.name for s in self.scalars) or "no scalars"
            raise ProgramError(f"{self.entry} takes {names}, got {len(scalars)} numbers")
        values = zip(self.scalars, scalars, strict=True)
        try:
            return b"".join(struct.pack(_PACKED[s.dtype], v) for s, v in values)
        except struct.error as error:
            raise ProgramError(
                f"{self.entry}: the scalars {tuple(scalars)} do not fit 32 bits: {error}"
            ) from None


def load(tile: Tile, dialect: Dialect, *, missing: frozenset[DType] = frozenset()) -> Shader:
    """The source of a tile in a language.

    The tile's epilogue must be spelled by the dialect (lowered, that is). `missing` are dtypes that the adapter has no
    native type for. Buffers that only the epilogue reads come last in `tile.buffers`, after the file's own.

    Raises:
        UnsupportedDType: the language or the adapter lacks a type that the file is to use.
        CompileError: there is no such file.
        ProgramError: the epilogue is not what `_Epilogue` asks for.
    """
    prelude = dialect.prelude
    if prelude is None:
        raise ProgramError(f"{tile.name}: {dialect.name} has no hand-written kernels")
    for scalar in tile.scalars:
        if scalar.dtype not in _PACKED:
            raise ProgramError(
                f"{tile.name}: the scalar {scalar.name} must be f32, i32, u32 or index, got {scalar.dtype}"
            )
    file = f"{dialect.name.lower()}/{tile.stem}.{dialect.suffix}"
    written, names, epilogue = (
        "\n".join(_with_includes(file)),
        _names(tile, dialect, prelude, missing),
        _epilogue(tile, dialect, prelude),
    )
    head = prelude.head(frozenset(dtype for _, dtype in tile.types), _read(tile.epilogue))
    if prelude.one_line:
        text = "\n".join([" ".join([*head, *names, written]), *epilogue, ""])
    else:
        text = "\n".join([*head, *names, *epilogue, f'#line 1 "{file}"', written])
    return Shader(text, tile.name, file, tile.workgroup, tile.buffers, tile.scalars)


def _read(epilogue: Program | None) -> frozenset[DType]:
    """The dtypes that an epilogue reads and computes with."""
    if epilogue is None:
        return frozenset()
    return frozenset(epilogue.types.values()) | {b.dtype for b in epilogue.buffers}


def _names(tile: Tile, dialect: Dialect, prelude: Prelude, missing: frozenset[DType]) -> list[str]:
    """Declarations of the tile's types and constants, of its workgroup's size and of the parameters' binding."""
    lines = []
    for name, dtype in tile.types:
        if dtype not in prelude.types or dtype in missing:
            raise UnsupportedDType(
                f"{tile.name}: {dialect.name} has no native {dtype} for a hand-written kernel here: convert to f32"
            )
        lines.append(prelude.alias.format(name=name, type=prelude.types[dtype]))
    size = zip(("WORKGROUP_X", "WORKGROUP_Y", "WORKGROUP_Z"), tile.workgroup, strict=True)
    for name, value in (*tile.constants, *size, ("PARAMS", len(tile.buffers))):
        dtype = _constant_type(value)
        literal = dialect.literal(dtype, value)
        lines.append(prelude.constant.format(name=name, type=dialect.types[dtype], value=literal))
    return lines


def _with_includes(file: str) -> list[str]:
    """The lines of a file, with those of a file beside it in place of each `#include "..."`.

    Each names its own lines to the compiler. So a kernel's text is all that it is made of, also to a cache.
    """
    lines = []
    for number, line in enumerate(source(file).split("\n"), 1):
        if match := _INCLUDE.fullmatch(line):
            inner = f"{file.rpartition('/')[0]}/{match[1]}"
            lines += [f'#line 1 "{inner}"', *_with_includes(inner), f'#line {number + 1} "{file}"']
        else:
            lines.append(line)
    return lines


@cache
def source(file: str) -> str:
    """The text of shaders/`file`."""
    try:
        return (hand_written.shaders() / file).read_text(encoding="utf-8")
    except FileNotFoundError:
        who = file.rpartition("/")[2]
        raise CompileError(who, f"there is no hand-written kernel shaders/{file}") from None


def _constant_type(value: Number) -> DType:
    if isinstance(value, bool):
        return dtypes.bool_
    if isinstance(value, float):
        return dtypes.f32
    return dtypes.i32 if value < 0 else dtypes.u32


def _epilogue(tile: Tile, dialect: Dialect, prelude: Prelude) -> list[str]:
    """The declaration of `epilogue(value, row, column)`; nothing for a tile without accumulators."""
    if not tile.accumulates:
        if tile.epilogue is not None:
            raise ProgramError(f"{tile.name}: a tile with an epilogue must declare the type {ACCUMULATOR}")
        return []
    if tile.epilogue is None:
        return prelude.epilogue([], [], ["return value;"])
    return _Epilogue(tile, tile.epilogue, dialect).lines(prelude.epilogue)


class _Epilogue:
    """An element-wise program as a function of one result.

    The program has two axes, row and column. It loads the buffer `value` once and ends with a store of the result,
    both of the accumulator's dtype and at the lane's own position, whatever it calls that. It may load further
    buffers, at positions made of row and column: they are the last of the tile's buffers, under the same names.
    """

    def __init__(self, tile: Tile, program: Program, dialect: Dialect) -> None:
        self.tile, self.program, self.dialect = tile, program, dialect
        body = program.body.instructions
        loads = [i for i in program.body.walk() if i.opcode is Opcode.LOAD and i.attribute == "value"]
        effects = [i for i in program.body.walk() if i.opcode in EFFECTS]
        self._require("have two axes and no reduction", program.rank == 2 and not program.reduced)
        self._require("load `value` once, outside of any branch", len(loads) == 1 and loads[0] in body)
        self._require("store once, at its end", effects == [body[-1]] and body[-1].opcode is Opcode.STORE)
        self.load, self.store = loads[0], body[-1]
        self.ends = ("value", str(self.store.attribute))
        accumulator = dict(tile.types)[ACCUMULATOR]
        same = all(program.buffer(name).dtype == accumulator for name in self.ends)
        self._require(f"load and store {accumulator}, the tile's {ACCUMULATOR}", same)

    def _require(self, rule: str, holds: bool) -> None:
        if not holds:
            raise ProgramError(f"{self.tile.name}: its epilogue {self.program.name} must {rule}")

    def _slice(self) -> list[Instruction]:
        """What the stored value is made of, from `value` on."""
        body = [i for i in self.program.body.instructions[:-1] if i is not self.load]
        instructions = sources(body, self.store.operands[1:])
        used = {i.opcode for i in deep(instructions)}
        outside = used & {Opcode.EXTENT, Opcode.LANE, Opcode.SCALAR, Opcode.SHARED_LOAD, Opcode.SHARED_AGREED}
        self._require("use nothing but buffers, row, column and constants", not outside)
        return [*instructions]

    def lines(self, write: Callable[..., list[str]]) -> list[str]:
        """The declaration, as `write` (see Prelude) puts it."""
        buffers = tuple(
            BufferDeclaration(identifier(b.name, self.dialect), b.dtype, Access.READ)
            for b in self.program.buffers
        )
        declarations = Declarations(self.tile.name, self.tile.workgroup, buffers, (), ())
        emitter = Emitter(self.program, self.dialect, declarations)
        emitter.values[self.load.result] = "value"
        body = self._slice()
        used = {i.attribute for i in deep(body) if i.opcode is Opcode.COORDINATE}
        for axis, name in enumerate(("row", "column")):
            if axis in used:
                emitter.let(f"i{axis}", dtypes.index, name)
        emitter.instructions(body)
        emitter.line(f"return {emitter.values[self.store.operands[1]]};")
        places = [b.name for b in self.tile.buffers]
        extra = []
        for b, declared in zip(self.program.buffers, buffers, strict=True):
            if b.name not in self.ends:
                self._require(f"read buffers of the tile only, not {b.name}", b.name in places)
                extra.append((places.index(b.name), declared))
        return write(extra, emitter.helper_text(), emitter.lines)
