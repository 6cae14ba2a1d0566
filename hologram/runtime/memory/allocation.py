"""The memory of an executor: blocks from its pools, for as long as it is open."""

from __future__ import annotations

import math
import weakref
from typing import Any

from hologram.foundation import dtypes, forks
from hologram.foundation.bounded_caches import FIFOCache
from hologram.foundation.dtypes import DType
from hologram.foundation.errors import BackendUnavailable, BufferFreed, UnsupportedDType
from hologram.foundation.sizes import plain
from hologram.machine.device import Device
from hologram.machine.layout import Layout
from hologram.machine.limits import Limits
from hologram.runtime.dispatch import Dispatch
from hologram.runtime.launches import recording
from hologram.runtime.memory.blocks import Block, storage_bytes
from hologram.runtime.memory.boundary_pool import CLASS_BYTES, BoundaryPool
from hologram.runtime.memory.memory_pool import Pool

MAX_KINDS = 8192
recordings = recording.Recording.open


class BufferSpec:
    """What buffers of one shape and dtype share: `layout` is that of all their elements, `free_list` where blocks for
    them wait; see Pool.
    """

    __slots__ = ("dtype", "free_list", "layout", "nbytes", "shape", "size")

    def __init__(self, shape: tuple[int, ...], dtype: DType, free_list: list[Any] | None = None) -> None:
        self.shape = shape
        self.dtype = dtype
        self.layout = Layout.contiguous(dtype, shape)
        self.size = math.prod(shape)
        self.nbytes = self.size * dtype.itemsize
        self.free_list: list[Any] = [] if free_list is None else free_list


class Allocation(Dispatch):
    """An open device and its pools: the ground of an executor. Any thread may allocate."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.limits: Limits = device.limits
        self.pool = Pool(device)
        self.boundary = BoundaryPool(self.pool)
        self.closed = False
        self.usable = True  # neither closed nor in a forked process
        self.kinds: FIFOCache[tuple[tuple[int, ...], str], BufferSpec] = FIFOCache(MAX_KINDS)
        opened.add(self)

    def kind(self, shape: tuple[int, ...], dtype: DType) -> BufferSpec:
        """What all buffers of a shape and dtype share."""
        kind = self.kinds.get((shape, dtype.name))
        if kind is None:
            nbytes = plain(math.prod(shape) * dtype.itemsize)
            small = nbytes <= CLASS_BYTES
            free_list = (
                self.boundary.free_list(nbytes) if small else self.pool.free_list(storage_bytes(nbytes))
            )
            kind = self.kinds.keep((shape, dtype.name), BufferSpec(shape, dtype, free_list))
        return kind

    def block(self, kind: BufferSpec) -> Block:
        """A block for a buffer of a kind, contents undefined; raises OutOfMemory."""
        if not self.usable or self.pool.foreign or self.pool.returned:
            self.check_open()
            self.pool.release_foreign()
        try:
            block = kind.free_list.pop()
        except IndexError:
            nbytes = plain(kind.nbytes)
            block = self.boundary.take_any(nbytes) or self.pool.take(storage_bytes(nbytes))
            if recordings:
                recording.given(block, kind.nbytes)
            return block
        pool = block.pool  # as `issue` does, without a call: every result begins here
        issued_bytes = pool.issued_bytes = pool.issued_bytes + block.nbytes
        if issued_bytes > pool.peak:
            pool.peak = issued_bytes
        if recordings:
            recording.given(block, kind.nbytes)
        return block

    def supported(self, dtype: Any, who: str = "") -> DType:
        """A dtype by any of its names; raises UnsupportedDType for one that the device lacks."""
        element = dtype if type(dtype) is DType else dtypes.dtype(dtype)
        if element.name not in self.limits.dtype_names:
            info = self.device.info
            raise UnsupportedDType(f"{who}{': ' if who else ''}{info.backend} ({info.name}) has no {element}")
        return element

    def check_open(self) -> None:
        """Raises BufferFreed once the executor is closed, BackendUnavailable in a forked process."""
        if self.closed:
            raise BufferFreed("the executor is closed")
        if not self.usable:
            raise BackendUnavailable(
                f"an executor cannot be used in a forked process: {forks.REMEDY}, or compute on the CPU there"
            )


opened: weakref.WeakSet[Allocation] = weakref.WeakSet()
