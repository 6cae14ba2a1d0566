"""Operands that a fused operation reads at positions it computes itself: tables, and what is looked up in them."""

from __future__ import annotations

from collections.abc import Sequence

from hologram.atlas.builder import Builder, Value
from hologram.atlas.program import BufferParameter
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.foundation.frozen import frozen
from hologram.machine.layout import Layout


def scalar(builder: Builder, kind: str, number: int, scalars: dict[str, int]) -> Value:
    """A scalar of the launch; equal numbers share one."""
    known = [n for n, x in scalars.items() if x == number and n.startswith(kind)]
    name = known[0] if known else f"{kind}_{len(scalars)}"
    scalars[name] = number
    return builder.scalar(name, dtypes.index)


@frozen
class Reached:
    """An operand in memory, as a declaration that reads where it likes is handed it."""

    builder: Builder
    buffer: BufferParameter
    layout: Layout
    scalars: dict[str, int]

    @property
    def ndim(self) -> int:
        return max(self.layout.ndim, 1)

    @property
    def dtype(self) -> DType:
        """Of the elements as they lie in memory."""
        return self.layout.dtype

    @property
    def parameter(self) -> BufferParameter:
        return self.buffer

    @property
    def computed(self) -> DType:
        return self.layout.dtype.computed

    def extent(self, axis: int) -> Value:
        """Size along an axis, as an index."""
        sizes = self.layout.shape or (1,)
        return scalar(self.builder, "extent", sizes[axis], self.scalars)

    def at(self, *coordinates: Value) -> Value:
        """The element there, in the dtype that kernels compute with."""
        return self.builder.load(self.buffer, self.position(coordinates)).to(self.computed)

    def put(self, value: Value, *coordinates: Value) -> None:
        """Stores a value there, converted to the operand's dtype."""
        self.builder.store(self.buffer, self.position(coordinates), value.to(self.layout.dtype))

    def position(self, coordinates: Sequence[Value]) -> Value:
        """The element's place in memory."""
        b, total = self.builder, None
        for place, stride in zip(coordinates, self.layout.strides or (0,), strict=True):
            if stride:
                term = place if stride == 1 else place * scalar(b, "stride", stride, self.scalars)
                total = term if total is None else total + term
        if self.layout.offset or total is None:
            offset = scalar(b, "offset", self.layout.offset, self.scalars)
            total = offset if total is None else total + offset
        return total


@frozen
class Pulled:
    """An operand whose element at the lane's own coordinates, the only one that is asked for, is computed already."""

    value: Value

    def at(self, *coordinates: Value) -> Value:
        """The element, in the dtype that kernels compute with."""
        return self.value.to(self.value.dtype.computed)
