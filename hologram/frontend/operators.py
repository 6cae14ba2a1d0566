"""Python's operators on tensors, each an operation by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import numpy as np

from hologram import opset
from hologram.foundation.errors import UnsupportedDType
from hologram.frontend.complex_numbers import with_complex
from hologram.machine.strided import Strided
from hologram.runtime.dispatch import Dispatch

T = TypeVar("T", bound=Strided)  # Tensor, which stands above
Binary: TypeAlias = Callable[[T, Any], T]

KINDS = ("bool", "uint", "int", "float", "complex")  # each holds those before it


def _unary(name: str) -> Callable[[T], T]:
    return lambda x: opset.OPERATIONS[name](x)


def _binary(name: str, swapped: bool = False) -> Binary[T]:
    operation: Any = None  # found at the first use: the declarations load then

    def operator(x: Any, other: Any) -> Any:
        nonlocal operation
        if operation is None:
            operation = opset.OPERATIONS[name]
        if type(other) is type(x) or type(other) in _NUMBERS:
            count, attributes = operation.common
            if count == 2:  # nobody else can answer
                return x.__apply__(operation, (other, x) if swapped else (x, other), attributes)
        else:
            other = _operand(name, x, other)
            if other is NotImplemented:
                return other
        return operation(other, x) if swapped else operation(x, other)

    operator.__name__ = operator.__qualname__ = name  # of errors
    return operator


def _operand(name: str, x: Any, other: Any) -> Any:
    """What stands beside a tensor, as an operand."""
    if isinstance(
        other, np.generic
    ):  # a number like Python's, so that np.float64(0.1) * x has the dtype of x
        other = other.item()
    elif isinstance(other, np.ndarray):
        return x.executor.tensor(other)
    elif isinstance(other, (list, tuple)):
        return _listed(x, other)
    if isinstance(other, complex):
        return with_complex((x, other), x.executor.tensor)[1]
    return other if isinstance(other, (Operators, bool, int, float)) else NotImplemented


def _listed(x: Any, items: Any) -> Any:
    """A list beside a tensor, as one; tensors in it are stacked, for nobody can read those that are traced."""
    if not _holds_tensors(items):
        return x.executor.tensor(items)
    rows = [_listed(x, i) if isinstance(i, (list, tuple)) else i for i in items]
    rows = [i if isinstance(i, Operators) else x.executor.tensor(i) for i in rows]
    return opset.OPERATIONS["stack"](rows)


def _holds_tensors(items: Any) -> bool:
    kinds = set(map(type, items))
    if any(issubclass(kind, Operators) for kind in kinds):
        return True
    nested = any(issubclass(kind, (list, tuple)) for kind in kinds)
    return nested and any(_holds_tensors(item) for item in items if isinstance(item, (list, tuple)))


def _assign(name: str) -> Binary[T]:
    """The operator that assigns."""
    operator: Any = _binary(name)
    operation: Any = None

    def assign(x: Any, other: Any) -> Any:
        nonlocal operation
        if operation is None:
            operation = opset.OPERATIONS[name]
        if type(other) is not type(x) and type(other) not in _NUMBERS:
            other = _operand(name, x, other)
            if other is NotImplemented:
                return other
        # While a function is traced, values are never changed: the result is another, copied to where this one is.
        if not _tracers and x.buffer.executor._update(operation, (x, other), x):
            return x
        result = operator(x, other)
        if KINDS.index(result.dtype.kind) > KINDS.index(x.dtype.kind):
            raise UnsupportedDType(
                f"an operator in place keeps {x.dtype}, which cannot hold its result, {result.dtype}"
            )
        x.executor.copy(result, x)
        return x

    return assign


def _three(name: str) -> tuple[Binary[T], Binary[T], Binary[T]]:
    """An operator, the one for a tensor on the right, and the one that assigns."""
    return _binary(name), _binary(name, swapped=True), _assign(name)


class Operators:
    """The operators of Tensor, its only subclass. They broadcast and promote as the operations do.

    An operator that assigns keeps the dtype of its left side: results of the same kind are converted, of a higher kind
    (a float for an integer tensor) refused with UnsupportedDType.
    """

    __slots__ = ()

    def __hash__(self) -> int:
        return id(self)

    __add__, __radd__, __iadd__ = _three("add")
    __sub__, __rsub__, __isub__ = _three("subtract")
    __mul__, __rmul__, __imul__ = _three("multiply")
    __truediv__, __rtruediv__, __itruediv__ = _three("divide")
    __floordiv__, __rfloordiv__, __ifloordiv__ = _three("floor_divide")
    __mod__, __rmod__, __imod__ = _three("remainder")
    __pow__, __rpow__, __ipow__ = _three("pow")
    __matmul__, __rmatmul__, __imatmul__ = _three("matmul")

    def __divmod__(self: Any, other: Any) -> tuple[Any, Any]:
        return self // other, self % other

    def __rdivmod__(self: Any, other: Any) -> tuple[Any, Any]:
        return other // self, other % self

    __and__, __rand__, __iand__ = _three("bitwise_and")
    __or__, __ror__, __ior__ = _three("bitwise_or")
    __xor__, __rxor__, __ixor__ = _three("bitwise_xor")
    __lshift__, __rlshift__, __ilshift__ = _three("bitwise_left_shift")
    __rshift__, __rrshift__, __irshift__ = _three("bitwise_right_shift")
    __lt__, __le__ = _binary("less"), _binary("less_equal")
    __gt__, __ge__ = _binary("greater"), _binary("greater_equal")
    __neg__, __pos__ = _unary("negative"), _unary("positive")
    __abs__, __invert__ = _unary("abs"), _unary("bitwise_invert")

    # Spelled out, since `object` says they give a bool.
    def __eq__(self: T, other: Any) -> T:  # type: ignore[override]
        return _EQUAL(self, other)

    def __ne__(self: T, other: Any) -> T:  # type: ignore[override]
        return _NOT_EQUAL(self, other)


_EQUAL, _NOT_EQUAL = _binary("equal"), _binary("not_equal")
_NUMBERS = frozenset({bool, int, float})
_tracers = Dispatch.tracers
