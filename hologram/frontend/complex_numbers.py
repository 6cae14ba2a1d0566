"""What a Tensor of complex numbers shows of itself without a copy: its parts, and itself as parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from hologram.foundation import lazy
from hologram.foundation.dtypes import DType, bool_, dtype, f32, promote
from hologram.foundation.errors import ShapeError, UnsupportedDType
from hologram.machine.layout import Layout
from hologram.machine.strided import Strided
from hologram.runtime.memory.ownership import reinterpreted

if TYPE_CHECKING:
    from hologram.opset import complex_numbers as operations
else:
    operations = lazy.module("hologram.opset.complex_numbers")


class Parts:
    """Real and imaginary parts, of Tensor, its only subclass."""

    __slots__ = ()

    @property
    def real(self: Any) -> Any:
        """The real parts, without a copy; of real numbers the tensor itself."""
        return self._part(0) if self.dtype.is_complex else self

    @property
    def imag(self: Any) -> Any:
        """The imaginary parts, without a copy; of real numbers new zeros."""
        return self._part(1) if self.dtype.is_complex else operations.imag(self)

    def __complex__(self) -> complex:
        return complex(self.item())  # type: ignore[attr-defined]

    def _part(self, k: int) -> Any:
        return self._seen(self.layout.dtype.part, self.layout.part(k))  # type: ignore[attr-defined]

    def _pairs(self) -> Any:
        """The parts along a new last axis."""
        check_complex(self.dtype)  # type: ignore[attr-defined]
        return self._seen(self.dtype.part, self.layout.parts())  # type: ignore[attr-defined]

    def _joined(self: Any) -> Any:
        """The complex numbers whose parts lie along the last axis."""
        check_pairs(self.dtype, self.shape)
        layout = self.layout.joined()
        return operations.joined(self) if layout is None else self._seen(layout.dtype, layout)

    def _seen(self: Any, element: DType, layout: Layout) -> Any:
        """The same memory as elements of another dtype."""
        block = self.buffer.live_block("view")
        holder = block.holder
        tensor = type(self)(reinterpreted(self.buffer, element), layout)
        block.holder = holder  # who ends with the executor
        return tensor


class TracedParts(Parts):
    """The same in functions that are traced, whose memory nobody sees: by operations."""

    __slots__ = ()

    def _part(self, k: int) -> Any:
        return _marked(operations.imag(self) if k else operations.real(self))

    def _pairs(self) -> Any:
        check_complex(self.dtype)  # type: ignore[attr-defined]
        return _marked(operations.pairs(self))

    def _joined(self: Any) -> Any:
        check_pairs(self.dtype, self.shape)
        return _marked(operations.joined(self))


def _marked(copied: Any) -> Any:
    """What is a view elsewhere, so that nobody writes to it."""
    copied.buffer.is_part = True
    return copied


def castable(source: DType, target: Any) -> DType:
    """The dtype that elements of another are converted to; refuses to lose imaginary parts without a word."""
    wanted = dtype(target)
    if source.is_complex and not wanted.is_complex and wanted is not bool_:
        raise UnsupportedDType(f"astype: {source} to {wanted} loses the imaginary parts: use x.real")
    return wanted


def check_complex(given: DType) -> None:
    """Refuses what has no parts."""
    if not given.is_complex:
        raise UnsupportedDType(f"view_as_real: complex numbers are needed, got {given}")


def check_pairs(given: DType, shape: tuple[int, ...]) -> None:
    """Refuses what no pairs of parts lie in."""
    if given.complex.part is not given:
        raise UnsupportedDType(f"view_as_complex: parts must be f32 or f64, got {given}")
    if not shape or shape[-1] != 2:
        raise ShapeError(f"view_as_complex: the last axis must be of two parts, got shape {shape}")


def with_complex(operands: Sequence[Any], made: Callable[[np.ndarray], Any]) -> Sequence[Any]:
    """Operands with Python's complex numbers as tensors without axes: of the dtype that those beside them ask for."""
    if not any(isinstance(x, complex) for x in operands):
        return operands
    known = [x.dtype for x in operands if isinstance(x, Strided)]
    beside = reduce(promote, known) if known else f32
    return [made(np.asarray(x, beside.complex.numpy)) if isinstance(x, complex) else x for x in operands]
