"""Narrow dtypes computed wide, where a language has no arithmetic of its own for them."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from hologram.atlas.builder import Builder, Value
from hologram.atlas.functions import maximum, minimum
from hologram.atlas.opcodes import ATOMICS, BINARY, COMPARISONS, REDUCTIONS, TERNARY, UNARY, Opcode
from hologram.atlas.program import Instruction, Program
from hologram.atlas.rewrite import rewrite
from hologram.compiler.dialect import Dialect
from hologram.compiler.functions.floats import rounded_to_odd
from hologram.compiler.passes import Goal, Pass, Stage
from hologram.foundation.dtypes import COMPUTED, DType, f32, f64
from hologram.foundation.errors import UnsupportedDType

_COMPUTING = COMPARISONS | BINARY | TERNARY | UNARY


def refuse(program: Program, dialect: Dialect) -> None:
    """Raises UnsupportedDType for a program that no rewrite makes one of the language's."""
    used = {
        *program.types.values(),
        *(b.dtype for b in program.buffers),
        *(s.dtype for s in (*program.shared, *program.local)),
    }
    missing = sorted(str(d) for d in used if d not in dialect.types)
    if missing:
        raise UnsupportedDType(f"{program.name}: this adapter's {dialect.name} has no {', '.join(missing)}")
    for i in program.body.walk():
        shared = any(s.name == i.attribute for s in program.shared)
        table = dialect.shared_atomics if shared else dialect.atomics
        if i.opcode in ATOMICS and (i.opcode, i.type) not in table:
            raise UnsupportedDType(
                f"{program.name}: this adapter's {dialect.name} has no {i.opcode.value} of {i.type}"
            )


def widen(program: Program, narrow: frozenset[DType], direct: Container[tuple[DType, DType]] = ()) -> Program:
    """Arithmetic on narrow dtypes as that of their wide ones, each result brought back: wrapped, or rounded once more.

    Loads, stores, selects, bitcasts and conversions between a narrow dtype and its wide one remain, and those that the
    language does itself (`direct`). A f16 result is that of f32 rounded, which is Atlas's definition.
    """

    def rule(builder: Builder, i: Instruction, operands: list[Any]) -> Value | None:
        if i.opcode is Opcode.CONVERT:
            return None if (operands[0].dtype, i.type) in direct else _convert(operands[0], i.type, narrow)
        if i.opcode is Opcode.BITCAST:
            return _bitcast(operands[0], i.type, narrow)
        if i.opcode in REDUCTIONS and i.type in narrow:
            return builder.emit(i.opcode, i.type.wide, operands[0].to(i.type.wide)).to(i.type)
        if i.opcode not in _COMPUTING or operands[-1].dtype not in narrow:
            return None
        wide = [x.to(x.dtype.wide) for x in operands]
        result = builder.emit(i.opcode, wide[0].dtype if i.type in narrow else i.type, *wide)
        return result.to(i.type)

    return rewrite(program, rule)


def _convert(x: Value, target: DType, narrow: frozenset[DType]) -> Value | None:
    """A conversion by way of the wide dtypes; None where it is one of those already."""
    source = x.dtype
    if source in narrow and source.wide != target:
        return _into(x.to(source.wide), target, narrow)
    return _into(x, target, narrow) if target in narrow and target.wide != source else None


def _into(x: Value, target: DType, narrow: frozenset[DType]) -> Value:
    if target not in narrow:
        return x.to(target)
    wide = target.wide
    if x.dtype.is_float and not target.is_float:  # saturates
        return minimum(maximum(x.to(wide), target.lowest), target.highest).to(target)
    return (rounded_to_odd(x) if x.dtype == f64 and wide == f32 else x.to(wide)).to(target)


def _bitcast(x: Value, target: DType, narrow: frozenset[DType]) -> Value | None:
    """By way of the unsigned dtype of that width, where both sides are something else."""
    middle = x.dtype.unsigned
    if x.dtype not in narrow or target in (middle, x.dtype):
        return None
    return x.bitcast(middle).bitcast(target)


def _apply(program: Program, goal: Goal) -> Program:
    assert goal.dialect is not None
    narrow = frozenset(d for d in COMPUTED if d.wide is not d and goal.lacks(Opcode.ADD, d))
    if not narrow & {*program.types.values(), *(b.dtype for b in program.buffers)}:
        return program
    return widen(program, narrow, goal.dialect.conversions)


WIDEN = Pass(
    "widen narrow dtypes",
    "arithmetic of a narrow dtype is that of its wide one, wrapped or rounded once more",
    Stage.LANGUAGE,
    _apply,
    wanted=lambda goal: goal.dialect is not None,
)
