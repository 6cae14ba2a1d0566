"""Arithmetic on the numbers of a kernel: which dtype a result has, and the instructions that compute it.

Numbers behave as NumPy's: integers wrap, `//` rounds down and `%` has the sign of the divisor, `/` of integers is
a float. What differs is hologram's promotion: an integer with a float has the float's dtype.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from hologram.atlas import functions as atlas
from hologram.atlas.builder import Builder, Value
from hologram.atlas.opcodes import COMPARISONS, Opcode
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.foundation.errors import UnsupportedDType
from hologram.foundation.frozen import frozen
from hologram.kernels.values import Literal, Number, default_dtype, spelled
from hologram.opset import OPERATIONS

O = Opcode
_INDEX = dtypes.index


class Refused(Exception):
    """What is wrong with an operation; who knows the line makes a KernelError of it."""


@frozen
class Operator:
    """An operator of Python: how it is spelled, what it computes of plain numbers, and its opcode."""

    sign: str
    plain: Callable[..., Any]
    opcode: Opcode
    dtypes: str = "number"  # "number", "integer" (or bool), "count" (integers)


OPERATORS: dict[type[ast.AST], Operator] = {
    ast.Add: Operator("+", operator.add, O.ADD),
    ast.Sub: Operator("-", operator.sub, O.SUB),
    ast.Mult: Operator("*", operator.mul, O.MUL),
    ast.Div: Operator("/", operator.truediv, O.DIV),
    ast.FloorDiv: Operator("//", operator.floordiv, O.DIV),
    ast.Mod: Operator("%", operator.mod, O.REM),
    ast.Pow: Operator("**", operator.pow, O.POW),
    ast.BitAnd: Operator("&", operator.and_, O.AND, "integer"),
    ast.BitOr: Operator("|", operator.or_, O.OR, "integer"),
    ast.BitXor: Operator("^", operator.xor, O.XOR, "integer"),
    ast.LShift: Operator("<<", operator.lshift, O.SHL, "count"),
    ast.RShift: Operator(">>", operator.rshift, O.SHR, "count"),
    ast.Eq: Operator("==", operator.eq, O.EQ),
    ast.NotEq: Operator("!=", operator.ne, O.NE),
    ast.Lt: Operator("<", operator.lt, O.LT),
    ast.LtE: Operator("<=", operator.le, O.LE),
    ast.Gt: Operator(">", operator.gt, O.GT),
    ast.GtE: Operator(">=", operator.ge, O.GE),
}
_DIVISIONS = (ast.Div, ast.FloorDiv, ast.Mod)
_ROUNDED_DOWN = {
    ast.FloorDiv: "floor_divide",
    ast.Mod: "remainder",
}  # of floats: the operations' own programs
# Of what positions are made, exactly as the numbers are: modulo the width of an index.
_PLACED = {O.ADD, O.SUB, O.MUL, O.MIN, O.MAX}
_KEEPS_POSITIVE = {O.ADD, O.MUL, O.MAX, O.MIN}
Plain = Number | Literal


class Numbers:
    """Writes arithmetic into a program."""

    def __init__(self, builder: Builder) -> None:
        self.b = builder

    # What a number is.

    def constant(self, number: bool | int | float, dtype: DType) -> Value:
        """A number that fits its dtype."""
        if isinstance(number, float) and not dtype.is_float:
            raise Refused(f"{number!r} is no {dtype}: convert it, hg.{dtype.name}({number!r}) truncates")
        if dtype.kind in ("int", "uint") and not dtype.lowest <= number <= dtype.highest:
            raise Refused(
                f"{number!r} does not fit {dtype}, which goes from {dtype.lowest} to {dtype.highest}"
            )
        if dtype.kind == "bool" and not isinstance(number, bool):
            raise Refused(f"{number!r} is no bool: compare it, as in x != 0")
        return self.b.constant(number, dtype)

    def value(self, x: Plain, dtype: DType | None = None) -> Value:
        """As an Atlas value of its own dtype, or of one that loses nothing of its kind."""
        if isinstance(x, Literal):
            return self.constant(x.number, default_dtype(x.number) if dtype is None else dtype)
        if dtype is None or dtype is x.dtype:
            return x.value
        if _RANK[x.dtype.kind] > _RANK[dtype.kind]:
            raise Refused(f"{x.dtype} is not converted to {dtype} by itself: write hg.{dtype.name}(...)")
        return x.value.to(dtype)

    def place(self, x: Plain) -> Value:
        """As a position."""
        if isinstance(x, Literal):
            return self.b.constant(int(x.number), _INDEX)
        return x.value.to(_INDEX) if x.place is None else x.place

    def dtype(self, x: Plain) -> DType:
        return default_dtype(x.number) if isinstance(x, Literal) else x.dtype

    def counted(self, place: Value) -> Number:
        """A coordinate, a size or a counter: never below 0."""
        return Number(place.to(dtypes.i32), place, positive=True)

    def common(self, a: Plain, b: Plain) -> DType:
        """The dtype that two numbers are computed in."""
        if isinstance(a, Literal) and isinstance(b, Literal):
            return default_dtype(a.number + b.number)
        if isinstance(a, Literal):
            a, b = b, a
        try:
            if isinstance(b, Literal):
                found = dtypes.weak(a.dtype, b.number)  # type: ignore[union-attr]
                return dtypes.i32 if a.dtype.kind == "bool" and found is dtypes.i64 else found  # type: ignore[union-attr]
            return dtypes.promote(a.dtype, b.dtype)  # type: ignore[union-attr]
        except UnsupportedDType as error:
            raise Refused(str(error)) from None

    # Operators.

    def binary(self, kind: type[ast.AST], a: Plain, b: Plain) -> Plain:
        """`a kind b`."""
        known = OPERATORS[kind]
        zero = isinstance(b, Literal) and b.number == 0 and not isinstance(b.number, float)
        if zero and kind in _DIVISIONS and not self.dtype(a).is_float:
            raise Refused(f"a division by zero: {spelled(a)} {known.sign} 0")
        if isinstance(a, Literal) and isinstance(b, Literal):
            return self._known(known, a, b)
        dtype = self.common(a, b)
        if kind is ast.Div and not dtype.is_float:
            dtype = dtypes.f32
        self._check(known, dtype, a, b)
        if known.opcode in COMPARISONS:
            return self._comparison(known.opcode, dtype, a, b)
        if kind is ast.FloorDiv or kind is ast.Mod:
            return self._rounded_down(kind, dtype, a, b)
        x, y = self._in(dtype, a), self._in(dtype, b)
        value = self.b.emit(known.opcode, dtype, x, y)
        return Number(value, self._placed(known.opcode, a, b), self._stays(known.opcode, a, b))

    def _in(self, dtype: DType, x: Plain) -> Value:
        return self.constant(x.number, dtype) if isinstance(x, Literal) else x.value.to(dtype)

    def _known(self, known: Operator, a: Literal, b: Literal) -> Literal:
        try:
            found = known.plain(a.number, b.number)
            if isinstance(found, complex):
                raise ValueError("it is a complex number")
            return Literal(found)
        except (ArithmeticError, ValueError, TypeError) as error:
            raise Refused(f"{a.number!r} {known.sign} {b.number!r}: {error}") from None

    def _check(self, known: Operator, dtype: DType, a: Plain, b: Plain) -> None:
        fits = {
            "integer": dtype.is_integer or dtype.kind == "bool",
            "count": dtype.is_integer,
            "number": dtype.kind != "bool" or known.opcode in COMPARISONS,
        }[known.dtypes]
        if dtype.computes and fits:
            return
        wanted = {"integer": "integers or bools", "count": "integers", "number": "numbers"}[known.dtypes]
        raise Refused(f"{known.sign} takes {wanted}, got {spelled(a)} and {spelled(b)}")

    def _placed(self, opcode: Opcode, a: Plain, b: Plain) -> Value | None:
        """The same as a position, if one of the operands is made of coordinates."""
        if opcode not in _PLACED or all(getattr(x, "place", None) is None for x in (a, b)):
            return None
        if not all(self.dtype(x).kind in ("int", "uint") for x in (a, b)):
            return None
        if isinstance(b, Literal) and b.number < 0 and opcode in (O.ADD, O.SUB):
            opcode, b = (O.SUB if opcode is O.ADD else O.ADD), Literal(-b.number)
        if opcode in (O.MIN, O.MAX) and not (self.positive(a) and self.positive(b)):
            return None
        if any(isinstance(x, Literal) and x.number < 0 for x in (a, b)):  # no index is below 0 everywhere
            return None
        return self.b.emit(opcode, _INDEX, self.place(a), self.place(b))

    def positive(self, x: Plain) -> bool:
        """Whether a number is surely not below 0."""
        return x.number >= 0 if isinstance(x, Literal) else x.positive or x.dtype.kind == "uint"

    def _stays(self, opcode: Opcode, a: Plain, b: Plain) -> bool:
        return opcode in _KEEPS_POSITIVE and self.positive(a) and self.positive(b)

    def _comparison(self, opcode: Opcode, dtype: DType, a: Plain, b: Plain) -> Number:
        """Of positions, where both are such: then a launch may know what all its lanes answer."""
        placed = any(isinstance(x, Number) and x.place is not None for x in (a, b))
        whole = all(self.dtype(x).kind == "int" and self.positive(x) for x in (a, b))
        if placed and whole:
            return Number(self.b.emit(opcode, dtypes.bool_, self.place(a), self.place(b)))
        if dtype.kind == "bool" and opcode not in (O.EQ, O.NE):
            dtype = dtypes.i32
        return Number(self.b.emit(opcode, dtypes.bool_, self._in(dtype, a), self._in(dtype, b)))

    def _rounded_down(self, kind: type[ast.AST], dtype: DType, a: Plain, b: Plain) -> Number:
        """`//` and `%`, whose quotient is rounded down."""
        x, y = self._in(dtype, a), self._in(dtype, b)
        if dtype.is_float:
            return Number(OPERATIONS[_ROUNDED_DOWN[kind]].function(x, y))
        if self.positive(a) and self.positive(b):
            return self._whole_quotient(kind, a, b, x, y)
        if kind is ast.Mod:
            left = x % y
            wrong = (left != 0) & ((left < 0) ^ (y < 0))
            return Number(atlas.select(wrong, left + y, left), positive=self.positive(b))
        left = x % y
        wrong = (left != 0) & ((left < 0) ^ (y < 0))
        quotient = x // y
        return Number(atlas.select(wrong, quotient - 1, quotient))

    def _whole_quotient(self, kind: type[ast.AST], a: Plain, b: Plain, x: Value, y: Value) -> Number:
        value = x // y if kind is ast.FloorDiv else x % y
        place = None
        if isinstance(a, Number) and a.place is not None:
            if isinstance(b, Literal):
                under = self.place(b)
                place = a.place // under if kind is ast.FloorDiv else a.place % under
            elif kind is ast.Mod and b.place is not None:
                place = a.place % atlas.maximum(b.place, 1)  # x % 0 is 0
        return Number(value, place, positive=True)

    # What is no operator.

    def extreme(self, opcode: Opcode, a: Plain, b: Plain) -> Plain:
        """The smaller or the larger of two; NaN if either is."""
        if isinstance(a, Literal) and isinstance(b, Literal):
            return Literal((min if opcode is O.MIN else max)(a.number, b.number))
        dtype = self.common(a, b)
        if dtype.kind == "bool":
            raise Refused(f"{opcode.value} takes numbers, got {spelled(a)} and {spelled(b)}")
        value = self.b.emit(opcode, dtype, self._in(dtype, a), self._in(dtype, b))
        positive = self._stays(opcode, a, b) or (opcode is O.MAX and (self.positive(a) or self.positive(b)))
        return Number(value, self._placed(opcode, a, b), positive)

    def negative(self, x: Plain) -> Plain:
        if isinstance(x, Literal):
            return Literal(-x.number)
        if x.dtype.kind == "bool":
            raise Refused("- takes numbers, got bool")
        place = None if x.place is None else self.b.constant(0, _INDEX) - x.place
        return Number(-x.value, place)

    def inverted(self, x: Plain) -> Plain:
        """`~x`; of a bool its opposite, as NumPy's."""
        if self.dtype(x).is_float:
            raise Refused(f"~ takes integers or bools, got {spelled(x)}")
        if isinstance(x, Literal):
            return Literal(not x.number if isinstance(x.number, bool) else ~x.number)  # type: ignore[operator]
        return Number(~x.value)

    def truth(self, x: Plain) -> Plain:
        """As a condition: numbers are true where they are not 0."""
        if isinstance(x, Literal):
            return Literal(bool(x.number))
        return x if x.dtype is dtypes.bool_ else Number(x.value.to(dtypes.bool_))

    def converted(self, x: Plain, dtype: DType) -> Number:
        """`hg.f32(x)` and its like: any number to any dtype; floats are truncated to integers, and kept in range."""
        if isinstance(x, Literal):
            if not isinstance(x.number, bool) and dtype.kind in ("int", "uint"):
                fits = x.number == x.number and dtype.lowest <= x.number <= dtype.highest
                return Number(self.b.constant(int(x.number), dtype) if fits else self._far(x.number, dtype))
            number = bool(x.number) if dtype.kind == "bool" else x.number
            return Number(self.b.constant(number, dtype))
        keeps = (
            x.dtype.kind in ("int", "uint") and dtype.kind in ("int", "uint") and dtype.bits >= x.dtype.bits
        )
        return Number(x.value.to(dtype), x.place if keeps else None, x.positive and keeps)

    def _far(self, number: float, dtype: DType) -> Value:
        """A number out of a dtype's range: floats end at its bounds, integers wrap."""
        if isinstance(number, float):
            whole = 0 if number != number else int(dtype.highest if number > 0 else dtype.lowest)
            return self.b.constant(whole, dtype)
        wrapped = number % (1 << dtype.bits)
        return self.b.constant(wrapped - (1 << dtype.bits) if wrapped > dtype.highest else wrapped, dtype)

    def selected(self, condition: Value, a: Plain, b: Plain) -> Number:
        """One of two numbers; both in the dtype that they have in common."""
        dtype = self.common(a, b)
        places = None
        below = any(isinstance(x, Literal) and x.number < 0 for x in (a, b))
        if any(getattr(x, "place", None) is not None for x in (a, b)) and dtype.kind == "int" and not below:
            places = atlas.select(condition, self.place(a), self.place(b))
        value = self.b.emit(O.SELECT, dtype, condition, self._in(dtype, a), self._in(dtype, b))
        return Number(value, places, self.positive(a) and self.positive(b))


_RANK = {"bool": 0, "uint": 1, "int": 1, "float": 2, "index": 1}
