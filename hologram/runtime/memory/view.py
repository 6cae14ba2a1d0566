"""Views: what an executor computes on, a layout over a buffer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hologram.machine.layout import Layout
from hologram.machine.strided import Strided
from hologram.runtime.memory.allocation import Allocation
from hologram.runtime.memory.buffer import Buffer

if TYPE_CHECKING:
    from typing_extensions import Self


LARGE = 1 << 20  # bytes, or elements, from which on it may matter where in a cache line an output begins
LINE = 64  # bytes of a cache line


class View(Strided):
    """Elements of a buffer: a Layout (dtype, shape, strides, offset) over it."""

    __slots__ = ("buffer", "layout")

    def __init__(self, buffer: Buffer = None, layout: Layout = None) -> None:  # type: ignore[assignment]
        if layout is None:
            raise TypeError(
                "a Tensor is a view of a buffer; hg.asarray([1, 2]) makes one of numbers, lists and arrays"
            )
        self.buffer = buffer
        self.layout = layout

    __init__.__qualname__ = "Tensor"  # in Python's own errors

    @property
    def executor(self) -> Allocation:
        return self.buffer.executor

    def _view(self, layout: Layout) -> Self:
        return type(self)(self.buffer, layout)

    @property
    def key(self) -> tuple[Any, Layout]:
        """What tells elements of memory apart from others."""
        return self.buffer.block, self.layout


def whole(buffer: Buffer) -> View:
    """All of a buffer."""
    return View(buffer, buffer.kind.layout)


def overlaps(a: View, b: View) -> bool:
    """Whether two views share bytes."""
    one, other = a.buffer.block, b.buffer.block
    if one is not other and (one is None or other is None or not (one.adopted or other.adopted)):
        return False
    if not a.size or not b.size:
        return False
    assert one is not None
    assert other is not None
    return _meet(a.layout, one.place, b.layout, other.place)


def sharing(layouts: Sequence[Any], places: Sequence[Any], outputs: range) -> tuple[int, ...] | None:
    """How the operands that are outputs lie beside others in memory, as part of a key.

    Pairs of an operand and the output that it is, place by place; one number below 0 for two that begin at one place
    and share no element, as a device may bind them as one; before all, of large outputs, where they begin within a
    cache line. None where one shares memory with another in any other way. Layouts are as they were placed, so that
    nothing lies before its place: see Layout.placed.
    """
    key: tuple[int, ...] = ()
    for j in outputs:
        layout, place = layouts[j], places[j]
        if type(layout) is not Layout:  # no output at all
            return None
        nbytes = layout.reach_bytes
        if nbytes >= LARGE:
            key = (place % LINE, *key)
        k = -1
        for other in layouts:
            k += 1
            if type(other) is not Layout or k == j or not -nbytes < place - places[k] < other.reach_bytes:
                continue
            if other is layout and places[k] == place and k not in outputs:
                key += (k, j - outputs.start)
            elif _meet(other, places[k], layout, place):
                return None
            elif places[k] == place:
                key += (~(k + len(layouts) * (j - outputs.start)),)
    return key


def _meet(a: Layout, a_place: int, b: Layout, b_place: int) -> bool:
    """Whether what lies so at two places shares bytes."""
    if not (a.size and b.size):
        return False
    (a_low, a_high), (b_low, b_high) = a.span, b.span
    return (
        a_place + a_low * a.dtype.itemsize < b_place + b_high * b.dtype.itemsize
        and b_place + b_low * b.dtype.itemsize < a_place + a_high * a.dtype.itemsize
    )
