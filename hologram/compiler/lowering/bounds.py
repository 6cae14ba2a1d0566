"""Bounds checks where a language has none and positions cannot be proven inside: what misses its buffer does nothing.

The lengths of buffers, in elements, become scalars of the launch, behind the program's own. A position made of 64-bit
integers that an index of the language cannot count misses too, in every language: it must not wrap into the buffer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import reduce
from operator import and_
from typing import Any

from hologram.atlas.builder import Builder, Value
from hologram.atlas.functions import select
from hologram.atlas.opcodes import ACCESSES, EFFECTS, Opcode
from hologram.atlas.program import Instruction, Program
from hologram.atlas.rewrite import rewrite
from hologram.compiler.passes import Goal, Pass, Place, Stage, Trial
from hologram.foundation.dtypes import DType, i64, index, u64


def guarded(program: Program, places: Collection[Place], *, index_bits: int) -> Program:
    """The program with these accesses checked; the lengths that it asks for follow its scalars.

    A load outside is one of the first element, of which every buffer's memory has room; a store is left out, an atomic
    gives 0. An index of 64 bits may be negative; one of 32 wraps to one that is too large.
    """
    narrowed = index_bits == 32 and any(_narrows(program.types, i) for i in program.body.walk())
    if not places and not narrowed:
        return program
    sizes = {s.name: s.size for s in (*program.shared, *program.local)}
    lengths = _lengths(program)
    countable: dict[int, Value] = {}  # of indices made of 64-bit integers: whether none of these was cut

    def rule(b: Builder, i: Instruction, operands: list[Any]) -> Value | tuple[()] | None:
        if index_bits == 32 and i.results and i.type == index:
            return _counted(b, i, operands, countable)
        name = str(i.attribute)
        if not i.operands or i.opcode not in ACCESSES:
            return None
        position, *value = operands
        inside = countable.get(position.id)
        if (name, i.operands[0]) in places:
            below = position < (sizes[name] if name in sizes else b.scalar(lengths[name], index))
            inside = below if inside is None else inside & below
            inside = (position >= 0) & inside if index_bits == 64 else inside
        if inside is None:
            return None
        if i.opcode not in EFFECTS:
            return b.emit(i.opcode, i.type, select(inside, position, 0), attribute=name)
        if i.results:
            (result,) = b.if_(
                inside,
                lambda: (b.emit(i.opcode, i.type, position, *value, attribute=name),),
                lambda: (b.constant(0, i.type),),
            )
            return result
        array = next(a for a in (*program.buffers, *program.shared, *program.local) if a.name == name)
        b.if_(inside, lambda: b.write(i.opcode, array.name, position, *value), lambda: None)
        return ()

    return rewrite(program, rule)


def measured(program: Program, checked: Program) -> tuple[int, ...]:
    """The buffers, by number, whose lengths follow a program's scalars once it is guarded."""
    numbers = {name: k for k, name in enumerate(_lengths(program).values())}
    return tuple(numbers[s.name] for s in checked.scalars[len(program.scalars) :])


def _lengths(program: Program) -> dict[str, str]:
    """What the scalars are called that say how long buffers are."""
    taken = {p.name for p in (*program.buffers, *program.scalars, *program.shared, *program.local)}
    return {b.name: _free(f"{b.name}_length", taken) for b in program.buffers}


def _narrows(types: Mapping[int, DType], i: Instruction) -> bool:
    return i.opcode is Opcode.CONVERT and i.type == index and types[i.operands[0]] in (i64, u64)


def _counted(b: Builder, i: Instruction, operands: list[Any], countable: dict[int, Value]) -> Value | None:
    """An index that 64-bit integers have a say in, and in `countable` whether 32 bits hold them; None for others."""
    held = [countable[x.id] for x in operands if x.id in countable]
    if i.opcode is Opcode.CONVERT and operands[0].dtype in (i64, u64):
        wide = operands[0]
        held.append(wide < 2**32 if wide.dtype == u64 else (wide >= -(2**31)) & (wide < 2**32))
    if not held:
        return None
    result = b.emit(i.opcode, i.type, *operands, attribute=i.attribute)
    countable[result.id] = reduce(and_, held)
    return result


def _free(name: str, taken: Collection[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _apply(program: Program, goal: Goal) -> Program:
    return guarded(program, goal.guarded, index_bits=goal.dialect.index_bits if goal.dialect else 64)


def _tried(program: Program, goal: Goal, trial: Trial) -> tuple[Goal, Trial, Trial]:
    sizes = {name: trial.buffers[b].size for b, name in _lengths(program).items()}
    return goal, trial, replace(trial, scalars={**trial.scalars, **sizes})


def _inside(program: Program, goal: Goal) -> frozenset[str]:
    """Memory of which every access is guarded."""
    accesses = [(str(i.attribute), i.operands[0]) for i in program.body.walk() if i.opcode in ACCESSES]
    return frozenset(n for n, _ in accesses) - {n for n, at in accesses if (n, at) not in goal.guarded}


GUARD = Pass(
    "guard what may miss its memory",
    "a load outside gives any value, a store outside does nothing",
    Stage.LANGUAGE,
    _apply,
    tried=_tried,
    inside=_inside,
)
