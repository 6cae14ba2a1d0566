"""Takes arrays of other libraries into an executor, without a copy where its device can use their memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from hologram.foundation import dtypes
from hologram.foundation.errors import InteropError
from hologram.machine.layout import Layout
from hologram.runtime.engine import Engine
from hologram.runtime.interchange.dlpack import HostRange, contiguous_strides, host_array
from hologram.runtime.interchange.foreign import ForeignArray, foreign_array
from hologram.runtime.memory.allocation import BufferSpec
from hologram.runtime.memory.buffer import Buffer
from hologram.runtime.memory.view import View, whole


def from_dlpack(executor: Engine, source: Any, copy: bool | None = None) -> View:
    """An array of another library (DLPack, the array interface, or the buffer protocol) for an executor to compute on.

    Memory is shared where the device can use it: host memory, writable, aligned to its elements. Everywhere else it is
    copied once; with `copy=False` InteropError is raised instead. Raises UnsupportedDType for elements of other dtypes.
    """
    if isinstance(source, Buffer) and source.executor is executor and not copy:
        return whole(source)
    foreign = foreign_array(source, executor.device)
    if foreign is not None:
        return _borrow(executor, foreign, copy)
    array = host_array(source)
    dtype = dtypes.dtype(array.dtype)
    obstacle = _obstacle(array)
    if not copy and obstacle is None:
        shared = _share(executor, array, dtype)
        if shared is not None:
            return shared
        obstacle = f"{executor.device.info.name} cannot use the host's memory"
    if copy is False:
        raise InteropError(f"from_dlpack: {obstacle}, so copy=False is impossible")
    return whole(executor.allocate(array.shape, dtype=dtype).from_numpy(array))


def _borrow(executor: Engine, array: ForeignArray, copy: bool | None) -> View:
    """An array in the device's own memory: that memory, or a copy within the device."""
    obstacle = "the array is read-only" if array.readonly else None
    if 0 in array.shape:
        return whole(executor.allocate(array.shape, dtype=array.dtype))
    if array.address % array.dtype.itemsize:
        raise InteropError(
            f"from_dlpack: the array at {array.address:#x} is not aligned to its {array.dtype}"
        )
    if copy is False and obstacle is not None:
        raise InteropError(f"from_dlpack: {obstacle}, so copy=False is impossible")
    first, last = array.span
    start = first - first % executor.limits.binding_alignment
    memory = executor.device.adopt_address(start, last - start, array.owner)
    block = executor.pool.adopt(memory, last - start)
    size, plain = (
        array.dtype.itemsize,
        array.strides == contiguous_strides(array.shape) and start == array.address,
    )
    shape = array.shape if plain else ((last - start) // size,)
    layout = Layout(array.dtype, array.shape, array.strides, (array.address - start) // size)
    view = View(Buffer(executor, block, BufferSpec(shape, array.dtype)), layout)
    if not copy and obstacle is None:
        return view
    copied = whole(executor.allocate(array.shape, dtype=array.dtype))
    executor.copy(view, copied)
    executor.device.synchronize()  # nobody says on which queue the array's owner may write to it next
    return copied


def _obstacle(array: np.ndarray) -> str | None:
    """Why no device can compute on the array's memory, or None."""
    if not array.flags.writeable:
        return "the array is read-only"
    if not array.flags.aligned:
        return "the array is not aligned to its elements"
    if array.size == 0:
        return "the array is empty"
    if any(stride % array.itemsize for stride in array.strides):
        return "a stride is not a whole number of elements"
    return None


def _share(executor: Engine, array: np.ndarray, dtype: dtypes.DType) -> View | None:
    """The array's own memory; None where the device cannot use it."""
    low, high = byte_bounds(array)
    data = np.asarray(HostRange(array, low, high - low))
    memory = executor.pool.with_room(executor.device.adopt, data.data)
    if memory is None:
        return None
    block = executor.pool.adopt(memory, high - low)
    contiguous = array.flags.c_contiguous
    shape = array.shape if contiguous else ((high - low) // array.itemsize,)
    offset = (array.ctypes.data - low) // array.itemsize
    strides = contiguous_strides(shape) if contiguous else tuple(s // array.itemsize for s in array.strides)
    return View(
        Buffer(executor, block, BufferSpec(shape, dtype)), Layout(dtype, array.shape, strides, offset)
    )
