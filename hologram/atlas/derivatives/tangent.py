"""Forward mode over a whole program: one more program, which also computes how its values change with what it reads.

Beside each value that depends on what is wanted stands its tangent, and beside each buffer, shared and local array that
holds such values one for their tangents, read and stored at the same places. Branches and loops carry both. Barriers
are as they were, so whatever lanes may share has a tangent, unlike backwards (reverse.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from hologram.atlas.builder import Builder, Value
from hologram.atlas.derivatives.adjoint import _Flow, _passed
from hologram.atlas.derivatives.replayed import NoDerivative, reached
from hologram.atlas.functions import select
from hologram.atlas.opcodes import ATOMICS, LOADS, LOOPS, REDUCTIONS, STORES, Opcode
from hologram.atlas.program import Access, Block, Instruction, Program
from hologram.atlas.ssa import has_effect, sources
from hologram.atlas.verify import verify
from hologram.foundation.dtypes import DType
from hologram.foundation.errors import ProgramError
from hologram.foundation.frozen import frozen

O = Opcode


@frozen
class Tangent:
    """A program with tangents: behind its own buffers and scalars those that hold tangents, of these names' values."""

    program: Program
    buffers: tuple[str, ...]
    scalars: tuple[str, ...]


@lru_cache(256)
def tangent_of(program: Program, wanted: frozenset[str], same: tuple[tuple[str, str], ...] = ()) -> Tangent:
    """The program with tangents of some of its buffers and scalars.

    Args:
        program: without rows, and of real numbers.
        wanted: the buffers and scalars that have a tangent.
        same: those buffers that are another one by another name, with that name.

    Raises:
        NoDerivative: an instruction cannot be followed, which the error holds.
    """
    try:
        return _Forward(program, wanted, dict(same)).made()
    except NoDerivative as error:
        raise NoDerivative(error.why, error.instruction, program.name) from None


class _Forward:
    """The program with tangents under construction."""

    def __init__(self, program: Program, wanted: frozenset[str], same: Mapping[str, str]) -> None:
        self.program = program
        self.same = same
        self.types = program.types
        self.memory = set(wanted)  # buffers, arrays and scalars that have tangents
        self.active = self._active()
        self.values: dict[int, Value] = {}
        self.slopes: dict[int, Value] = {}
        self.b = Builder(
            f"{program.name}_tangent",
            rank=program.rank,
            workgroup=program.workgroup,
            disjoint=program.disjoint,
        )
        taken = {p.name for p in (*program.buffers, *program.scalars, *program.shared, *program.local)}
        self.beside: dict[str, str] = {}
        for name in sorted(self.memory):
            beside = f"tangent_{name}".rstrip("_")
            while beside in taken:
                beside += "x"
            taken.add(beside)
            self.beside[name] = beside

    def slot(self, i: Instruction) -> str:
        return self.same.get(str(i.attribute), str(i.attribute))

    def _active(self) -> frozenset[int]:
        """Values with tangents; finds the memory they are stored into on the way."""
        walk = [*self.program.body.walk()]
        for i in walk:
            if i.opcode in REDUCTIONS:
                raise NoDerivative("a program of rows has no tangents", i)
        while True:
            before = len(self.memory)
            active = reached(
                self.program.body,
                lambda i: (
                    i.opcode in LOADS | {O.SCALAR} and i.type.is_inexact and self.slot(i) in self.memory
                ),
                lambda v: self.types[v].is_inexact,
            )
            stores = [i for i in walk if i.opcode in STORES | ATOMICS]
            self.memory |= {self.slot(i) for i in stores if not active.isdisjoint(i.operands[1:])}
            if len(self.memory) == before:
                return active

    def made(self) -> Tangent:
        b, program = self.b, self.program
        for p in program.buffers:
            b.buffer(p.name, p.dtype, p.access)
        for s in program.scalars:
            b.declare(s)
        held = [p for p in program.buffers if p.name in self.beside and p.dtype.is_inexact]
        for p in held:
            b.buffer(self.beside[p.name], p.dtype, Access.READ_WRITE)
        for declare, arrays in ((b.shared, program.shared), (b.local, program.local)):
            for a in arrays:
                declare(a.name, a.dtype, a.size)
            for a in arrays:
                if a.name in self.beside and a.dtype.is_inexact:
                    declare(self.beside[a.name], a.dtype, a.size)
        self.block(program.body)
        made = b.build()
        kept = Block(sources(made.body.instructions, (), keep=has_effect))
        walk = [*kept.walk()]
        mentioned = {i.attribute for i in walk}
        stored = {i.attribute for i in walk if i.opcode in STORES | ATOMICS}
        own = {p.name for p in program.buffers}
        made = replace(
            made,
            body=kept,
            buffers=tuple(
                p if p.name in own or p.name in stored else replace(p, access=Access.READ)
                for p in made.buffers
                if p.name in own or p.name in mentioned
            ),
        )
        verify(made)
        of = {beside: name for name, beside in self.beside.items()}
        return Tangent(
            made,
            tuple(of[p.name] for p in made.buffers if p.name not in own),
            tuple(of[s.name] for s in made.scalars if s.name in of),
        )

    # Instructions.

    def zero(self, dtype: DType) -> Value:
        return self.b.constant(dtype.python(0), dtype)

    def slope(self, value: int) -> Value:
        """The tangent of a value; 0 where nothing flows."""
        return self.slopes[value] if value in self.active else self.zero(self.types[value])

    def block(self, block: Block) -> None:
        for i in block.instructions:
            self.instruction(i)

    def instruction(self, i: Instruction) -> None:
        operands = [self.values[v] for v in i.operands]
        if i.opcode is O.IF:
            self._if(i, operands[0])
        elif i.opcode in LOOPS:
            self._loop(i, operands)
        elif i.opcode is O.BARRIER:
            self.b.barrier()
        elif i.opcode in STORES:
            self._store(i, operands)
        elif i.opcode in ATOMICS:
            self._atomic(i, operands)
        else:
            z = self.values[i.result] = self.b.emit(i.opcode, i.type, *operands, attribute=i.attribute)
            if i.result in self.active:
                self.slopes[i.result] = self._slope(i, z, operands)

    def _store(self, i: Instruction, operands: Sequence[Value]) -> None:
        self.b.write(i.opcode, str(i.attribute), *operands)
        if self.slot(i) in self.beside and self.types[i.operands[1]].is_inexact:
            self.b.write(i.opcode, self.beside[self.slot(i)], operands[0], self.slope(i.operands[1]))

    def _atomic(self, i: Instruction, operands: Sequence[Value]) -> None:
        self.values[i.result] = self.b.emit(i.opcode, i.type, *operands, attribute=i.attribute)
        if not i.type.is_inexact or self.slot(i) not in self.beside:
            return
        mentioned = any(i.result in x.operands or i.result in y for x, y in _uses(self.program.body))
        if i.opcode is not O.ATOMIC_ADD or mentioned:
            raise NoDerivative(
                "what an atomic finds depends on the order of points, so it has no derivative", i
            )
        slope = self.slope(i.operands[1])
        self.b.emit(i.opcode, i.type, operands[0], slope, attribute=self.beside[self.slot(i)])

    def _slope(self, i: Instruction, z: Value, operands: Sequence[Value]) -> Value:
        if i.type.is_complex:
            raise NoDerivative("a program of complex numbers has no tangents", i)
        if i.opcode is O.SCALAR:
            return self.b.scalar(self.beside[str(i.attribute)], i.type)
        if i.opcode in LOADS:
            return self.b.emit(i.opcode, i.type, *operands, attribute=self.beside[self.slot(i)])
        if i.opcode is O.SELECT:
            return select(operands[0], *(self.slope(v) for v in i.operands[1:]))
        if i.opcode is O.CONVERT:
            return self.slope(i.operands[0]).to(i.type)
        if i.opcode is O.SHUFFLE:
            return self.b.emit(
                i.opcode, i.type, self.slope(i.operands[0]), operands[1], attribute=i.attribute
            )
        total: Value | None = None
        for k, v in enumerate(i.operands):
            if v not in self.active:
                continue
            try:
                passed = _passed(i.opcode, _Flow(self.slopes[v], None), z, operands)[k]
            except ProgramError:
                raise NoDerivative(f"{i.opcode.value} has no derivative", i) from None
            if passed is not None:
                total = passed.total() if total is None else total + passed.total()
        return self.zero(i.type) if total is None else total

    # Structure.

    def _if(self, i: Instruction, condition: Value) -> None:
        moving = [k for k, r in enumerate(i.results) if r in self.active]

        def side(block: Block) -> Callable[[], list[Value]]:
            def run() -> list[Value]:
                self.block(block)
                return [
                    *(self.values[y] for y in block.yields),
                    *(self.slope(block.yields[k]) for k in moving),
                ]

            return run

        self._keep(i, moving, self.b.if_(condition, *map(side, i.blocks)))

    def _keep(self, i: Instruction, moving: Sequence[int], results: Sequence[Value]) -> None:
        self.values.update(zip(i.results, results[: len(i.results)], strict=True))
        self.slopes.update(zip((i.results[k] for k in moving), results[len(i.results) :], strict=True))

    def _loop(self, i: Instruction, operands: Sequence[Value]) -> None:
        (block,) = i.blocks
        counted = i.opcode is O.LOOP
        bounds = 3 if counted else 1
        arguments, first = block.arguments[bounds // 3 :], i.operands[bounds:]
        yields = block.yields if counted else block.yields[1:]
        moving = [k for k, a in enumerate(arguments) if a in self.active]
        begin = [*operands[bounds:], *(self.slope(first[k]) for k in moving)]

        def body(*given: Value) -> list[Value]:
            self.values.update(zip(block.arguments, given[: len(block.arguments)], strict=True))
            self.slopes.update(
                zip((arguments[k] for k in moving), given[len(block.arguments) :], strict=True)
            )
            self.block(block)
            on = [] if counted else [self.values[block.yields[0]]]
            return [*on, *(self.values[y] for y in yields), *(self.slope(yields[k]) for k in moving)]

        if counted:
            start, stop, step = operands[:3]
            results = self.b.loop(start, stop, body, first=begin, step=step, dtype=start.dtype)
        else:
            results = self.b.while_(operands[0], body, first=begin)
        self._keep(i, moving, results)


def _uses(block: Block) -> list[tuple[Instruction, tuple[int, ...]]]:
    """Every instruction, and what its blocks yield."""
    return [(i, tuple(y for b in i.blocks for y in b.yields)) for i in block.walk()]
