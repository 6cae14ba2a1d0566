"""Transcendental functions as Atlas programs: which function is which arithmetic, and how exact each is.

Everything is branch-free (selects only) and without tables, so that a compiler can vectorise it.
docs/design/transcendental.md says how each is made.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from hologram.atlas.builder import Builder, Value
from hologram.atlas.functions import sqrt
from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Instruction, Program
from hologram.atlas.rewrite import rewrite
from hologram.compiler.functions import trigonometric_f64
from hologram.compiler.functions.exponential import erf, exp, exp2, expm1, tanh
from hologram.compiler.functions.logarithm import log, log1p, log2, power
from hologram.compiler.functions.trigonometric import atan, cos, sin, tan
from hologram.compiler.functions.whole_powers import is_whole, whole_power
from hologram.compiler.passes import Goal, Pass, Promise, Stage
from hologram.foundation.dtypes import DType, f32, f64

Wanted = Callable[[Opcode, DType], bool]

UNARY: dict[Opcode, Callable[[Value], Value]] = {
    Opcode.EXP: exp,
    Opcode.EXP2: exp2,
    Opcode.EXPM1: expm1,
    Opcode.LOG: log,
    Opcode.LOG2: log2,
    Opcode.LOG1P: log1p,
    Opcode.SIN: sin,
    Opcode.COS: cos,
    Opcode.TAN: tan,
    Opcode.TANH: tanh,
    Opcode.ATAN: atan,
    Opcode.ERF: erf,
    Opcode.RSQRT: lambda x: 1.0 / sqrt(x),
}
# Largest error in ULP that was measured, whether fma rounds once or twice, with a small margin.
ACCURACY: dict[tuple[Opcode, DType], float] = {
    (Opcode.EXP, f32): 1.1,
    (Opcode.EXP, f64): 1.1,
    (Opcode.EXP2, f32): 1.4,
    (Opcode.EXP2, f64): 1.3,
    (Opcode.EXPM1, f32): 1.8,
    (Opcode.EXPM1, f64): 2.1,
    (Opcode.LOG, f32): 0.9,
    (Opcode.LOG, f64): 0.9,
    (Opcode.LOG2, f32): 1.4,
    (Opcode.LOG2, f64): 1.4,
    (Opcode.LOG1P, f32): 1.5,
    (Opcode.LOG1P, f64): 1.5,
    (Opcode.SIN, f32): 1.0,
    (Opcode.SIN, f64): 1.6,
    (Opcode.COS, f32): 1.0,
    (Opcode.COS, f64): 1.6,
    (Opcode.TAN, f32): 1.9,
    (Opcode.TAN, f64): 2.4,
    (Opcode.TANH, f32): 2.0,
    (Opcode.TANH, f64): 2.2,
    (Opcode.ATAN, f32): 1.9,
    (Opcode.ATAN, f64): 1.9,
    (Opcode.ERF, f32): 1.5,
    (Opcode.ERF, f64): 1.3,
    (Opcode.RSQRT, f32): 1.5,
    (Opcode.RSQRT, f64): 1.5,
    (Opcode.POW, f32): 1.5,
    (Opcode.POW, f64): 1.4,
}
EXPANDABLE = frozenset(UNARY) | {Opcode.POW}


# How a CPU has them cheaper: f64 arithmetic is at full speed, and LLVM keeps to IEEE 754.
ON_CPU: dict[tuple[Opcode, DType], Callable[[Value], Value]] = {
    (Opcode.SIN, f32): trigonometric_f64.sin,
    (Opcode.COS, f32): trigonometric_f64.cos,
    (Opcode.TAN, f32): trigonometric_f64.tan,
} | {
    (opcode, dtype): partial(function, strict=True)
    for opcode, function in (
        (Opcode.EXP, exp),
        (Opcode.EXP2, exp2),
        (Opcode.EXPM1, expm1),
        (Opcode.TANH, tanh),
        (Opcode.ERF, erf),
    )
    for dtype in (f32, f64)
}


def expand(program: Program, wanted: Wanted, *, wide: bool = False) -> Program:
    """The program with each function for which `wanted(opcode, dtype)` replaced by arithmetic.

    f16 and bf16 are computed in f32 and rounded. `wide` is for CPUs: f64 is at full speed, so f32 pow, sin, cos and
    tan compute in it, and IEEE 754 is kept, so sums may serve to round. Integer pow is not meant: see `arithmetic`.
    """
    constants = {i.result: i.attribute for i in program.body.walk() if i.opcode is Opcode.CONSTANT}

    def rule(builder: Builder, instruction: Instruction, operands: list[Value]) -> Value | None:
        opcode = instruction.opcode
        if opcode not in EXPANDABLE or not instruction.type.is_float or not wanted(opcode, instruction.type):
            return None
        narrow = instruction.type not in (f32, f64)
        arguments = [x.to(f32) for x in operands] if narrow else operands
        if opcode is Opcode.POW and is_whole(exponent := constants.get(instruction.operands[1])):
            y = whole_power(arguments[0], int(exponent), wide=wide)  # type: ignore[arg-type]
        elif opcode is Opcode.POW:
            y = power(*arguments, wide=wide)
        else:
            made = ON_CPU.get((opcode, arguments[0].dtype)) if wide else None
            y = (made or UNARY[opcode])(*arguments)
        return y.to(instruction.type)

    return rewrite(program, rule)


def unless_scalar(opcode: Opcode, dtype: DType) -> bool:
    """The predicate of a target with a libm at hand: what is better as arithmetic.

    f64 sin, cos and tan are not: their reduction has a branch, which would keep a loop from becoming vectors.
    """
    return not (dtype == f64 and opcode in (Opcode.SIN, Opcode.COS, Opcode.TAN))


def every(opcode: Opcode, dtype: DType) -> bool:
    """The predicate of a target that has none of them."""
    return True


def _apply(program: Program, goal: Goal) -> Program:
    if not any(i.opcode in EXPANDABLE and i.type.is_float for i in program.body.walk()):
        return program
    return expand(program, goal.lacks, wide=goal.strict)


EXPAND = Pass(
    "expand functions",
    "a transcendental function is arithmetic that stays within the error ACCURACY states",
    Stage.LANGUAGE,
    _apply,
    promise=Promise(EXPANDABLE, ulp=max(ACCURACY.values())),
)
