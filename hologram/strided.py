"""What is seen through a layout: shape, dtype, and every view, which costs no memory and touches none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hologram.dtypes import DType
from hologram.errors import ShapeError
from hologram.layout import Layout, normalize_axes, normalize_axis

if TYPE_CHECKING:
    from typing import Self


class Strided:
    """What has a `layout` and gives, for another one, the view of itself that it describes."""

    __slots__ = ()
    layout: Layout

    def _view(self, layout: Layout) -> Self:
        raise NotImplementedError

    def contiguous(self) -> Self:
        """The same elements without gaps; a copy if they lie otherwise."""
        raise NotImplementedError

    @property
    def shape(self) -> tuple[int, ...]:
        return self.layout.shape

    @property
    def strides(self) -> tuple[int, ...]:
        """Strides, in elements."""
        return self.layout.strides

    @property
    def offset(self) -> int:
        """The first element's position in the buffer, in elements."""
        return self.layout.offset

    @property
    def dtype(self) -> DType:
        return self.layout.dtype

    @property
    def ndim(self) -> int:
        return len(self.layout.shape)

    @property
    def size(self) -> int:
        return self.layout.size

    def reshape(self, *shape: int | Sequence[int]) -> Self:
        """The same elements in another shape (one size may be -1); a copy only where strides cannot express it."""
        wanted = _ints(shape, "reshape")
        layout = self.layout.reshape(wanted)
        return self._view(layout) if layout is not None else self.contiguous().reshape(wanted)

    def view_1d(self) -> Self:
        """All elements along one axis, without a copy; ShapeError where strides cannot express it."""
        layout = self.layout.reshape((-1,)) if self.size else self.layout.reshape((0,))
        if layout is None:
            raise ShapeError(
                f"view_1d: strides {self.strides} of shape {self.shape} have no 1-D view; use reshape(-1)"
            )
        return self._view(layout)

    def permute(self, *axes: int | Sequence[int]) -> Self:
        """Axes in another order."""
        return self._view(self.layout.permute(_ints(axes, "permute")))

    def transpose(self, first: int = -2, second: int = -1) -> Self:
        """Two axes exchanged."""
        order = list(range(self.ndim))
        a, b = (normalize_axis(axis, self.ndim, "transpose") for axis in (first, second))
        order[a], order[b] = order[b], order[a]
        return self._view(self.layout.permute(order))

    @property
    def T(self) -> Self:  # noqa: N802  (the array API's name)
        """The transpose of a matrix."""
        if self.ndim != 2:
            raise ShapeError(f"T: a tensor of 2 axes is needed, got {self.shape}; use permute")
        return self.transpose(0, 1)

    @property
    def mT(self) -> Self:  # noqa: N802  (the array API's name)
        """The last two axes exchanged."""
        return self.transpose(-2, -1)

    def select(self, axis: int, position: int) -> Self:
        """One position along an axis, which disappears."""
        return self._view(self.layout.select(axis, position))

    def narrow(self, axis: int, start: int, length: int) -> Self:
        """`length` positions along an axis from `start` on."""
        axis = normalize_axis(axis, self.ndim, "narrow")
        n = self.shape[axis]
        if start < 0 or length < 0 or start + length > n:
            raise ShapeError(
                f"narrow: [start, start + length) must lie in [0, {n}], got start {start}, length {length}"
            )
        return self._view(self.layout.narrow(axis, start, length))

    def slice(
        self, axis: int, start: int | None = None, stop: int | None = None, step: int | None = None
    ) -> Self:
        """A Python slice along one axis; the step may be negative."""
        return self._view(self.layout.slice(axis, slice(start, stop, step)))

    def expand(self, *shape: int | Sequence[int]) -> Self:
        """Broadcast to a shape; the new axes and the axes of size 1 repeat the same memory."""
        return self._view(self.layout.expand(_ints(shape, "expand")))

    def squeeze(self, axis: int | Sequence[int] | None = None) -> Self:
        """Without the axes of size 1 (all, or those named)."""
        if axis is None:
            axes = [k for k, n in enumerate(self.shape) if n == 1]
        else:
            axes = normalize_axes(axis, self.ndim, "squeeze")
        layout = self.layout
        for k in reversed(axes):
            if self.shape[k] != 1:
                raise ShapeError(f"squeeze: axis {k} must have size 1, got shape {self.shape}")
            layout = layout.squeeze(k)
        return self._view(layout)

    def unsqueeze(self, axis: int) -> Self:
        """With a new axis of size 1 at that place."""
        return self._view(self.layout.unsqueeze(normalize_axis(axis, self.ndim + 1, "unsqueeze")))

    def flatten(self) -> Self:
        """All elements along one axis; a copy only where strides cannot express it."""
        return self.reshape(self.size)


def _ints(given: tuple[Any, ...], who: str) -> tuple[int, ...]:
    """Sizes or axes given one by one or as one sequence."""
    if len(given) == 1 and isinstance(given[0], (tuple, list)):
        given = tuple(given[0])
    for g in given:
        if isinstance(g, bool) or not isinstance(g, (int, np.integer)):
            raise TypeError(f"{who}: integers are needed, got {g!r}")
    return tuple(map(int, given))
