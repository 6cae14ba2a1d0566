"""Tensors of PyTorch and hologram over one memory.

A tensor of the device is a plain torch.Tensor. Its storage carries the Buffer, as the attribute `payload`, for as long
as any view of it lives; shape, strides and version counter are PyTorch's own. While a function is traced the payload
is what the trace has in a buffer's place.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch._C import DispatchKey, DispatchKeySet
from torch.utils.dlpack import from_dlpack

from hologram.compiled.machine_code.builtin import FASTCALL, Builtin
from hologram.foundation.bounded_caches import FIFOCache
from hologram.foundation.dtypes import DType
from hologram.frontend.jit.traced import Storage, Traced
from hologram.frontend.tensor import Tensor
from hologram.machine.axes import row_major
from hologram.machine.layout import Layout
from hologram.runtime.dispatch import deferred
from hologram.runtime.memory.buffer import Buffer
from hologram.runtime.memory.ownership import reinterpreted
from hologram_torch.device.devices import devices
from hologram_torch.native import compiled
from hologram_torch.reach import reach
from hologram_torch.redispatch import redispatched
from hologram_torch.tensors.dtypes import DTYPES, dtype_of

HOST_KEYS = DispatchKeySet(DispatchKey.CPU)  # of kernels that look at sizes, strides and storages only
as_strided = redispatched(torch.ops.aten.as_strided.default)
imported: Callable[[Any], torch.Tensor] = reach(
    "dlpack",
    "torch._C._from_dlpack",
    "a new tensor takes one call of Python more",
    lambda: torch._C._from_dlpack,
    from_dlpack,
)

TOKEN_BITS = 36  # of a storage's address: below the number of its memory, so that no two ranges meet
EXTENSION = 12  # DLPack's kDLExtDev, which is PyTorch's PrivateUse1


class _Managed(ctypes.Structure):
    """DLManagedTensor (https://dmlc.github.io/dlpack/latest/c_api.html)."""

    _fields_ = (
        ("data", ctypes.c_uint64),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("element", ctypes.c_uint32),  # code, bits and lanes
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )
    address: int
    arrays: Any  # that `shape` and `strides` point to


capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)
_managed: list[_Managed] = []  # never freed: a storage reads `deleter` once more when it dies
_numbers = itertools.count(1 << 20)  # of traced memory


MAX_RECORDS = 8192
# What the structure says, and its address.
_records: FIFOCache[tuple[Layout, int, int], tuple[int, _Managed]] = FIFOCache(MAX_RECORDS)


def record(layout: Layout, index: int, kind: int = EXTENSION) -> tuple[int, _Managed]:
    """What is said of a layout that begins where its memory does, on a device, and at which address.

    `kind` is DLPack's of the device.
    """
    key = (layout, index, kind)
    known = _records.get(key)
    if known is not None:
        return known
    ndim = len(layout.shape)
    shape = (ctypes.c_int64 * max(ndim, 1))(*layout.shape)
    steps = (ctypes.c_int64 * max(ndim, 1))(*layout.strides)
    said = _Managed(
        device_type=kind,
        device_id=index,
        ndim=ndim,
        element=_element(layout.dtype),
        shape=ctypes.addressof(shape),
        strides=ctypes.addressof(steps),
    )
    said.arrays = (shape, steps)
    return _records.keep(key, (ctypes.addressof(said), said))


def as_rows(layout: Layout) -> Layout:
    """A layout with the strides of rows where elements lie so, also along axes of one element, which may have any."""
    if not layout.is_contiguous or (layout.size and 1 not in layout.shape):
        return layout
    return Layout(layout.dtype, layout.shape, row_major(layout.shape), layout.offset, layout.repeats)


def _element(dtype: DType) -> int:
    return dtype.dlpack | dtype.itemsize * 8 << 8 | 1 << 16


class _Python:
    """Hands PyTorch what a record says, as compiled code does (fresh.ll), in a structure of a thread's own."""

    def __init__(self) -> None:
        self._managed = _Managed()
        self._address = ctypes.addressof(self._managed)
        _managed.append(self._managed)

    def __call__(self, record: int, data: int, payload: Any) -> torch.Tensor:
        """A tensor at an address that nobody reads, whose storage carries the payload."""
        ctypes.memmove(self._address, record, ctypes.sizeof(_Managed))
        self._managed.data = data
        tensor = imported(capsule(self._address, b"dltensor", None))
        tensor.untyped_storage().payload = payload  # pyright: ignore[reportAttributeAccessIssue]
        return tensor


importing = (imported, torch.Tensor.untyped_storage, "payload")  # what compiled code calls
_code = compiled(Path(__file__).with_name("fresh.ll"), ("fresh", "tensor_over"))
_builtin = None if _code is None else Builtin("fresh", _code.addresses[0], FASTCALL).of(importing)
tensor_over = None if _code is None else _code.addresses[1]


class _Local(threading.local):
    """What makes a thread's tensors.

    A thread that makes tensors of the device also runs their backward passes: PyTorch would hand them to a thread for
    each device, and takes devices written in Python for one only (`deviceCount` of its guard says 1).
    """

    def __init__(self) -> None:
        torch.autograd.set_multithreading_enabled(False)
        self.imported: Callable[[int, int, Any], torch.Tensor] = _builtin or _Python()


local = _Local()


def fresh(buffer: Any, layout: Layout, index: int) -> torch.Tensor:
    """A tensor over all of a buffer, whose elements it sees in this layout; see `spans`."""
    entry = record(layout, index)
    block = buffer.block if type(buffer) is Buffer else None
    token = next(_numbers) if block is None else block.token
    return local.imported(entry[0], token << TOKEN_BITS & 0x7FFF_FFFF_FFFF_FFFF, buffer)


def torch_tensor(x: Tensor, exact: bool = False) -> torch.Tensor:
    """A tensor of PyTorch over a tensor's memory; with its own strides even along axes of one element if `exact`."""
    buffer: Any = x.buffer
    layout = x.layout if exact else as_rows(x.layout)
    index = devices.number(buffer.executor)
    whole = whole_of(buffer)
    if spans(layout, whole):
        return fresh(buffer, layout, index)
    if layout.dtype is not whole.dtype:
        whole = Layout.contiguous(layout.dtype, (whole.size * whole.dtype.itemsize // layout.dtype.itemsize,))
    flat = fresh(buffer, whole, index)
    return as_strided(HOST_KEYS, flat, layout.shape, layout.strides, layout.offset)


def spans(layout: Layout, whole: Layout) -> bool:
    """Whether what a layout sees begins and ends where the whole does, so that PyTorch takes it for all there is."""
    if layout is whole:
        return True
    return (
        layout.dtype is whole.dtype
        and not layout.offset
        and layout.size > 0
        and layout.span == (0, whole.size)
    )


def whole_of(buffer: Any) -> Layout:
    """All that a payload holds; of a traced argument, which may have gaps, the memory that it lies in."""
    if type(buffer) is Buffer:
        return buffer.kind.layout
    layout: Layout = buffer.layout
    if layout.is_contiguous and not layout.offset:
        return layout
    return Layout.contiguous(layout.dtype, (layout.span[1],))


def payload(tensor: torch.Tensor) -> Any:
    """What a tensor's storage carries: the Buffer, or what a trace has in its place; AttributeError if nothing."""
    return tensor.untyped_storage().payload  # pyright: ignore[reportAttributeAccessIssue]


def _found_again(tensor: torch.Tensor) -> Buffer:
    """The Buffer of a storage that PyTorch made over one's address, as it does to write a storage to a file.

    Raises RuntimeError for a storage that was freed, AttributeError for one of another device.
    """
    token = tensor.untyped_storage().data_ptr() >> TOKEN_BITS
    for executor in devices.opened() if is_ours(tensor) and token else ():
        for holder in (*executor.pool.holders(), *executor.boundary.holders()):
            if isinstance(holder, Buffer) and holder.block is not None and holder.block.token == token:
                return holder
    if is_ours(tensor) and tensor.numel() and not tensor.untyped_storage().nbytes():
        raise RuntimeError("hologram: the tensor's storage was freed (it was resized to 0 bytes)")
    raise AttributeError("payload")


def hologram_tensor(tensor: torch.Tensor) -> Tensor:
    """The tensor of hologram that shares a tensor's memory; AttributeError for one of another device."""
    try:
        buffer: Any = tensor.untyped_storage().payload  # pyright: ignore[reportAttributeAccessIssue]
    except AttributeError:
        buffer = _found_again(tensor)
    offset: Any = tensor.storage_offset()
    if type(buffer) is Buffer and buffer.kind.dtype is not DTYPES[tensor.dtype]:
        buffer = reinterpreted(buffer, DTYPES[tensor.dtype])
        if tensor.untyped_storage().nbytes() == buffer.nbytes:  # the next who asks will want the same
            tensor.untyped_storage().payload = buffer  # pyright: ignore[reportAttributeAccessIssue]
    layout = Layout(DTYPES[tensor.dtype], tuple(tensor.shape), tensor.stride(), offset)
    return Traced(buffer, layout) if type(buffer) is Storage else Tensor(buffer, layout)


def held(tensor: torch.Tensor) -> tuple[Any, Layout]:
    """A tensor's buffer and how it lies there; as `hologram_tensor`, sooner where it is all of the buffer."""
    buffer = tensor.untyped_storage().payload  # pyright: ignore[reportAttributeAccessIssue]
    kind = buffer.kind
    if tensor.is_contiguous() and tensor.shape == kind.shape and DTYPES[tensor.dtype] is kind.dtype:
        return buffer, kind.layout
    own = hologram_tensor(tensor)
    return own.buffer, own.layout


def is_ours(x: Any) -> bool:
    """Whether it is a tensor of the device."""
    return isinstance(x, torch.Tensor) and x.device.type == "hologram"


def refuse_pinned(pin_memory: Any) -> None:
    """Raises RuntimeError, as PyTorch does, where memory of the device is to be pinned."""
    if pin_memory:
        raise RuntimeError("hologram, empty: Only dense CPU tensors can be pinned, got pin_memory=True")


def empty(
    size: tuple[int, ...], stride: tuple[int, ...] | None, dtype: torch.dtype | None, index: int
) -> torch.Tensor:
    """A new tensor with undefined contents; `stride` in elements, row-major if None."""
    element = dtype_of(dtype or torch.get_default_dtype())
    executor = devices.executor(index)
    if stride is None or stride == row_major(size):
        return torch_tensor(executor.empty(size, element))
    span = 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True)) if 0 not in size else 0
    # A trace reads nothing that was not written: what lies in gaps is.
    flat = torch_tensor((executor.zeros if deferred() else executor.empty)((span,), element))
    return as_strided(HOST_KEYS, flat, size, stride, 0)
