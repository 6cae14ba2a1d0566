"""Views: what an executor computes on, a layout over a buffer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hologram.layout import Layout
from hologram.runtime.allocation import Allocation
from hologram.runtime.buffer import Buffer
from hologram.strided import Strided

if TYPE_CHECKING:
    from typing_extensions import Self


class View(Strided):
    """Elements of a buffer: a Layout (dtype, shape, strides, offset) over it."""

    __slots__ = ("buffer", "layout")

    def __init__(self, buffer: Buffer, layout: Layout) -> None:
        self.buffer = buffer
        self.layout = layout

    @property
    def executor(self) -> Allocation:
        return self.buffer.executor

    def _view(self, layout: Layout) -> Self:
        return type(self)(self.buffer, layout)

    @property
    def key(self) -> tuple[int, Layout] | None:
        """What launches are cached by; None once the buffer is freed."""
        key = self.buffer.key
        return None if key is None else (key, self.layout)


def whole(buffer: Buffer) -> View:
    """All of a buffer."""
    return View(buffer, buffer.kind.layout)


def overlaps(a: View, b: View) -> bool:
    """Whether two views share bytes."""
    if a.buffer.block is not b.buffer.block or not a.size or not b.size:
        return False
    (a_low, a_high), (b_low, b_high) = a.layout.span, b.layout.span
    return (
        a_low * a.dtype.itemsize < b_high * b.dtype.itemsize
        and b_low * b.dtype.itemsize < a_high * a.dtype.itemsize
    )
