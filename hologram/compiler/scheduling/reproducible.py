"""Arithmetic that gives the same bits on every device: each sum, product, quotient and root rounded by itself.

What devices differ in is taken out of programs before any device sees them: fused and contracted products, functions
of a library's own, the order of a row's sums, which of two zeros is the larger, the sign of a zero that was rounded,
and the bits of NaN. Drivers that rearrange what is left are kept from it by their dialect (Limits.reproducible).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from hologram.atlas.builder import Builder, Value
from hologram.atlas.functions import absolute, select
from hologram.atlas.opcodes import ATOMICS, ROUNDINGS, Opcode
from hologram.atlas.program import Instruction, Program
from hologram.atlas.rewrite import rewrite
from hologram.compiler.canonical.form import SIMPLIFY
from hologram.compiler.functions.floats import not_a_number, with_sign_of
from hologram.compiler.functions.transcendental import ACCURACY, EXPANDABLE, every, expand
from hologram.compiler.passes import Goal, Pass, Promise, Stage
from hologram.compiler.scheduling.looped import looped
from hologram.foundation.errors import UnsupportedOperation
from hologram.machine.plan import Plan, Step

_ANY_ORDER = ATOMICS - {Opcode.ATOMIC_EXCHANGE, Opcode.ATOMIC_COMPARE_EXCHANGE}
_MOVED = frozenset({Opcode.LOAD, Opcode.SHARED_LOAD, Opcode.LOCAL_LOAD, Opcode.CONSTANT})
_STORES = frozenset({Opcode.STORE, Opcode.SHARED_STORE})


def strict(program: Program) -> Program:
    """The program of operations that IEEE 754 gives one result each; raises UnsupportedOperation for float atomics."""
    for i in program.body.walk():
        if i.opcode in _ANY_ORDER and i.type.is_float:
            raise UnsupportedOperation(
                f"{program.name}: {i.opcode.value} of {i.type} comes in any order, "
                "which a reproducible executor refuses"
            )
    return rewrite(expand(rewrite(program, _plain), every), _rounded_once)


def _numbered(x: Value) -> Value:
    """x with one NaN for all."""
    return select(not_a_number(x), x.builder.constant(math.nan, x.dtype), x)


def _plain(b: Builder, i: Instruction, operands: list[Any]) -> Value | tuple[()] | None:
    """Where bits of a float are looked at or kept, its NaN is one of a kind; what was only moved is kept as it is."""
    if i.opcode is Opcode.BITCAST and operands[0].dtype.is_float and not i.type.is_float:
        return _numbered(operands[0]).bitcast(i.type)
    if i.opcode in _STORES and operands[1].dtype.is_float and not _moved(b, operands[1]):
        b.write(i.opcode, str(i.attribute), operands[0], _numbered(operands[1]))
        return ()
    return None


def _moved(b: Builder, x: Value) -> bool:
    """Whether a value was only moved."""
    return any(i.opcode in _MOVED for i in b.written if x.id in i.results)


def _rounded_once(b: Builder, i: Instruction, operands: list[Any]) -> Value | None:
    if not i.results or not i.type.is_float:
        return None
    if i.opcode in (Opcode.FMA, Opcode.MAD):
        x, y, z = operands
        return x * y + z
    if i.opcode in ROUNDINGS:
        return with_sign_of(absolute(b.emit(i.opcode, i.type, *operands)), operands[0])
    if i.opcode in (Opcode.MIN, Opcode.MAX):
        x, y = operands
        chosen = select(x < y if i.opcode is Opcode.MAX else y < x, y, x)
        return select(not_a_number(x), x, select(not_a_number(y), y, chosen))
    return None


def _apply(step: Step, goal: Goal) -> Step | Plan:
    assert goal.limits is not None
    if step.kernel.stem:
        raise UnsupportedOperation(
            f"{step.kernel.name}: a kernel written by hand rounds as its language does, which a reproducible "
            "executor refuses"
        )
    # Powers by numbers become products here, as they have in programs that were fused.
    simplified = replace(step, kernel=SIMPLIFY.apply(step.program, goal))
    made = looped(simplified, goal.limits)
    if isinstance(made, Plan):
        return Plan(tuple(map(_strict, made.steps)), made.scratch)
    return _strict(made)


def _strict(step: Step) -> Step:
    return Step(strict(step.program), step.operands, step.scalars, step.grid)


REPRODUCE = Pass(
    "the same bits everywhere",
    "functions, fused products and folds become sums, products, quotients and roots in one order",
    Stage.PLAN,
    _apply,
    wanted=lambda goal: goal.limits is not None and goal.limits.reproducible,
    promise=Promise(EXPANDABLE | {Opcode.FMA, Opcode.MAD}, ulp=max(ACCURACY.values())),
)
