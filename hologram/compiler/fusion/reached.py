"""Operands that a fused operation reads at positions it computes itself: tables, and what is looked up in them."""

from __future__ import annotations

from hologram import dtypes
from hologram.atlas.builder import Builder, Value
from hologram.atlas.program import BufferParameter
from hologram.dtypes import DType
from hologram.layout import Layout
from hologram.opset.forms import types
from hologram.records import frozen


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
    def computed(self) -> DType:
        return types.computing(self.layout.dtype)

    def extent(self, axis: int) -> Value:
        """Size along an axis, as an index."""
        sizes = self.layout.shape or (1,)
        return scalar(self.builder, "extent", sizes[axis], self.scalars)

    def at(self, *coordinates: Value) -> Value:
        """The element there, in the dtype that kernels compute with."""
        b, total = self.builder, None
        for place, stride in zip(coordinates, self.layout.strides or (0,), strict=True):
            if stride:
                term = place if stride == 1 else place * scalar(b, "stride", stride, self.scalars)
                total = term if total is None else total + term
        if self.layout.offset or total is None:
            offset = scalar(b, "offset", self.layout.offset, self.scalars)
            total = offset if total is None else total + offset
        return b.load(self.buffer, total).to(self.computed)
