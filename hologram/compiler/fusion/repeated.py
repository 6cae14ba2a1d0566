"""Kernels that differ in numbers alone, as steps of an unrolled loop do, as one that is told them: compiled once."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from hologram.atlas.builder import Builder, Value
from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Block, Instruction, Program
from hologram.atlas.rewrite import rewrite
from hologram.foundation.dtypes import f32, f64
from hologram.machine.plan import Step

LEAST = 4  # kernels that are worth it: a number that a compiler knows is a little quicker


def shared(steps: Sequence[Step]) -> tuple[Step, ...]:
    """The steps, those with one body with one program; what their numbers were are scalars of the launch."""
    bodies: dict[Hashable, list[int]] = {}
    for k, step in enumerate(steps):
        if not step.kernel.stem:
            bodies.setdefault(_body(step.program), []).append(k)
    changed = list(steps)
    for places in bodies.values():
        programs = [steps[k].program for k in places]
        if len(set(programs)) < LEAST:
            continue
        told = [[i.attribute for i in _numbers(program)] for program in programs]
        chosen = [n for n, same in enumerate(zip(*told, strict=True)) if len(set(map(repr, same))) > 1]
        program = _told(programs[0], [_numbers(programs[0])[n].result for n in chosen])
        for k, numbers in zip(places, told, strict=True):
            scalars = (*steps[k].scalars, *(numbers[n] for n in chosen))
            changed[k] = replace(steps[k], kernel=program, scalars=scalars)
    return tuple(changed)


def _numbers(program: Program) -> list[Instruction]:
    """The constants that may as well be told: finite floats that are no exponents, which decide how powers are made."""
    walk = list(program.body.walk())
    exponents = {i.operands[1] for i in walk if i.opcode is Opcode.POW}
    return [i for i in walk if _is_number(i) and i.result not in exponents]


def _is_number(i: Instruction) -> bool:
    return i.opcode is Opcode.CONSTANT and i.type in (f32, f64) and math.isfinite(float(i.attribute or 0))


def _body(program: Program) -> Hashable:
    """All of a program but its name and its numbers."""
    numbers = {i.result for i in _numbers(program)}

    def lines(block: Block) -> Iterator[Hashable]:
        yield block.arguments, block.argument_types, block.yields
        for i in block.instructions:
            exact = None if numbers & set(i.results) else i.exact
            yield i.opcode, i.results, i.types, i.operands, exact, tuple(tuple(lines(b)) for b in i.blocks)

    facts = (
        program.buffers,
        program.scalars,
        program.shared,
        program.rank,
        program.reduced,
        program.workgroup,
    )
    return (*facts, tuple(lines(program.body)))


def _told(program: Program, numbers: Sequence[int]) -> Program:
    """The program with these constants as further scalars, in the order that they have in it."""
    taken = {p.name for p in (*program.buffers, *program.scalars, *program.shared, *program.local)}
    name = "number"
    while any(other.startswith(name) for other in taken):
        name += "_"
    names = {value: f"{name}{k}" for k, value in enumerate(numbers)}

    def rule(builder: Builder, i: Instruction, operands: list[Any]) -> Value | None:
        chosen = names.get(i.result) if i.opcode is Opcode.CONSTANT else None
        return None if chosen is None else builder.scalar(chosen, i.type)

    return rewrite(program, rule)
