"""Expressions of a kernel: one method for each kind of node, found in a table."""

from __future__ import annotations

import ast
import types
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from hologram.atlas.builder import Value
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.kernels import calls, memory
from hologram.kernels.bounds import Checks, of_division, of_index, of_part
from hologram.kernels.logic import Logic
from hologram.kernels.numbers import OPERATORS
from hologram.kernels.source import words
from hologram.kernels.values import (
    Array,
    Literal,
    Method,
    Number,
    Several,
    Static,
    Unset,
    several,
    spelled,
)
from hologram.kernels.vectors import Matrix, Parts, Vector

_NUMBERS = (bool, int, float)
# What has no value in a kernel, whoever refers to it: it may be another by the time that the kernel runs.
_MUTABLE = (list, dict, set, bytearray)


class Expressions(Logic):
    """Evaluates expressions to values."""

    def expression(self, node: ast.expr) -> Any:
        """What an expression is; raises KernelError where a kernel has no such expression."""
        handler = EXPRESSIONS.get(type(node))
        if handler is None:
            raise self.refuse(node, f"{words(node)} has no meaning in a kernel")
        with self.at(node):
            return handler(self, node)

    def wrapped(self, value: Any, node: ast.AST) -> Any:
        """A Python object as a value of the kernel."""
        if isinstance(value, _NUMBERS):
            return Literal(value)
        if isinstance(value, np.generic):
            dtype = dtypes.dtype(value.dtype)
            return Number(self.b.constant(value.item(), dtype))
        if isinstance(value, tuple):
            return several(tuple, [self.wrapped(x, node) for x in value])
        if isinstance(value, np.ndarray) or hasattr(value, "__dlpack__"):
            raise self.refuse(
                node, "an array must be an argument of the kernel: it may change after compiling"
            )
        if isinstance(value, _MUTABLE):
            raise self.refuse(
                node,
                f"{ast.unparse(node)} is a {type(value).__name__}, which may change after the kernel is compiled: pass "
                "numbers as arguments, or capture a tuple",
            )
        return Static(value)

    # Names and constants.

    def constant(self, node: ast.Constant) -> Any:
        if isinstance(node.value, complex):
            raise self.refuse(node, "complex numbers have no meaning in a kernel")
        return Literal(node.value) if isinstance(node.value, _NUMBERS) else Static(node.value)

    def name(self, node: ast.Name) -> Any:
        value = self.env.get(node.id)
        if isinstance(value, Unset):
            raise self.refuse(node, value.why)
        if value is not None:
            return value
        if node.id in self.local_names:
            raise self.refuse(node, f"{node.id} is used before it is assigned")
        return self.wrapped(self.source.resolve(node), node)

    def tuple_(self, node: ast.Tuple | ast.List) -> Several:
        items: list[Any] = []
        for x in node.elts:
            if isinstance(x, ast.Starred):
                items += self.items(self.expression(x.value), x)
            else:
                items.append(self.expression(x))
        return several(tuple, items)

    def items(self, value: Any, node: ast.AST) -> tuple[Any, ...]:
        """The parts of a tuple or vector."""
        if isinstance(value, Several):
            return value.items
        raise self.refuse(node, f"a tuple or vector is needed, got {spelled(value)}")

    # Operators.

    def binary(self, node: ast.BinOp) -> Any:
        return self.operate(type(node.op), self.expression(node.left), self.expression(node.right), node)

    def operate(self, kind: type[ast.AST], a: Any, b: Any, node: ast.AST) -> Any:
        """`a kind b`, of numbers, and of vectors by their parts."""
        if kind is ast.MatMult:
            return self.product(a, b, node)
        if kind not in OPERATORS:
            raise self.refuse(node, f"{kind.__name__} has no meaning in a kernel")
        vectors = [x for x in (a, b) if isinstance(x, Several)]
        if vectors:
            like = vectors[0]
            if any(not issubclass(x.kind, Parts) or x.kind is not like.kind for x in vectors):
                raise self.refuse(node, f"{OPERATORS[kind].sign} of {spelled(a)} and {spelled(b)}")
            count = len(like.items)
            x, y = ((v.items if isinstance(v, Several) else (v,) * count) for v in (a, b))
            return like.remade([self.operate(kind, p, q, node) for p, q in zip(x, y, strict=True)])
        with self.at(node):
            x, y = self.plain(a, node), self.plain(b, node)
            if self.checks is not None and kind in (ast.FloorDiv, ast.Mod) and isinstance(y, Number):
                self._check_divisor(x, y, self.checks, node)
            return self.numbers.binary(kind, x, y)

    def _check_divisor(self, x: Number | Literal, y: Number, checks: Checks, node: ast.AST) -> None:
        if self.numbers.common(x, y).is_integer and y.dtype.is_integer:
            holds = y.value != self.b.constant(0, y.dtype)
            checks.held(holds, (), of_division(self.source, node))

    def product(self, a: Any, b: Any, node: ast.AST) -> Any:
        """`a @ b`, of matrices and vectors of one size."""
        both = isinstance(a, Several) and isinstance(b, Several) and len(a.items) == len(b.items)
        if not both or not (issubclass(a.kind, Parts) and issubclass(b.kind, Parts)):
            raise self.refuse(
                node, f"@ takes matrices and vectors of one size, got {spelled(a)} and {spelled(b)}"
            )
        if issubclass(a.kind, Matrix):
            rows = [self.product(row, b, node) for row in a.items]
            return a.remade(rows) if issubclass(b.kind, Matrix) else several(a.kind.ROW, rows)
        if issubclass(b.kind, Matrix):
            columns = [several(tuple, [row.items[k] for row in b.items]) for k in range(len(b.items))]
            return a.remade([self._dot(a, column, node) for column in columns])
        return self._dot(a, b, node)

    def _dot(self, a: Several, b: Several, node: ast.AST) -> Any:
        total: Any = Literal(0)
        for x, y in zip(a.items, b.items, strict=True):
            total = self.operate(ast.Add, total, self.operate(ast.Mult, x, y, node), node)
        return total

    def unary(self, node: ast.UnaryOp) -> Any:
        if isinstance(node.op, ast.Not):
            truth = self.condition(node.operand)
            return Literal(not truth.number) if isinstance(truth, Literal) else Number(~truth.value)
        value = self.expression(node.operand)
        if isinstance(node.op, ast.UAdd):
            return value
        return self._unary(node, value)

    def _unary(self, node: ast.UnaryOp, value: Any) -> Any:
        if isinstance(value, Several) and issubclass(value.kind, Parts) and isinstance(node.op, ast.USub):
            return value.remade([self._unary(node, x) for x in value.items])
        one = self.plain(value, node)
        return self.numbers.negative(one) if isinstance(node.op, ast.USub) else self.numbers.inverted(one)

    # Parts.

    def by_parts(self, node: ast.AST, x: Any, one: Callable[[Any], Any]) -> Any:
        """What `one` gives of a number; of a vector or matrix by its parts."""
        if isinstance(x, Several) and issubclass(x.kind, Parts):
            return x.remade([self.by_parts(node, part, one) for part in x.items])
        with self.at(node):
            return one(self.plain(x, node))

    def attribute(self, node: ast.Attribute) -> Any:
        owner = self.expression(node.value)
        if isinstance(owner, Array):
            return self._of_array(owner, node)
        if isinstance(owner, Several):
            if node.attr in owner.names:
                return owner.items[owner.names.index(node.attr)]
            parts = [owner.names.index(letter) for letter in node.attr if letter in owner.names]
            kind = calls.VECTORS.get(len(node.attr)) if issubclass(owner.kind, Vector) else None
            if kind is not None and len(parts) == len(node.attr):  # v.xy
                return several(kind, [owner.items[k] for k in parts])
            stated = getattr(owner.kind, node.attr, None)
            if isinstance(stated, property) and isinstance(stated.fget, types.FunctionType):
                return self.inline(stated.fget, {"self": owner}, node)
            return Method(owner, node.attr)
        if isinstance(owner, Static):
            try:
                return self.wrapped(getattr(owner.value, node.attr), node)
            except AttributeError as error:
                raise self.refuse(node, str(error)) from None
        raise self.refuse(node, f"{spelled(owner)} has no {node.attr}")

    def _of_array(self, array: Array, node: ast.Attribute) -> Any:
        if node.attr == "shape":
            return several(tuple, array.shape)
        if node.attr == "ndim":
            return Literal(len(array.shape))
        if node.attr == "dtype":
            return Static(array.dtype)
        if node.attr == "size":
            size: Any = Literal(1)
            for n in array.shape:
                size = self.numbers.binary(ast.Mult, size, n)
            return size
        raise self.refuse(node, f"an array in a kernel has shape, ndim, size and dtype, not {node.attr}")

    def subscript(self, node: ast.Subscript) -> Any:
        owner = self.expression(node.value)
        if isinstance(owner, Array):
            return Number(self.load(owner, self.position(owner, node)))
        if isinstance(owner, Several):
            return self.part(owner, self.expression(node.slice), node)
        if isinstance(owner, Static):
            index = self.expression(node.slice)
            try:
                return self.wrapped(owner.value[calls.known(self, index, node)], node)
            except (TypeError, LookupError) as error:
                raise self.refuse(node, f"{ast.unparse(node)}: {error}") from None
        raise self.refuse(node, f"{spelled(owner)} has no elements")

    def part(self, owner: Several, index: Any, node: ast.Subscript) -> Any:
        """A part of a tuple or vector; an element of a matrix."""
        first, rest = self._first(owner, index, node)
        if isinstance(first, Literal):
            found = owner.items[self._number_of(owner, first, node)]
        else:
            found = owner.items[-1]
            for k in reversed(range(len(owner.items) - 1)):
                found = self.select(self._is(first, k), owner.items[k], found, node)
        return found if rest is None else self.part(found, rest, node)

    def with_part(self, owner: Several, index: Any, value: Any, node: ast.Subscript) -> Several:
        """The same value but for one part, or for one element of a matrix."""
        first, rest = self._first(owner, index, node)
        items = [*owner.items]
        known = [self._number_of(owner, first, node)] if isinstance(first, Literal) else range(len(items))
        for k in known:
            new = value if rest is None else self.with_part(items[k], rest, value, node)
            items[k] = (
                new if isinstance(first, Literal) else self.select(self._is(first, k), new, items[k], node)
            )
        return owner.remade(items)

    def _first(self, owner: Several, index: Any, node: ast.Subscript) -> tuple[Number | Literal, Any]:
        """The index of a part, and that of an element of this part, if one is asked for."""
        pair = index.items if isinstance(index, Several) else (index, None)
        if len(pair) != 2 or (pair[1] is not None and not issubclass(owner.kind, Matrix)):
            raise self.refuse(node.slice, f"{spelled(owner)} takes no index of {len(pair)} numbers")
        first = self.plain(pair[0], node.slice, "an integer")
        if not self.numbers.dtype(first).is_integer:
            raise self.refuse(node.slice, f"a part is told by an integer, got {spelled(first)}")
        if not isinstance(first, Literal) and not issubclass(owner.kind, Parts):
            raise self.refuse(
                node.slice, f"a part of a tuple must be known when compiling, got {spelled(first)}"
            )
        if self.checks is not None and not isinstance(first, Literal):
            index, one = self._index_value(first), ast.unparse(node.value)
            there = (index >= 0) & (index < self.b.constant(len(owner.items), dtypes.i32))
            self.checks.held(there, [index], of_part(one, self.source, node))
        return first, pair[1]

    def _number_of(self, owner: Several, index: Literal, node: ast.Subscript) -> int:
        count = len(owner.items)
        if not -count <= index.number < count:
            raise self.refuse(node.slice, f"{spelled(owner)} has {count} parts, got {index.number}")
        return int(index.number) % count

    def _is(self, index: Number, k: int) -> Value:
        return index.value == self.b.constant(k, index.dtype)

    def position(self, array: Array, node: ast.Subscript) -> Value:
        """Where in memory an element lies."""
        if isinstance(node.slice, ast.Slice):
            raise self.refuse(
                node.slice, f"{array.called}[...] is one element: slices have no meaning in a kernel"
            )
        return self.place_of(array, self.expression(node.slice), node)

    def place_of(self, array: Array, index: Any, node: ast.AST) -> Value:
        """Where in memory the element of an index lies, in row-major order."""
        indices = index.items if isinstance(index, Several) else (index,)
        if len(indices) != len(array.shape):
            raise self.refuse(
                node,
                f"{array.called} has {len(array.shape)} axes, got an index of {len(indices)}: {spelled(index)}",
            )
        with self.at(node):
            place: Value | None = None
            for axis, i in enumerate(indices):
                one = self._along(array, axis, self.plain(i, node, "an integer"), node)
                if place is None:
                    place = one
                else:
                    place = place * self.numbers.place(array.shape[axis]) + one
            place = self.b.constant(0, dtypes.index) if place is None else place
            if self.checks is None or not indices:
                return place
            whole = [self._index_value(i) for i in indices]
            lengths = [self._index_value(n) for n in array.shape]
            site = of_index(array.called, len(indices), self.source, node)
            return self.checks.checked(place, whole, lengths, site)

    def _index_value(self, x: Number | Literal) -> Value:
        """An index as a signed number."""
        return self.numbers.converted(x, dtypes.i32).value

    def _along(self, array: Array, axis: int, i: Number | Literal, node: ast.AST) -> Value:
        dtype = self.numbers.dtype(i)
        if not dtype.is_integer:
            raise self.refuse(node, f"an index of {array.called} must be an integer, got {spelled(i)}")
        length = array.shape[axis]
        if isinstance(i, Literal):
            end = length.number if isinstance(length, Literal) else None
            if i.number < 0 or (end is not None and i.number >= end):
                raise self.refuse(
                    node,
                    f"index {i.number} of {array.called} is outside of axis {axis}: indices count from 0",
                )
        return self.numbers.place(i)

    def load(self, array: Array, place: Value) -> Value:
        return memory.load(self.b, array, place)

    # Calls.

    def call(self, node: ast.Call) -> Any:
        called = self.expression(node.func)
        if isinstance(called, Method):
            function = getattr(called.owner.kind, called.name, None)
            if not isinstance(function, types.FunctionType):
                raise self.refuse(node, f"{spelled(called.owner)} has no {called.name}")
            return calls.inlined(self, function, node, called.owner)
        if not isinstance(called, Static):
            raise self.refuse(node, f"{spelled(called)} is no function")
        return calls.call(self, called.value, node)

    def dtype_of(self, value: Any) -> DType | None:
        found = calls.CAST_TYPES.get(value) if isinstance(value, type) else value
        return found if isinstance(found, DType) else None

    def inline(self, function: types.FunctionType, values: Mapping[str, Any], node: ast.AST) -> Any:
        raise NotImplementedError  # of Statements

    local_names: frozenset[str] = frozenset()


EXPRESSIONS: dict[type[ast.AST], Callable[[Expressions, Any], Any]] = {
    ast.Constant: Expressions.constant,
    ast.Name: Expressions.name,
    ast.Tuple: Expressions.tuple_,
    ast.BinOp: Expressions.binary,
    ast.UnaryOp: Expressions.unary,
    ast.BoolOp: Expressions.boolean,
    ast.Compare: Expressions.compare,
    ast.IfExp: Expressions.conditional,
    ast.Attribute: Expressions.attribute,
    ast.Subscript: Expressions.subscript,
    ast.Call: Expressions.call,
}
