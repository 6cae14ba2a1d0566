"""DLPack capsules and NumPy views of host memory: out of buffers and tensors, in from other libraries.

NumPy makes and takes the capsules (its deleters survive the interpreter's shutdown); what it does not know, bfloat16
and device memory, is written into the capsule's DLTensor (https://dmlc.github.io/dlpack/latest/c_api.html).
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.foundation.errors import InteropError, ShapeError, UnsupportedDType
from hologram.machine.device import HOST_MEMORY, Device

_HOST_ADDRESSABLE = (HOST_MEMORY[0], 3)  # device types: kDLCPU, and pinned memory of it, kDLCUDAHost
MAJOR = 1  # of DLPack's versions
READ_ONLY, _IS_COPIED = 1 << 0, 1 << 1  # bits of DLManagedTensorVersioned.flags


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    )


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned; the unversioned DLManagedTensor begins with its DLTensor."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("dl_tensor", _DLTensor),
    )


_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, (ctypes.py_object, ctypes.c_char_p)
_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)


class Holder(Protocol):
    """What `export` needs of a buffer."""

    executor: Any

    @property
    def dtype(self) -> DType: ...
    @property
    def size(self) -> int: ...
    @property
    def ptr(self) -> int: ...
    def to_numpy(self, copy: bool | None = True) -> np.ndarray: ...
    def shared_block(self) -> Any: ...


_NOTHING = np.empty(1, np.uint8)  # where arrays without elements lie


class HostRange:
    """An array's base: bytes at an address, and whatever keeps them alive."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, owner: Any, address: int, nbytes: int, readonly: bool = False) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "version": 3,
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (address or _NOTHING.ctypes.data, readonly),  # NumPy before 2.3 refuses a null pointer
        }


def address_of(memory: memoryview) -> int:
    """The address of a memoryview's first byte."""
    return np.frombuffer(memory, np.uint8).__array_interface__["data"][0] if memory.nbytes else 0


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides in elements of an array in C order."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def strided(array: np.ndarray, shape: Sequence[int], strides: Sequence[int], offset: int) -> np.ndarray:
    """A view of a contiguous array: shape, strides and offset in elements. It keeps the array's memory alive."""
    flat = as_numpys_own(array).reshape(-1)  # NumPy asks for a type by its kind and size here
    if 0 in shape:
        return flat[:0].reshape(shape).view(array.dtype)
    steps = [s * array.itemsize for s in strides]
    return np.lib.stride_tricks.as_strided(flat[offset:], shape, steps).view(array.dtype)


def export(
    buffer: Holder,
    shape: Sequence[int],
    strides: Sequence[int],
    offset: int,
    stream: Any = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """A capsule for a view of a buffer (shape, strides and offset in elements); arguments as of `__dlpack__`.

    Consumers take no negative strides (torch ends the process on one): such a view goes out as a copy. Raises
    InteropError for `copy=False` where a copy is needed, and for a `dl_device` that is neither the buffer's nor the
    host.
    """
    device: Device = buffer.executor.device
    here = device.dlpack_device
    wanted = here if dl_device is None else (int(dl_device[0]), int(dl_device[1]))
    if wanted not in (here, HOST_MEMORY):
        raise InteropError(f"__dlpack__: the buffer is on DLPack device {here}, asked for {wanted}")
    strides = [step if length > 1 else abs(step) for length, step in zip(shape, strides, strict=True)]
    backward = any(step < 0 for step in strides) and 0 not in shape
    if backward and copy is False:
        raise InteropError(
            f"__dlpack__: no stride may be negative, got {tuple(strides)}: copy=False is impossible"
        )
    if wanted != HOST_MEMORY:
        if copy or backward:
            raise InteropError(
                "__dlpack__: memory of a device goes out as it is, neither copied nor backward: clone the tensor first"
            )
        if stream != -1:  # -1: the consumer synchronises
            device.hand_over(stream)
        shared_block = buffer.shared_block()
        shared_block.hand_over(None if stream == -1 else stream)
        memory = np.asarray(HostRange(shared_block, buffer.ptr, buffer.size * buffer.dtype.itemsize))
        array = strided(memory.view(buffer.dtype.numpy), shape, strides, offset)
        return _capsule(array, max_version, device=here)
    if copy is None and here == HOST_MEMORY:
        array, copied = _without_copy(buffer)
    else:
        copied = copy is not False  # memory of a device reaches the host as a copy
        array = buffer.to_numpy(copy=copied)
    view = strided(array, shape, strides, offset)
    return _capsule(view.copy() if backward else view, max_version, copied=copied or backward)


def host_array(source: Any, copy: bool | None = None) -> np.ndarray:
    """Anything with elements on the host as an array, without a copy where it can be; bfloat16 included.

    Raises InteropError when NumPy and DLPack cannot read it.
    """
    # numpy.ma loads when it is named.
    if type(source) is not np.ndarray and isinstance(source, np.ma.MaskedArray):
        raise InteropError("a masked array has elements without a value: give its filled() instead")
    if isinstance(source, np.ndarray):
        return source.copy() if copy else source
    try:
        if hasattr(source, "__dlpack__"):
            elsewhere = source.__dlpack_device__()[0] not in _HOST_ADDRESSABLE
            producer = _Producer(source, {"dl_device": HOST_MEMORY} if elsewhere else {})
            array = np.from_dlpack(producer, copy=None if elsewhere else copy)
            return array if producer.foreign is None else array.view(producer.foreign.numpy)
        return np.array(source, copy=copy)
    except UnsupportedDType:
        raise
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        raise InteropError(
            f"{type(source).__name__} cannot be read as an array on the host: {error}"
        ) from error


def require_target(out: Any, shape: tuple[int, ...], dtype: DType, copy: bool | None) -> None:
    """Raises unless elements of a shape and dtype can be copied into an array; see Buffer.to_numpy."""
    if not isinstance(out, np.ndarray):
        raise TypeError(f"to_numpy: out must be a NumPy array, got {type(out).__name__}")
    if not copy:
        raise InteropError(f"to_numpy: into an array there is a copy, got out and copy={copy}")
    if out.dtype != dtype.numpy:
        raise UnsupportedDType(f"to_numpy: out must be of dtype {dtype.numpy}, got {out.dtype}")
    if out.shape != shape:
        raise ShapeError(f"to_numpy: out must have shape {shape}, got {out.shape}")
    if not out.flags.writeable:
        raise InteropError("to_numpy: out is read-only")


def _without_copy(buffer: Holder) -> tuple[np.ndarray, bool]:
    """The memory itself if the host can address it, a copy and True if not."""
    array = buffer.to_numpy(copy=None)
    return array, array.base is None


def as_numpys_own(array: np.ndarray) -> np.ndarray:
    """The array, with the bits of its elements in place of those that NumPy has from elsewhere."""
    dtype = dtypes.dtype(array.dtype)
    return array.view(dtype.unsigned.numpy) if dtype.is_foreign else array


def _capsule(
    array: np.ndarray,
    max_version: tuple[int, int] | None,
    device: tuple[int, int] | None = None,
    copied: bool = False,
) -> Any:
    dtype = dtypes.dtype(array.dtype)
    capsule = as_numpys_own(array).__dlpack__(max_version=max_version)
    tensor, versioned = inside(capsule)
    tensor.code = dtype.dlpack
    if device is not None:
        tensor.device_type, tensor.device_id = device
    if copied and versioned is not None:
        versioned.flags |= _IS_COPIED
    return capsule


def inside(capsule: Any) -> tuple[_DLTensor, _Versioned | None]:
    """The structures that a capsule not yet consumed points to."""
    if _is_valid(capsule, b"dltensor_versioned"):
        versioned = _Versioned.from_address(_pointer_of(capsule, b"dltensor_versioned"))
        if versioned.major > MAJOR:  # its fields may be others
            raise InteropError(f"a capsule of DLPack {versioned.major}.{versioned.minor} cannot be read")
        return versioned.dl_tensor, versioned
    if not _is_valid(capsule, b"dltensor"):
        raise InteropError("__dlpack__ must give a fresh capsule named dltensor or dltensor_versioned")
    return _DLTensor.from_address(_pointer_of(capsule, b"dltensor")), None


class _Producer:
    """Another library's object, whose elements NumPy sees as unsigned integers where they are foreign to it."""

    def __init__(self, source: Any, more: dict[str, Any]) -> None:
        self.source = source
        self.more = more  # arguments that NumPy does not give
        self.foreign: DType | None = None

    def __dlpack__(self, **arguments: Any) -> Any:
        capsule = self.source.__dlpack__(**{**arguments, **self.more})
        tensor, _ = inside(capsule)
        dtype = dtypes.of_dlpack(tensor.code, tensor.bits, tensor.lanes)
        if dtype is not None and dtype.is_foreign:
            tensor.code = dtype.unsigned.dlpack
            self.foreign = dtype
        return capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.more.get("dl_device") or self.source.__dlpack_device__()
