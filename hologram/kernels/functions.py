"""The functions of numbers that kernels know: under the names of math, NumPy and hologram, by the function itself."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from hologram.atlas.opcodes import Opcode
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.opset import OPERATIONS

O = Opcode
# Of one float; integers are converted to f32 first.
FLOAT_FUNCTIONS: dict[str, Opcode] = {
    "sqrt": O.SQRT,
    "rsqrt": O.RSQRT,
    "exp": O.EXP,
    "exp2": O.EXP2,
    "expm1": O.EXPM1,
    "log": O.LOG,
    "log2": O.LOG2,
    "log1p": O.LOG1P,
    "sin": O.SIN,
    "cos": O.COS,
    "tan": O.TAN,
    "tanh": O.TANH,
    "atan": O.ATAN,
    "arctan": O.ATAN,
    "erf": O.ERF,
    "floor": O.FLOOR,
    "ceil": O.CEIL,
    "trunc": O.TRUNC,
    "rint": O.ROUND,
}
# Of any number, to one of its dtype.
NUMBER_FUNCTIONS: dict[str, Opcode] = {"abs": O.ABS, "absolute": O.ABS, "fabs": O.ABS}
# Of two or more numbers, in the dtype that they have in common.
FOLDS: dict[str, Opcode] = {"minimum": O.MIN, "maximum": O.MAX}
# Python's own give whole numbers.
WHOLE: dict[str, Opcode] = {"floor": O.FLOOR, "ceil": O.CEIL, "trunc": O.TRUNC, "round": O.ROUND}
CASTS: dict[type, DType] = {int: dtypes.i32, float: dtypes.f32, bool: dtypes.bool_}
CHOICES: tuple[Any, ...] = (np.where, OPERATIONS.get("where"))


@cache
def named() -> dict[int, tuple[str, Opcode, Any]]:
    """By the id of each function: its kind ("float", "number", "fold", "whole", "power"), its opcode, and itself."""
    table: list[tuple[str, Opcode, tuple[Any, ...]]] = [
        *(("whole", opcode, (getattr(math, name, None),)) for name, opcode in WHOLE.items()),
        *(("float", opcode, _spellings(name, math, np)) for name, opcode in FLOAT_FUNCTIONS.items()),
        *(("number", opcode, _spellings(name, math, np)) for name, opcode in NUMBER_FUNCTIONS.items()),
        *(("fold", opcode, _spellings(name, np)) for name, opcode in FOLDS.items()),
        ("whole", O.ROUND, (round,)),
        ("float", O.ROUND, _spellings("round", np)),
        ("number", O.ABS, (abs,)),
        ("fold", O.MIN, (min,)),
        ("fold", O.MAX, (max,)),
        ("power", O.POW, (pow, math.pow, np.power, OPERATIONS.get("pow"))),
    ]
    found: dict[int, tuple[str, Opcode, Any]] = {}
    for kind, opcode, functions in table:
        for function in functions:
            if function is not None:
                found.setdefault(id(function), (kind, opcode, function))
    return found


def _spellings(name: str, *modules: Any) -> tuple[Any, ...]:
    return (OPERATIONS.get(name), *[getattr(module, name, None) for module in modules])
