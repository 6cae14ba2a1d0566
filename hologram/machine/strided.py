"""What is seen through a layout: shape, dtype, and every view, which costs no memory and touches none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hologram.foundation.display import called_by_name
from hologram.foundation.dtypes import DType
from hologram.foundation.errors import ShapeError
from hologram.machine.arguments import memory_order
from hologram.machine.axes import normalize_axes, normalize_axis, whole
from hologram.machine.layout import Layout, cached_view

if TYPE_CHECKING:
    from typing import Self


@called_by_name
class Strided:
    """What has a `layout` and gives, for another one, the view of itself that it describes."""

    __slots__ = ()
    layout: Layout

    def _view(self, layout: Layout) -> Self:
        raise NotImplementedError

    def contiguous(self) -> Self:
        """The same elements without gaps; a copy if they lie otherwise."""
        raise NotImplementedError

    def clone(self) -> Self:
        """A contiguous copy."""
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

    def _through(self, how: Callable[..., Layout | None], *arguments: Any) -> Any:
        """The view that `how` makes of the layout; None where it makes none."""
        try:
            layout = cached_view(self.layout, how, *arguments)
        except TypeError:  # an argument has no hash, or is refused: `how` says in words which
            layout = how(self.layout, *arguments)
        return None if layout is None else self._view(layout)

    def reshape(self, *shape: int | Sequence[int], order: str | None = "C", copy: bool | None = None) -> Self:
        """The same elements in another shape (one size may be -1); a copy only where strides cannot express it.

        They are read and placed row by row ("C"), by columns ("F"), or ("A") by columns where they lie so. With `copy`
        always or never: ValueError where it would need one.
        """
        # A call costs as much as half of the rest.
        sizes: Sequence[Any] = shape if len(shape) != 1 or type(shape[0]) is int else _one_by_one(shape)
        if order != "C" or copy is not None:
            return self._arranged(sizes, order, copy)
        view = self._through(_reshaped, *sizes)
        return self.contiguous().reshape(*sizes) if view is None else view

    def _arranged(self, shape: Sequence[int], order: str | None, copy: bool | None) -> Self:
        if self._by_columns(memory_order(order, "reshape")):
            return self.T.reshape(tuple(shape)[::-1], copy=copy).T
        if copy is False and self._through(_reshaped, *shape) is None:
            raise ValueError(f"reshape: {self.shape} to {tuple(shape)} needs a copy")
        return (self.clone() if copy else self).reshape(*shape)

    def _by_columns(self, order: str) -> bool:
        """Whether NumPy's `order` reads it by columns: "F", or "A" of elements that lie so."""
        lies = order == "A" and not self.layout.is_contiguous and self.T.layout.is_contiguous
        return order == "F" or lies

    def view_1d(self) -> Self:
        """All elements along one axis, without a copy; ShapeError where strides cannot express it."""
        view = self._through(Layout.reshape, (self.size,))
        if view is None:
            raise ShapeError(
                f"view_1d: strides {self.strides} of shape {self.shape} have no 1-D view; use reshape(-1)"
            )
        return view

    def permute(self, *axes: int | Sequence[int]) -> Self:
        """Axes in another order."""
        return self._through(_permuted, *_one_by_one(axes))

    def transpose(self, *axes: int | Sequence[int] | None) -> Self:
        """Axes in another order, by default the reverse, as in NumPy; or two of more exchanged, as in PyTorch.

        `x.transpose(0, 1)` of a matrix, which leaves it as it is in NumPy and not in PyTorch, raises ShapeError.
        """
        return self._through(_transposed, *_one_by_one(axes))

    def swapaxes(self, axis1: int, axis2: int) -> Self:
        """Two axes exchanged."""
        return self._through(Layout.transpose, axis1, axis2)

    @property
    def T(self) -> Self:  # noqa: N802  (the array API's name)
        """The axes in reverse order: of a matrix its transpose."""
        return self._through(_transposed)

    @property
    def mT(self) -> Self:  # noqa: N802  (the array API's name)
        """The last two axes exchanged."""
        return self._through(Layout.transpose, -2, -1)

    def select(self, axis: int, position: int) -> Self:
        """One position along an axis, which disappears."""
        return self._through(Layout.select, axis, position)

    def narrow(self, axis: int, start: int, length: int) -> Self:
        """`length` positions along an axis from `start` on."""
        return self._through(_narrowed, axis, start, length)

    def slice(
        self, axis: int, start: int | None = None, stop: int | None = None, step: int | None = None
    ) -> Self:
        """A Python slice along one axis; the step may be negative."""
        return self._through(Layout.slice, axis, start, stop, step)

    def expand(self, *shape: int | Sequence[int]) -> Self:
        """Broadcast to a shape; the new axes and the axes of size 1 repeat the same memory."""
        return self._through(_expanded, *_one_by_one(shape))

    def squeeze(self, axis: int | Sequence[int] | None = None) -> Self:
        """Without the axes of size 1 (all, or those named)."""
        return self._through(_squeezed, *_one_by_one((axis,)))

    def unsqueeze(self, axis: int) -> Self:
        """With a new axis of size 1 at that place."""
        return self._through(_unsqueezed, axis)


def _one_by_one(given: tuple[Any, ...]) -> Sequence[Any]:
    """Sizes or axes that may have come as one sequence."""
    return given[0] if len(given) == 1 and isinstance(given[0], (tuple, list)) else given


def _reshaped(layout: Layout, *shape: int) -> Layout | None:
    return layout.reshape(_ints(shape, "reshape"))


def _permuted(layout: Layout, *axes: int) -> Layout:
    return layout.permute(_ints(axes, "permute"))


def _expanded(layout: Layout, *shape: int) -> Layout:
    return layout.expand(_ints(shape, "expand"))


def _transposed(layout: Layout, *axes: Any) -> Layout:
    if axes in ((), (None,)):
        return layout.permute(tuple(range(layout.ndim))[::-1])
    if len(axes) == 2 and layout.ndim == 2:
        first, second = (normalize_axis(k, 2, "transpose") for k in axes)
        if (first, second) == (0, 1):
            raise ShapeError(
                "transpose: these axes of a matrix leave it as it is in NumPy and exchange them in PyTorch; write T, "
                f"swapaxes{axes} or permute{axes}"
            )
    elif len(axes) == 2:
        return layout.transpose(*axes)
    return layout.permute(_ints(axes, "transpose"))


def _narrowed(layout: Layout, axis: int, start: int, length: int) -> Layout:
    axis = normalize_axis(axis, layout.ndim, "narrow")
    start, length, n = whole(start, "narrow: start"), whole(length, "narrow: length"), layout.shape[axis]
    if start < 0 or length < 0 or start + length > n:
        raise ShapeError(
            f"narrow: [start, start + length) must lie in [0, {n}], got start {start}, length {length}"
        )
    return layout.narrow(axis, start, length)


def _squeezed(layout: Layout, *named: Any) -> Layout:
    if named == (None,):
        axes = tuple(k for k, n in enumerate(layout.shape) if n == 1)
    else:
        axes = normalize_axes(named, layout.ndim, "squeeze")
    for k in reversed(axes):
        if layout.shape[k] != 1:
            raise ShapeError(f"squeeze: axis {k} must have size 1, got shape {layout.shape}")
        layout = layout.squeeze(k)
    return layout


def _unsqueezed(layout: Layout, axis: int) -> Layout:
    return layout.unsqueeze(normalize_axis(axis, layout.ndim + 1, "unsqueeze"))


def _ints(given: tuple[Any, ...], who: str) -> tuple[int, ...]:
    for g in given:
        if isinstance(g, bool) or not isinstance(g, (int, np.integer)):
            raise TypeError(f"{who}: integers are needed, got {g!r}")
    return tuple(g if issubclass(type(g), int) else int(g) for g in given)
