"""Elements that have no arithmetic as their codes, unsigned integers, which every device can move and take apart.

A float is a sign, an exponent and a fraction (dtypes.DType), so one pair of functions converts all formats that are
narrower than f32. Nothing after this pass, and no dialect, knows of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hologram.atlas import arithmetic
from hologram.atlas.builder import Builder, Value
from hologram.atlas.functions import minimum, select
from hologram.atlas.opcodes import LOADS, Opcode
from hologram.atlas.program import Instruction, Program
from hologram.atlas.rewrite import Parameters, rewrite
from hologram.compiler.functions.floats import rounded_to_odd
from hologram.compiler.passes import Goal, Pass, Stage, Trial
from hologram.foundation.dtypes import DType, Number, f32, f64, u32


def held(d: DType) -> DType:
    """The dtype that programs hold its elements in."""
    return d if d.computes else d.unsigned


def scalar(number: Number, d: DType) -> Number:
    """A launch's number as its program holds it."""
    return number if d.computes else int(arithmetic.number(number, d).view(d.unsigned.numpy))


def coded(program: Program, goal: Goal) -> Program:
    """The program with codes in place of elements without arithmetic, and conversions as arithmetic on their bits."""
    parameters = (*program.buffers, *program.scalars, *program.shared, *program.local)
    if all(d.computes for d in (*program.types.values(), *(p.dtype for p in parameters))):
        return program
    types = program.types

    def rule(b: Builder, i: Instruction, operands: list[Any]) -> Value | None:
        if not i.types or i.opcode in LOADS or i.opcode is Opcode.SCALAR:
            return None  # as the parameter is held
        if i.opcode is Opcode.CONVERT and not (types[i.operands[0]].computes and i.type.computes):
            source = types[i.operands[0]]
            x = operands[0] if source.computes else decoded(operands[0], source)
            return x.to(i.type) if i.type.computes else encoded(x, i.type)
        if i.opcode is Opcode.BITCAST and operands[0].dtype is held(i.type):
            return operands[0]
        if i.opcode is Opcode.CONSTANT and not i.type.computes:
            return b.constant(scalar(i.attribute, i.type), held(i.type))  # type: ignore[arg-type]
        return (
            b.emit(i.opcode, held(i.type), *operands, attribute=i.attribute) if not i.type.computes else None
        )

    def retyped(parameter: Any) -> Any:
        return replace(parameter, dtype=held(parameter.dtype))

    changed = Parameters(buffer=retyped, scalar=lambda p: (retyped(p),), shared=retyped, local=retyped)
    return rewrite(program, rule, parameters=changed)


def _tried(program: Program, goal: Goal, trial: Trial) -> tuple[Goal, Trial, Trial]:
    kinds = {p.name: p.dtype for p in (*program.buffers, *program.scalars)}
    buffers = {name: x.view(held(kinds[name]).numpy) for name, x in trial.buffers.items()}
    scalars = {name: scalar(x, kinds[name]) for name, x in trial.scalars.items()}
    return goal, trial, replace(trial, buffers=buffers, scalars=scalars)


HOLD = Pass(
    "hold stored dtypes as codes",
    "an element without arithmetic is the unsigned integer of its bits",
    Stage.HELD,
    coded,
    tried=_tried,
)


def decoded(code: Value, d: DType) -> Value:
    """The f32 of a code."""
    bits = code.to(u32)
    magnitude, shift = bits & d.nan, f32.mantissa - d.mantissa
    normal = (magnitude << shift) + (f32.bias - d.bias << f32.mantissa)
    tiny = (magnitude.to(f32) * d.smallest).bitcast(u32)
    special, infinity = (d.nan, 0x7FC00000) if d.finite else (d.infinity, f32.infinity)
    single = select(magnitude < 1 << d.mantissa, tiny, normal)
    single = select(magnitude >= special, (magnitude << shift) | infinity, single)
    return (single | (bits >> d.bits - 1 << 31)).bitcast(f32)


def encoded(x: Value, d: DType) -> Value:
    """The code of a number: to nearest even; one too large is infinity, or the largest where there is none."""
    bits = (rounded_to_odd(x) if x.dtype is f64 else x.to(f32)).bitcast(u32)
    magnitude, shift = bits & 0x7FFFFFFF, f32.mantissa - d.mantissa
    rebiased = magnitude - (f32.bias - d.bias << f32.mantissa)
    normal = (rebiased + ((1 << shift - 1) - 1) + (rebiased >> shift & 1)) >> shift
    # A sum whose last place is worth the smallest number: the addition rounds.
    unit = x.builder.constant(d.smallest * 2.0**f32.mantissa, f32)
    tiny = (magnitude.bitcast(f32) + unit).bitcast(u32) - unit.bitcast(u32)
    least = d.least_exponent + f32.bias << f32.mantissa
    code = minimum(select(magnitude < least, tiny, normal), d.nan - 1 if d.finite else d.infinity)
    code = select(magnitude > f32.infinity, d.nan, code)
    return (code | (bits >> 31 << d.bits - 1)).to(held(d))
