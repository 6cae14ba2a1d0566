"""Comparisons, choice, logic and bits, element by element. Names are those of the array API."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from hologram.atlas import complex_parts
from hologram.atlas import functions as atlas
from hologram.atlas.builder import Value
from hologram.atlas.functions import select
from hologram.foundation import dtypes
from hologram.foundation.dtypes import COMPLEX, COMPUTED, DISCRETE, INTEGERS, NUMBERS, STORED, DType
from hologram.foundation.frozen import frozen
from hologram.opset.forms import types
from hologram.opset.forms.default import Default
from hologram.opset.forms.map import Elementwise
from hologram.opset.forms.numpy_elementwise import numpy_elementwise
from hologram.opset.forms.operation import ARRAYS, Operation, declared
from hologram.opset.forms.samples import binary, ternary, unary

# Comparisons and choice.


@frozen(eq=False, repr=False)
class Comparison(Elementwise):
    """An element-wise comparison. An integer that the other operand's dtype cannot hold counts as infinite."""

    def bind(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        operands, attributes = super().bind(args, kwargs)
        x, y = operands
        if type(x) is type(y):  # the common case
            return operands, attributes
        # By type: a number that stands for others, while a function is traced, is not asked for.
        if type(y) is int or issubclass(type(y), np.integer):
            y = _held(int(y), x)
        elif type(x) is int or issubclass(type(x), np.integer):
            x = _held(int(x), y)
        return (x, y), attributes


def _held(number: int, beside: Any) -> int | float:
    """The number, or infinity where the dtype that it is compared in does not hold it."""
    known = getattr(beside, "dtype", None)
    if not isinstance(known, DType):
        return number
    dtype = dtypes.weak(known, number)
    fits = not dtype.is_integer or dtype.lowest <= number <= dtype.highest
    return number if fits else math.inf if number > 0 else -math.inf


def comparison(aten: str, kinds: tuple[DType, ...] = COMPUTED) -> Callable[[Callable[..., Any]], Operation]:
    """Declares a comparison."""
    names = (f"{aten}.Tensor", f"{aten}.Scalar")
    return numpy_elementwise(
        Comparison, types=types.comparison, dtypes=kinds, samples=binary(-2, 2), aten=names
    )


def _ordered(x: Value) -> Value:
    return x.to(dtypes.u32) if x.dtype.kind == "bool" else x


@comparison("eq", COMPUTED + COMPLEX)
def equal(x, y):
    """x == y."""
    return x == y


@comparison("ne", COMPUTED + COMPLEX)
def not_equal(x, y):
    """x != y; true where either is NaN."""
    return x != y


@comparison("lt")
def less(x, y):
    """x < y."""
    return _ordered(x) < _ordered(y)


@comparison("le")
def less_equal(x, y):
    """x <= y."""
    return _ordered(x) <= _ordered(y)


@comparison("gt")
def greater(x, y):
    """x > y."""
    return _ordered(x) > _ordered(y)


@comparison("ge")
def greater_equal(x, y):
    """x >= y."""
    return _ordered(x) >= _ordered(y)


@numpy_elementwise(types=types.comparison, dtypes=COMPUTED + COMPLEX, aten=("isnan",))
def isnan(x):
    """Whether x is NaN."""
    return x != x


@numpy_elementwise(types=types.comparison, dtypes=COMPUTED + COMPLEX, aten=("isinf",))
def isinf(x):
    """Whether x is infinite; of a complex number, whether a part is."""
    if x.dtype.is_complex:
        return isinf(complex_parts.real(x)) | isinf(complex_parts.imag(x))
    return atlas.absolute(x) == math.inf if x.dtype.is_float else x != x


@numpy_elementwise(types=types.comparison, dtypes=COMPUTED + COMPLEX, aten=("isfinite",))
def isfinite(x):
    """Whether x is neither infinite nor NaN."""
    if x.dtype.is_complex:
        return isfinite(complex_parts.real(x)) & isfinite(complex_parts.imag(x))
    return atlas.absolute(x) < math.inf if x.dtype.is_float else x == x


def _where_samples(rng, dtype):
    for sample in ternary()(rng, dtype):
        condition, x, y = sample.operands
        yield type(sample)((rng.random(condition.shape) < 0.5, x, y))
        yield type(sample)((condition, x, 3))


def _where_reference(condition, x, y):
    y = np.asarray(y, np.asarray(x).dtype) if isinstance(y, int) else y
    return np.where(np.asarray(condition).astype(bool), x, y)


@frozen(eq=False, repr=False)
class Choice(Elementwise):
    """Of two; of a condition alone the positions where it holds, as in NumPy."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs and not isinstance(args[0], Value):
            x = args[0]
            return (Default.executor(None).tensor(x) if isinstance(x, ARRAYS) else x).nonzero()
        return super().__call__(*args, **kwargs)


@declared(Choice, types=types.choice, dtypes=NUMBERS + COMPLEX + STORED, reference=_where_reference,
          samples=_where_samples, aten=("where.self",))  # fmt: skip
def where(condition, x, y):
    """x where the condition holds (is not 0), else y."""
    return select(condition, x, y)


# Logic and bits.


@numpy_elementwise(
    types=types.logical, dtypes=COMPUTED + COMPLEX, samples=binary(-1, 1), aten=("logical_and",)
)
def logical_and(x, y):
    """Whether both are true (not 0)."""
    return x & y


@numpy_elementwise(
    types=types.logical, dtypes=COMPUTED + COMPLEX, samples=binary(-1, 1), aten=("logical_or",)
)
def logical_or(x, y):
    """Whether either is true (not 0)."""
    return x | y


@numpy_elementwise(
    types=types.logical, dtypes=COMPUTED + COMPLEX, samples=binary(-1, 1), aten=("logical_xor",)
)
def logical_xor(x, y):
    """Whether exactly one is true (not 0)."""
    return x ^ y


@numpy_elementwise(
    types=types.logical, dtypes=COMPUTED + COMPLEX, samples=unary(-1, 1), aten=("logical_not",)
)
def logical_not(x):
    """Whether it is false (0)."""
    return ~x


@numpy_elementwise(
    types=types.integer, dtypes=DISCRETE, samples=binary(-99, 99), aten=("bitwise_and.Tensor",)
)
def bitwise_and(x, y):
    """Bits set in both."""
    return x & y


@numpy_elementwise(types=types.integer, dtypes=DISCRETE, samples=binary(-99, 99), aten=("bitwise_or.Tensor",))
def bitwise_or(x, y):
    """Bits set in either."""
    return x | y


@numpy_elementwise(
    types=types.integer, dtypes=DISCRETE, samples=binary(-99, 99), aten=("bitwise_xor.Tensor",)
)
def bitwise_xor(x, y):
    """Bits set in exactly one."""
    return x ^ y


@numpy_elementwise(types=types.integer, dtypes=DISCRETE, samples=unary(-99, 99), aten=("bitwise_not",))
def bitwise_invert(x):
    """All bits changed."""
    return ~x


@numpy_elementwise(
    types=types.shifted, dtypes=INTEGERS, samples=binary(-99, 99, second=(0, 70)),
    aten=("bitwise_left_shift.Tensor",))  # fmt: skip
def bitwise_left_shift(x, y):
    """x shifted left by y >= 0 bits; 0 from the width on."""
    return x << y


@numpy_elementwise(
    types=types.shifted, dtypes=INTEGERS, samples=binary(-99, 99, second=(0, 70)),
    aten=("bitwise_right_shift.Tensor",))  # fmt: skip
def bitwise_right_shift(x, y):
    """x shifted right by y >= 0 bits, keeping the sign."""
    return x >> y
