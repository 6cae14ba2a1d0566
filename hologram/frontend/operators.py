"""Python's operators on tensors, each an operation by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hologram import opset
from hologram.errors import UnsupportedDType

if TYPE_CHECKING:
    from hologram.frontend.tensor import Tensor

KINDS = ("bool", "uint", "int", "float")  # each holds those before it
_BESIDE = (bool, int, float, np.ndarray, np.generic)  # what may stand beside a tensor, besides a tensor


class Operators:
    """The operators of Tensor, its only subclass. They broadcast and promote as the operations do.

    An operator that assigns keeps the dtype of its left side: results of the same kind are converted, of a higher kind
    (a float for an integer tensor) refused with UnsupportedDType.
    """

    __slots__ = ()

    def __hash__(self) -> int:
        return id(self)

    def __add__(self, other: Any) -> Tensor:
        return _binary("add", self, other)

    def __radd__(self, other: Any) -> Tensor:
        return _binary("add", self, other, swapped=True)

    def __iadd__(self, other: Any) -> Tensor:
        return _assign(self, _binary("add", self, other))

    def __sub__(self, other: Any) -> Tensor:
        return _binary("subtract", self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return _binary("subtract", self, other, swapped=True)

    def __isub__(self, other: Any) -> Tensor:
        return _assign(self, _binary("subtract", self, other))

    def __mul__(self, other: Any) -> Tensor:
        return _binary("multiply", self, other)

    def __rmul__(self, other: Any) -> Tensor:
        return _binary("multiply", self, other, swapped=True)

    def __imul__(self, other: Any) -> Tensor:
        return _assign(self, _binary("multiply", self, other))

    def __truediv__(self, other: Any) -> Tensor:
        return _binary("divide", self, other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return _binary("divide", self, other, swapped=True)

    def __itruediv__(self, other: Any) -> Tensor:
        return _assign(self, _binary("divide", self, other))

    def __floordiv__(self, other: Any) -> Tensor:
        return _binary("floor_divide", self, other)

    def __rfloordiv__(self, other: Any) -> Tensor:
        return _binary("floor_divide", self, other, swapped=True)

    def __ifloordiv__(self, other: Any) -> Tensor:
        return _assign(self, _binary("floor_divide", self, other))

    def __mod__(self, other: Any) -> Tensor:
        return _binary("remainder", self, other)

    def __rmod__(self, other: Any) -> Tensor:
        return _binary("remainder", self, other, swapped=True)

    def __imod__(self, other: Any) -> Tensor:
        return _assign(self, _binary("remainder", self, other))

    def __pow__(self, other: Any) -> Tensor:
        return _binary("pow", self, other)

    def __rpow__(self, other: Any) -> Tensor:
        return _binary("pow", self, other, swapped=True)

    def __ipow__(self, other: Any) -> Tensor:
        return _assign(self, _binary("pow", self, other))

    def __matmul__(self, other: Any) -> Tensor:
        return _binary("matmul", self, other)

    def __rmatmul__(self, other: Any) -> Tensor:
        return _binary("matmul", self, other, swapped=True)

    def __imatmul__(self, other: Any) -> Tensor:
        return _assign(self, _binary("matmul", self, other))

    def __and__(self, other: Any) -> Tensor:
        return _binary("bitwise_and", self, other)

    def __rand__(self, other: Any) -> Tensor:
        return _binary("bitwise_and", self, other, swapped=True)

    def __iand__(self, other: Any) -> Tensor:
        return _assign(self, _binary("bitwise_and", self, other))

    def __or__(self, other: Any) -> Tensor:
        return _binary("bitwise_or", self, other)

    def __ror__(self, other: Any) -> Tensor:
        return _binary("bitwise_or", self, other, swapped=True)

    def __ior__(self, other: Any) -> Tensor:
        return _assign(self, _binary("bitwise_or", self, other))

    def __xor__(self, other: Any) -> Tensor:
        return _binary("bitwise_xor", self, other)

    def __rxor__(self, other: Any) -> Tensor:
        return _binary("bitwise_xor", self, other, swapped=True)

    def __ixor__(self, other: Any) -> Tensor:
        return _assign(self, _binary("bitwise_xor", self, other))

    def __lshift__(self, other: Any) -> Tensor:
        return _binary("bitwise_left_shift", self, other)

    def __rlshift__(self, other: Any) -> Tensor:
        return _binary("bitwise_left_shift", self, other, swapped=True)

    def __ilshift__(self, other: Any) -> Tensor:
        return _assign(self, _binary("bitwise_left_shift", self, other))

    def __rshift__(self, other: Any) -> Tensor:
        return _binary("bitwise_right_shift", self, other)

    def __rrshift__(self, other: Any) -> Tensor:
        return _binary("bitwise_right_shift", self, other, swapped=True)

    def __irshift__(self, other: Any) -> Tensor:
        return _assign(self, _binary("bitwise_right_shift", self, other))

    def __eq__(self, other: Any) -> Tensor:  # type: ignore[override]
        return _binary("equal", self, other)

    def __ne__(self, other: Any) -> Tensor:  # type: ignore[override]
        return _binary("not_equal", self, other)

    def __lt__(self, other: Any) -> Tensor:
        return _binary("less", self, other)

    def __le__(self, other: Any) -> Tensor:
        return _binary("less_equal", self, other)

    def __gt__(self, other: Any) -> Tensor:
        return _binary("greater", self, other)

    def __ge__(self, other: Any) -> Tensor:
        return _binary("greater_equal", self, other)

    def __neg__(self) -> Tensor:
        return opset.OPERATIONS["negative"](self)

    def __pos__(self) -> Tensor:
        return opset.OPERATIONS["positive"](self)

    def __abs__(self) -> Tensor:
        return opset.OPERATIONS["abs"](self)

    def __invert__(self) -> Tensor:
        return opset.OPERATIONS["bitwise_invert"](self)


def _binary(name: str, x: Any, other: Any, swapped: bool = False) -> Any:
    if not isinstance(other, (Operators, *_BESIDE)):
        return NotImplemented
    if isinstance(other, (np.ndarray, np.generic)):
        other = x.executor.tensor(other)
    return opset.OPERATIONS[name](other, x) if swapped else opset.OPERATIONS[name](x, other)


def _assign(x: Any, result: Any) -> Any:
    if result is NotImplemented:
        return result
    if KINDS.index(result.dtype.kind) > KINDS.index(x.dtype.kind):
        raise UnsupportedDType(
            f"an operator in place keeps {x.dtype}, which cannot hold its result, {result.dtype}"
        )
    x.executor.copy(result, x)
    return x
