"""Functions of Values, as a program calls them: `exp(x)`, `fma(x, y, z)`, `select(condition, x, y)`."""

from __future__ import annotations

from collections.abc import Callable

from hologram.atlas.builder import Number, Value
from hologram.atlas.opcodes import Opcode
from hologram.foundation.errors import ProgramError


def _function(opcode: Opcode) -> Callable[..., Value]:
    """Of a Value, and of others, or numbers, of its dtype."""

    def apply(x: Value, *others: Value | Number) -> Value:
        return x.builder.emit(opcode, x.dtype, x, *(x.builder.value(y, x.dtype) for y in others))

    apply.__name__ = opcode.value
    return apply


sqrt, rsqrt = _function(Opcode.SQRT), _function(Opcode.RSQRT)
exp, exp2, expm1 = _function(Opcode.EXP), _function(Opcode.EXP2), _function(Opcode.EXPM1)
log, log2, log1p = _function(Opcode.LOG), _function(Opcode.LOG2), _function(Opcode.LOG1P)
sin, cos, tan, tanh = map(_function, (Opcode.SIN, Opcode.COS, Opcode.TAN, Opcode.TANH))
atan, erf, absolute = _function(Opcode.ATAN), _function(Opcode.ERF), _function(Opcode.ABS)
floor, ceil, round_, trunc = map(_function, (Opcode.FLOOR, Opcode.CEIL, Opcode.ROUND, Opcode.TRUNC))
reduce_add, reduce_mul = _function(Opcode.REDUCE_ADD), _function(Opcode.REDUCE_MUL)
reduce_min, reduce_max = _function(Opcode.REDUCE_MIN), _function(Opcode.REDUCE_MAX)
minimum, maximum = _function(Opcode.MIN), _function(Opcode.MAX)
power, mulhi = _function(Opcode.POW), _function(Opcode.MULHI)
fma, mad = _function(Opcode.FMA), _function(Opcode.MAD)


def select(condition: Value, x: Value | Number, y: Value | Number) -> Value:
    """x where the condition holds, else y; one of them may be a Python number."""
    known = x if isinstance(x, Value) else y
    if not isinstance(known, Value):
        raise ProgramError("select needs a Value among its choices: write one number as a constant")
    b = condition.builder
    return b.emit(Opcode.SELECT, known.dtype, condition, b.value(x, known.dtype), b.value(y, known.dtype))
