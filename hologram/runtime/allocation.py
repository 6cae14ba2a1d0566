"""The memory of an executor: buffers from its pools, for as long as it is open."""

from __future__ import annotations

import math
import os
import weakref
from collections.abc import Sequence
from typing import Any

from hologram import dtypes
from hologram.device import Device
from hologram.dtypes import DType
from hologram.errors import BackendUnavailable, BufferFreed, UnsupportedDType
from hologram.limits import Limits
from hologram.runtime.boundary_pool import CLASS_BYTES, BoundaryPool
from hologram.runtime.buffer import Buffer, Kind
from hologram.runtime.memory_pool import Pool
from hologram.runtime.planner import storage_bytes
from hologram.runtime.validation import sizes

MAX_KINDS = 16384


class Allocation:
    """What Executor inherits: an open device, its pools, and the buffers in them. Any thread may allocate."""

    def __init__(self, device: Device, limits: Limits) -> None:
        self.device = device
        self.limits = limits
        self.pool = Pool(device)
        self.boundary = BoundaryPool(self.pool)
        self.closed = False
        self.usable = True  # neither closed nor in a forked process
        self._kinds: dict[tuple[tuple[int, ...], DType], Kind] = {}
        _open.add(self)

    def allocate(self, shape: int | Sequence[int], dtype: Any = dtypes.f32) -> Buffer:
        """A Buffer of a size or shape, contents undefined.

        Raises ShapeError for negative sizes, UnsupportedDType for a dtype the device lacks, OutOfMemory.
        """
        return self.new_buffer(self.kind(sizes(shape, "allocate"), self._supported(dtype)))

    def kind(self, shape: tuple[int, ...], dtype: DType) -> Kind:
        """What all buffers of a shape and dtype share."""
        found = self._kinds.get((shape, dtype))
        if found is None:
            if len(self._kinds) >= MAX_KINDS:
                self._kinds.clear()
            nbytes = math.prod(shape) * dtype.itemsize
            small = nbytes <= CLASS_BYTES
            shelf = self.boundary.shelf(nbytes) if small else self.pool.shelf(storage_bytes(nbytes))
            found = self._kinds.setdefault((shape, dtype), Kind(shape, dtype, shelf))
        return found

    def new_buffer(self, kind: Kind) -> Buffer:
        """A Buffer of a kind, contents undefined; raises OutOfMemory."""
        if not self.usable or self.pool.foreign:
            self._refresh()
        try:
            block = kind.shelf.pop()
        except IndexError:
            block = self.boundary.take_any(kind.nbytes) or self.pool.take(storage_bytes(kind.nbytes))
        else:
            block.home.lend(block)
        return Buffer(self, block, kind)

    def allocate_boundary(self, class_: int, pages: int = 1, dtype: Any = dtypes.u8) -> Buffer:
        """A Buffer over `pages` pages of 256 bytes in one of the 96 classes of the boundary pool."""
        element = self._supported(dtype)
        self.check_open()
        block = self.boundary.allocate(class_, pages)
        return Buffer(self, block, self.kind((block.nbytes // element.itemsize,), element))

    def _supported(self, dtype: Any) -> DType:
        element = dtypes.dtype(dtype)
        if element not in self.limits.dtypes:
            raise UnsupportedDType(
                f"{self.device.info.backend.value} ({self.device.info.name}) has no {element}"
            )
        return element

    def _refresh(self) -> None:
        """What an allocation does first where there is something to do."""
        self.check_open()
        self.pool.release_foreign()

    def check_open(self) -> None:
        if self.closed:
            raise BufferFreed("the executor is closed")
        if not self.usable:
            raise BackendUnavailable("an executor cannot be used in a forked process: open a new one there")


_open: weakref.WeakSet[Allocation] = weakref.WeakSet()


def _after_fork() -> None:
    """The child has the parent's executors, but neither the threads nor the drivers behind them."""
    for executor in _open:
        executor.usable = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
