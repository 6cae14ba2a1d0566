"""Complex numbers as pairs of floats: after this pass a program is real, and no dialect knows of them.

A buffer of complex numbers is one of floats, of which element p has the places 2p and 2p + 1; so is an array that
threads share. A scalar becomes two. What each opcode makes of pairs is in functions/complex_numbers.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from hologram.atlas.builder import Builder, Value
from hologram.atlas.functions import select
from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Instruction, Program, ScalarParameter
from hologram.atlas.rewrite import Parameters, Replacement, rewrite
from hologram.compiler.functions.complex_numbers import FUNCTIONS
from hologram.compiler.passes import Goal, Pass, Promise, Stage, Trial
from hologram.foundation.dtypes import DType, bool_

SUFFIXES = ("_real", "_imag")  # of the two scalars that one becomes


def scalars(number: Any, dtype: DType) -> tuple[Any, ...]:
    """A launch's number as the program takes it after the pass."""
    if not dtype.is_complex:
        return (number,)
    return (number.real, number.imag) if isinstance(number, complex) else (number, 0.0)


def parted(program: Program, goal: Goal) -> Program:
    """The program on parts of complex numbers."""
    parameters = (*program.buffers, *program.scalars, *program.shared)
    if not any(d.is_complex for d in (*program.types.values(), *(p.dtype for p in parameters))):
        return program
    memory = {p.name: p for p in (*program.buffers, *program.shared)}

    def rule(b: Builder, i: Instruction, operands: list[Any]) -> Replacement | None:
        step = _STEPS.get(i.opcode)
        if step is not None:
            return step(b, i, operands, memory)
        if any(type(x) is tuple for x in operands):
            return FUNCTIONS[i.opcode](*operands)
        return None

    def scalar(parameter: ScalarParameter) -> Sequence[ScalarParameter]:
        if not parameter.dtype.is_complex:
            return (parameter,)
        return [ScalarParameter(parameter.name + suffix, parameter.dtype.part) for suffix in SUFFIXES]

    changed = Parameters(
        buffer=lambda p: replace(p, dtype=p.dtype.part),
        scalar=scalar,
        shared=lambda a: replace(a, dtype=a.dtype.part, size=a.size * (1 + a.dtype.is_complex)),
    )
    return rewrite(program, rule, parameters=changed)


def _places(position: Value) -> tuple[Value, Value]:
    first = position * 2
    return first, first + 1


def _load(b: Builder, i: Instruction, operands: list[Any], memory: Any) -> Replacement | None:
    parameter = memory[i.attribute]
    if not parameter.dtype.is_complex:
        return None
    part = parameter.dtype.part
    return tuple(b.emit(i.opcode, part, at, attribute=parameter.name) for at in _places(operands[0]))


def _stored(store: Callable[..., None]) -> Any:
    def write(b: Builder, i: Instruction, operands: list[Any], memory: Any) -> Replacement | None:
        parameter = memory[i.attribute]
        if not parameter.dtype.is_complex:
            return None
        for at, part in zip(_places(operands[0]), operands[1], strict=True):
            store(b, replace(parameter, dtype=parameter.dtype.part), at, part)
        return ()

    return write


def _constant(b: Builder, i: Instruction, operands: list[Any], memory: Any) -> Replacement | None:
    if not i.type.is_complex:
        return None
    number = complex(i.attribute)  # type: ignore[arg-type]
    return b.constant(number.real, i.type.part), b.constant(number.imag, i.type.part)


def _converted(b: Builder, i: Instruction, operands: list[Any], memory: Any) -> Replacement | None:
    (x,) = operands
    if i.type.is_complex:
        part = i.type.part
        return (x[0].to(part), x[1].to(part)) if type(x) is tuple else (x.to(part), b.constant(0.0, part))
    if type(x) is not tuple:
        return None
    return (x[0] != 0.0) | (x[1] != 0.0) if i.type is bool_ else x[0].to(i.type)


def _chosen(b: Builder, i: Instruction, operands: list[Any], memory: Any) -> Replacement | None:
    condition, x, y = operands
    if type(x) is not tuple:
        return None
    return tuple(select(condition, p, q) for p, q in zip(x, y, strict=True))


_STEPS: dict[Opcode, Callable[..., Replacement | None]] = {
    Opcode.LOAD: _load,
    Opcode.SHARED_LOAD: _load,
    Opcode.STORE: _stored(Builder.store),
    Opcode.SHARED_STORE: _stored(Builder.shared_store),
    Opcode.CONSTANT: _constant,
    Opcode.CONVERT: _converted,
    Opcode.SELECT: _chosen,
    Opcode.REAL: lambda b, i, operands, memory: operands[0][0],
    Opcode.IMAG: lambda b, i, operands, memory: operands[0][1],
    Opcode.PAIR: lambda b, i, operands, memory: tuple(operands),
}


def _tried(program: Program, goal: Goal, trial: Trial) -> tuple[Goal, Trial, Trial]:
    kinds = {p.name: p.dtype for p in (*program.buffers, *program.scalars)}
    buffers = {name: x.view(kinds[name].part.numpy) for name, x in trial.buffers.items()}
    numbers: dict[str, Any] = {}
    for name, x in trial.scalars.items():
        names = [name + suffix for suffix in SUFFIXES] if kinds[name].is_complex else [name]
        numbers |= zip(names, scalars(x, kinds[name]), strict=True)
    return goal, trial, replace(trial, buffers=buffers, scalars=numbers)


PART = Pass(
    "complex numbers as pairs",
    "arithmetic on complex numbers is arithmetic on their parts",
    Stage.HELD,
    parted,
    tried=_tried,
    promise=Promise(frozenset(FUNCTIONS), ulp=16.0, finite=True),
)
