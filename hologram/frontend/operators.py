"""Python's operators on tensors, each an operation by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from hologram import opset
from hologram.errors import UnsupportedDType

if TYPE_CHECKING:
    from hologram.frontend.tensor import Tensor

KINDS = ("bool", "uint", "int", "float")  # each holds those before it


def _unary(name: str) -> Callable[[Any], Tensor]:
    return lambda x: opset.OPERATIONS[name](x)


def _binary(name: str, swapped: bool = False) -> Callable[[Any, Any], Tensor]:
    operation: Any = None  # found at the first use: the declarations load then

    def operator(x: Any, other: Any) -> Any:
        nonlocal operation
        if not isinstance(other, _OPERANDS):
            return NotImplemented
        if isinstance(other, _ARRAYS):
            other = x.executor.tensor(other)
        if operation is None:
            operation = opset.OPERATIONS[name]
        return operation(other, x) if swapped else operation(x, other)

    return operator


def _arithmetic(name: str) -> tuple[Callable[[Any, Any], Tensor], ...]:
    """An operator, the one for a tensor on its right, and the one that assigns."""
    operator = _binary(name)

    def assign(x: Any, other: Any) -> Any:
        result: Any = operator(x, other)
        if result is NotImplemented:
            return result
        if KINDS.index(result.dtype.kind) > KINDS.index(x.dtype.kind):
            raise UnsupportedDType(
                f"an operator in place keeps {x.dtype}, which cannot hold its result, {result.dtype}"
            )
        x.executor.copy(result, x)
        return x

    return operator, _binary(name, swapped=True), assign


class Operators:
    """The operators of Tensor, its only subclass. They broadcast and promote as the operations do.

    An operator that assigns keeps the dtype of its left side: results of the same kind are converted, of a higher kind
    (a float for an integer tensor) refused with UnsupportedDType.
    """

    __slots__ = ()

    def __hash__(self) -> int:
        return id(self)

    __add__, __radd__, __iadd__ = _arithmetic("add")
    __sub__, __rsub__, __isub__ = _arithmetic("subtract")
    __mul__, __rmul__, __imul__ = _arithmetic("multiply")
    __truediv__, __rtruediv__, __itruediv__ = _arithmetic("divide")
    __floordiv__, __rfloordiv__, __ifloordiv__ = _arithmetic("floor_divide")
    __mod__, __rmod__, __imod__ = _arithmetic("remainder")
    __pow__, __rpow__, __ipow__ = _arithmetic("pow")
    __matmul__, __rmatmul__, __imatmul__ = _arithmetic("matmul")
    __and__, __rand__, __iand__ = _arithmetic("bitwise_and")
    __or__, __ror__, __ior__ = _arithmetic("bitwise_or")
    __xor__, __rxor__, __ixor__ = _arithmetic("bitwise_xor")
    __lshift__, __rlshift__, __ilshift__ = _arithmetic("bitwise_left_shift")
    __rshift__, __rrshift__, __irshift__ = _arithmetic("bitwise_right_shift")
    __lt__, __le__ = _binary("less"), _binary("less_equal")
    __gt__, __ge__ = _binary("greater"), _binary("greater_equal")
    __neg__, __pos__ = _unary("negative"), _unary("positive")
    __abs__, __invert__ = _unary("abs"), _unary("bitwise_invert")

    # Spelled out, since `object` says they give a bool.
    def __eq__(self, other: Any) -> Tensor:  # type: ignore[override]
        return _EQUAL(self, other)

    def __ne__(self, other: Any) -> Tensor:  # type: ignore[override]
        return _NOT_EQUAL(self, other)


_EQUAL, _NOT_EQUAL = _binary("equal"), _binary("not_equal")
_ARRAYS = (np.ndarray, np.generic)
_OPERANDS = (Operators, bool, int, float, *_ARRAYS)  # what may stand beside a tensor
