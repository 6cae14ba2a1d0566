"""Takes arrays of other libraries into an executor, without a copy where its device can use their memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.lib.array_utils import byte_bounds

from hologram import dtypes
from hologram.device import Device
from hologram.errors import InteropError
from hologram.runtime.buffer import Buffer, Kind
from hologram.runtime.dlpack import HostRange, contiguous_strides, host_array
from hologram.runtime.memory_pool import Pool


@runtime_checkable
class Adopting(Protocol):
    """A device that can compute on memory of the host as it is."""

    def adopt(self, data: memoryview) -> Any:
        """A memory handle over the bytes, which it keeps alive until it is released."""
        ...


class Host(Protocol):
    """What importing needs of an executor."""

    @property
    def device(self) -> Device: ...
    @property
    def pool(self) -> Pool: ...
    def allocate(self, shape: Any, dtype: Any = ...) -> Buffer: ...


@dataclass(frozen=True)
class Imported:
    """A buffer over (or with a copy of) a foreign array, and where the array's elements lie in it, in elements."""

    buffer: Buffer
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int


def from_dlpack(executor: Host, source: Any, copy: bool | None = None) -> Imported:
    """An array of another library (DLPack, the array interface, or the buffer protocol) for an executor to compute on.

    Memory is shared where the device can use it: host memory, writable, aligned to its elements. Everywhere else it is
    copied once; with `copy=False` InteropError is raised instead. Raises UnsupportedDType for elements of other dtypes.
    """
    if isinstance(source, Buffer) and source.executor is executor and not copy:
        return Imported(source, source.shape, contiguous_strides(source.shape), 0)
    array = host_array(source)
    dtype = dtypes.dtype(array.dtype)
    obstacle = _obstacle(executor.device, array)
    if not copy and obstacle is None:
        return _share(executor, array, dtype)
    if copy is False:
        raise InteropError(f"from_dlpack: {obstacle}, so copy=False is impossible")
    buffer = executor.allocate(array.shape, dtype=dtype)
    buffer.from_numpy(array)
    return Imported(buffer, array.shape, contiguous_strides(array.shape), 0)


def _obstacle(device: Device, array: np.ndarray) -> str | None:
    """Why the device cannot compute on the array's memory, or None."""
    if not isinstance(device, Adopting):
        return f"{device.info.name} cannot use the host's memory"
    if not array.flags.writeable:
        return "the array is read-only"
    if not array.flags.aligned:
        return "the array is not aligned to its elements"
    if array.size == 0:
        return "the array is empty"
    if any(stride % array.itemsize for stride in array.strides):
        return "a stride is not a whole number of elements"
    return None


def _share(executor: Host, array: np.ndarray, dtype: dtypes.DType) -> Imported:
    low, high = byte_bounds(array)
    data = np.asarray(HostRange(array, low, high - low))
    memory = executor.device.adopt(data.data)  # type: ignore[attr-defined]  # _obstacle has asked
    block = executor.pool.adopt(memory, high - low)
    contiguous = array.flags.c_contiguous
    shape = array.shape if contiguous else ((high - low) // array.itemsize,)
    offset = (array.ctypes.data - low) // array.itemsize
    strides = contiguous_strides(shape) if contiguous else tuple(s // array.itemsize for s in array.strides)
    return Imported(Buffer(executor, block, Kind(shape, dtype)), array.shape, strides, offset)
