"""Sums of cotangents: what arrives at a value from all who read it, through whatever view."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from hologram.frontend import tensor as tensors
from hologram.frontend.tensor import Tensor
from hologram.machine.layout import Layout
from hologram.machine.merging import collapse
from hologram.opset.movement import concat
from hologram.opset.padding import pad
from hologram.opset.reduce import sum_


def sum_to(cotangent: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Summed over the axes that broadcasting from `shape` added or stretched."""
    if cotangent.shape == shape:
        return cotangent
    lead = cotangent.ndim - len(shape)
    stretched = [k + lead for k, n in enumerate(shape) if n == 1 and cotangent.shape[k + lead] != 1]
    axes = (*range(lead), *stretched)
    total = sum_(cotangent, axis=axes, keepdims=True) if axes else cotangent
    return total.reshape(shape)


class Cotangent:
    """The cotangent of a value that lies contiguous, as `layout` says."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.whole: Tensor | None = None
        self.parts: dict[Layout, Tensor] = {}  # of those who read a part

    def add(self, read: Layout, cotangent: Tensor) -> None:
        """Adds what arrives through a view."""
        arrived = sum_to(cotangent, read.shape)
        if arrived.dtype.is_complex and not self.layout.dtype.is_complex:
            arrived = arrived.real
        if arrived.dtype != self.layout.dtype:
            arrived = arrived.astype(self.layout.dtype)
        if read != self.layout:
            arrived, read = _flattened(arrived, read)
        if _covers(read, self.layout):
            arrived = arrived.reshape(self.layout.shape)
            self.whole = arrived if self.whole is None else self.whole + arrived
        else:
            self.parts[read] = self.parts[read] + arrived if read in self.parts else arrived

    def total(self) -> Tensor | None:
        """The sum, or None if nothing arrived."""
        if self.parts:
            joined = self._joined()
            joined = self._written() if joined is None else joined
            self.whole = joined if self.whole is None else self.whole + joined
            self.parts.clear()
        return self.whole

    def _joined(self) -> Tensor | None:
        """The parts and zeros between them side by side, if they are pieces along one axis that do not overlap."""
        for axis in range(self.layout.ndim):
            pieces = sorted(self._pieces(axis), key=lambda piece: piece[:2])
            apart = all(a[1] <= b[0] for a, b in pairwise(pieces))
            if apart and len(pieces) == len(self.parts):
                return self._side_by_side(axis, pieces)
        return None

    def _pieces(self, axis: int) -> Iterator[tuple[int, int, Tensor]]:
        """The parts that are pieces along an axis, with where they start and end."""
        whole = self.layout
        for read, tensor in self.parts.items():
            start = (read.offset - whole.offset) // max(whole.strides[axis], 1)
            length = read.size * whole.shape[axis] // whole.size
            if start + length > whole.shape[axis]:
                continue
            # However it is split into axes.
            if collapse([whole.narrow(axis, start, length)]) == collapse([read]):
                yield start, start + length, tensor

    def _side_by_side(self, axis: int, pieces: Sequence[tuple[int, int, Tensor]]) -> Tensor:
        before, after = self.layout.shape[:axis], self.layout.shape[axis + 1 :]
        if len(pieces) == 1:
            ((start, end, tensor),) = pieces
            around = [(0, 0)] * self.layout.ndim
            around[axis] = (start, self.layout.shape[axis] - end)
            return pad(tensor.reshape(*before, end - start, *after), padding=tuple(around))
        zero = tensors.full(pieces[0][2].executor, (), 0, self.layout.dtype)
        parts, at = [], 0
        for start, end, tensor in pieces:
            parts += [zero.expand(*before, start - at, *after), tensor.reshape(*before, end - start, *after)]
            at = end
        parts.append(zero.expand(*before, self.layout.shape[axis] - at, *after))
        return concat([t for t in parts if t.size], axis=axis)

    def _written(self) -> Tensor:
        """The parts added to zeros, one after the other."""
        engine = next(iter(self.parts.values())).executor
        sums = tensors.full(engine, self.layout.shape, 0, self.layout.dtype)
        for read, tensor in self.parts.items():
            target = sums._view(replace(read, offset=read.offset - self.layout.offset))
            engine.copy(target + tensor, target)
        return sums


def _flattened(cotangent: Tensor, read: Layout) -> tuple[Tensor, Layout]:
    """As if read with positive strides in falling order; what was read more than once is summed."""
    repeated = tuple(
        k for k, (n, s) in enumerate(zip(read.shape, read.strides, strict=True)) if n > 1 and not s
    )
    if repeated:
        cotangent = sum_(cotangent, axis=repeated, keepdims=True)
    for axis, (n, stride) in enumerate(zip(read.shape, read.strides, strict=True)):
        if n > 1 and stride < 0:
            cotangent, read = cotangent.slice(axis, None, None, -1), read.slice(axis, None, None, -1)
    order = _falling(read)
    flat = cotangent.permute([*order, *(k for k in range(cotangent.ndim) if k not in order)])
    plain = _plain(read)
    return flat.reshape(plain.shape), plain


def _falling(read: Layout) -> list[int]:
    """Axes of more than one element, by falling stride; those that repeat elements are none."""
    kept = [k for k, (n, s) in enumerate(zip(read.shape, read.strides, strict=True)) if n > 1 and s]
    return sorted(kept, key=lambda k: -read.strides[k])


def _plain(read: Layout) -> Layout:
    order = _falling(read)
    shape, strides = (tuple(x[k] for k in order) for x in (read.shape, read.strides))
    return replace(read, shape=shape, strides=strides, repeats=False)


def _covers(read: Layout, whole: Layout) -> bool:
    """Whether a view with falling strides is all of what lies there, in its order."""
    return read.size == whole.size and read.offset == whole.offset and read.is_contiguous
