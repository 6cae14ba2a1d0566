"""Arrays of other libraries that lie in a device's own memory: DLPack capsules, and the interface of its vendor."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.foundation.errors import HologramError, InteropError, UnsupportedDType
from hologram.foundation.frozen import frozen
from hologram.machine.device import HOST_MEMORY, Device
from hologram.runtime.interchange.dlpack import READ_ONLY, contiguous_strides, inside


@frozen(eq=False)
class ForeignArray:
    """An array of somebody else's. Strides are in elements; `owner` keeps the memory alive."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: DType
    readonly: bool
    owner: Any

    @property
    def span(self) -> tuple[int, int]:
        """The first byte and the one behind the last."""
        reach = [(length - 1) * step for length, step in zip(self.shape, self.strides, strict=True)]
        first = self.address + self.dtype.itemsize * sum(r for r in reach if r < 0)
        return first, self.address + self.dtype.itemsize * (1 + sum(r for r in reach if r > 0))


def foreign_array(source: Any, device: Device) -> ForeignArray | None:
    """The array, if it lies in the device's own memory and not in the host's; what is enqueued later sees it computed.

    Raises InteropError for what its library does not give away, UnsupportedDType for elements of other dtypes.
    """
    if device.dlpack_device == HOST_MEMORY:
        return None
    try:
        if hasattr(source, "__dlpack__"):
            kind, index = source.__dlpack_device__()
            return _of_capsule(source, device) if (int(kind), int(index)) == device.dlpack_device else None
        if device.array_interface is not None and hasattr(source, device.array_interface):
            return _of_interface(source, getattr(source, device.array_interface), device)
    except HologramError:
        raise
    except (TypeError, ValueError, RuntimeError, BufferError, AttributeError) as error:
        raise InteropError(
            f"from_dlpack: {type(source).__name__} does not give its memory: {error}"
        ) from error
    return None


def _of_capsule(source: Any, device: Device) -> ForeignArray:
    """The capsule stays as it was made: when it goes, its destructor gives the memory back."""
    try:
        capsule = source.__dlpack__(stream=device.queue_handle, max_version=(1, 0))
    except TypeError:  # a producer from before DLPack 1.0
        capsule = source.__dlpack__(stream=device.queue_handle)
    tensor, versioned = inside(capsule)
    lengths = ctypes.c_int64 * tensor.ndim
    shape = tuple(lengths.from_address(tensor.shape)) if tensor.ndim else ()
    given = tensor.ndim and tensor.strides
    strides = tuple(lengths.from_address(tensor.strides)) if given else contiguous_strides(shape)
    dtype = dtypes.of_dlpack(tensor.code, tensor.bits, tensor.lanes)
    if dtype is None:
        kind = f"{tensor.lanes} x {tensor.bits} bits of DLPack's code {tensor.code}"
        raise UnsupportedDType(f"from_dlpack: hologram has no elements of {kind}")
    readonly = versioned is not None and bool(versioned.flags & READ_ONLY)
    address = (tensor.data or 0) + tensor.byte_offset
    return ForeignArray(address, shape, strides, dtype, readonly, (capsule, source))


def _of_interface(source: Any, interface: dict[str, Any], device: Device) -> ForeignArray:
    """Version 3 of https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html."""
    if interface.get("mask") is not None:
        raise InteropError("from_dlpack: an array with a mask has elements without a value")
    dtype, shape = dtypes.dtype(np.dtype(interface["typestr"])), tuple(interface["shape"])
    address, readonly = interface["data"]
    steps = interface.get("strides")
    if steps is not None and any(step % dtype.itemsize for step in steps):
        raise InteropError(f"from_dlpack: strides of {tuple(steps)} bytes are not whole elements of {dtype}")
    strides = contiguous_strides(shape) if steps is None else tuple(s // dtype.itemsize for s in steps)
    if (stream := interface.get("stream")) is not None:
        device.follow(stream)
    return ForeignArray(int(address or 0), shape, strides, dtype, bool(readonly), source)
