"""Type rules: from the operands' dtypes to those a kernel computes with and the one it gives.

A rule takes a dtype for each operand (None for a Python number, which then adapts to the others) and returns the
computing dtype of each operand and the result's dtype. Half-precision operands are computed in f32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from hologram.foundation.dtypes import DType, bool_, f32, i8, i64, promote, u64, weak
from hologram.foundation.errors import UnsupportedDType

OperandType = DType | bool | int | float | complex  # a number stands for itself
Types = tuple[tuple[DType, ...], DType]
Rule = Callable[[str, Sequence[OperandType]], Types]


def promoted(operands: Sequence[OperandType]) -> DType:
    """The dtype that all tensors among the operands promote to, adapted to the numbers; of numbers alone, theirs."""
    known = [d for d in operands if isinstance(d, DType)]
    dtype = reduce(promote, known) if known else bool_
    for number in operands:
        if not isinstance(number, DType):
            dtype = weak(dtype, number)
    return dtype


def _require(who: str, dtype: DType, kinds: str) -> None:
    if dtype.kind not in kinds.split():
        raise UnsupportedDType(f"{who}: dtype must be {kinds.replace(' ', ' or ')}, got {dtype}")


def same(who: str, operands: Sequence[OperandType]) -> Types:
    """Any dtype; the result has it."""
    dtype = promoted(operands)
    return (dtype.computed,) * len(operands), dtype


def number(who: str, operands: Sequence[OperandType]) -> Types:
    """Integers, floats and complex numbers; the result has the same dtype."""
    _require(who, promoted(operands), "int uint float complex")
    return same(who, operands)


def magnitude(who: str, operands: Sequence[OperandType]) -> Types:
    """Numbers; of complex ones the result has the dtype of a part."""
    computed, result = number(who, operands)
    return computed, result.part


def parts(who: str, operands: Sequence[OperandType]) -> Types:
    """Two floats of 32 bits or more; the result is a complex number."""
    dtype = promoted(operands)
    dtype = dtype.computed if dtype.is_float else f32
    if promoted(operands).is_complex:
        raise UnsupportedDType(f"{who}: parts must be real numbers, got {promoted(operands)}")
    return (dtype,) * len(operands), dtype.complex


def floating(who: str, operands: Sequence[OperandType]) -> Types:
    """Integers and bools become f32, as in PyTorch; the result is a float, or complex."""
    dtype = promoted(operands)
    dtype = dtype if dtype.is_inexact else f32
    return (dtype.computed,) * len(operands), dtype


def angular(who: str, operands: Sequence[OperandType]) -> Types:
    """As `floating`; of complex numbers the result has the dtype of a part."""
    computed, result = floating(who, operands)
    return computed, result.part


def predicate(who: str, operands: Sequence[OperandType]) -> Types:
    """Floats only; the result is bool."""
    _require(who, promoted(operands), "float")
    return same(who, operands)[0], bool_


def integer(who: str, operands: Sequence[OperandType]) -> Types:
    """Integers and bools only."""
    _require(who, promoted(operands), "int uint bool")
    return same(who, operands)


def shifted(who: str, operands: Sequence[OperandType]) -> Types:
    """Integers; bools are 0 and 1 in the narrowest integers that have a sign, as in NumPy."""
    dtype = integer(who, operands)[1]
    dtype = i8 if dtype is bool_ else dtype
    return (dtype,) * len(operands), dtype


def comparison(who: str, operands: Sequence[OperandType]) -> Types:
    """Any dtype; the result is bool."""
    return same(who, operands)[0], bool_


def logical(who: str, operands: Sequence[OperandType]) -> Types:
    """Any dtype, read as truth; the result is bool."""
    return (bool_,) * len(operands), bool_


def choice(who: str, operands: Sequence[OperandType]) -> Types:
    """A condition, then values of any dtype; the result has the values'."""
    rest, result = same(who, operands[1:])
    return (bool_, *rest), result


def accumulator(dtype: DType) -> DType:
    """What numbers of a dtype are added up in: of integers and bools 64 bits, of floats of 16 bits f32."""
    if dtype.is_inexact:
        return dtype.computed
    return u64 if dtype.kind == "uint" else i64


def total(who: str, operands: Sequence[OperandType]) -> Types:
    """Sums: integers and bools widen to 64 bits, as in NumPy; floats and complex numbers stay."""
    dtype = promoted(operands)
    wide = accumulator(dtype)
    return (wide,) * len(operands), dtype if dtype.is_inexact else wide


def position(who: str, operands: Sequence[OperandType]) -> Types:
    """Any ordered dtype; the result is a position, i64 as in NumPy and PyTorch."""
    return same(who, operands)[0], i64
