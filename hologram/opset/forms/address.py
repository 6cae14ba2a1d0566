"""Addresses: the part of a layout that shapes a kernel's code, and the numbers that are left to the launch.

A stride of 0 or 1 is written into the kernel, any other arrives as a scalar; so one kernel serves all shapes, and
contiguous and broadcast operands cost no arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence

from hologram.atlas.builder import Builder, Value
from hologram.atlas.program import Access
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.foundation.frozen import frozen
from hologram.machine.layout import Layout


@frozen(slots=True)
class Address:
    """How a kernel finds an operand's elements: for each axis a stride of 0, of 1, or None for a scalar."""

    dtype: DType
    steps: tuple[int | None, ...]
    shifted: bool  # whether an offset is added

    @staticmethod
    def of(layout: Layout) -> Address:
        return Address(
            layout.dtype, tuple(s if s in (0, 1) else None for s in layout.strides), layout.offset != 0
        )

    @staticmethod
    def scalars(layout: Layout) -> tuple[int, ...]:
        """The launch scalars of an operand, in the order Operand asks for them."""
        offset = (layout.offset,) if layout.offset else ()
        return offset + tuple(s for s in layout.strides if s not in (0, 1))


class Operand:
    """A buffer parameter read or written at coordinates, with its layout's scalars."""

    def __init__(
        self, builder: Builder, name: str, address: Address, access: Access, computed: DType
    ) -> None:
        self.builder = builder
        self.address = address
        self.parameter = builder.buffer(name, address.dtype, access)
        self.computed = computed
        self._offset = builder.scalar(f"{name}_offset", dtypes.index) if address.shifted else None
        self._strides = [
            builder.scalar(f"{name}_stride_{axis}", dtypes.index) if step is None else step
            for axis, step in enumerate(address.steps)
        ]

    @property
    def dtype(self) -> DType:
        """Of the elements as they lie in memory."""
        return self.address.dtype

    def position(self, coordinates: Sequence[Value]) -> Value:
        """The element position of the coordinates."""
        total = self._offset
        for coordinate, stride in zip(coordinates, self._strides, strict=True):
            if isinstance(stride, int) and stride == 0:
                continue
            term = coordinate if isinstance(stride, int) else coordinate * stride
            total = term if total is None else total + term
        return self.builder.constant(0, dtypes.index) if total is None else total

    def at(self, *coordinates: Value) -> Value:
        """The element there, in the dtype the kernel computes with."""
        return self.builder.load(self.parameter, self.position(coordinates)).to(self.computed)

    def put(self, value: Value, *coordinates: Value) -> None:
        """Stores a value there, converted to the operand's dtype."""
        self.builder.store(self.parameter, self.position(coordinates), value.to(self.address.dtype))
