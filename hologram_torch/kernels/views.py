"""Kernels of views that need no Python: compiled code (views.ll) behind PyTorch's stable C interface.

A call into Python and back through PyTorch's dispatcher costs several times what a view is. Where there is no such
code, see native.py, kernels in Python do the same.
"""

from __future__ import annotations

import ctypes
import threading
from pathlib import Path
from typing import Any

import torch

from hologram_torch.native import compiled, pytorch
from hologram_torch.reach import Unlike, expect
from hologram_torch.redispatch import redispatched
from hologram_torch.tensors.memory import HOST_KEYS, as_strided, capsule

_aoti: Any = getattr(torch._C, "_aoti", None)
NAMES = ("view", "_reshape_alias", "as_strided")
HANDING = ("alloc_tensor_by_stealing_from_void_ptr", "unsafe_alloc_void_ptr_from_tensor")
STABLE_VERSION = 2 << 56 | 13 << 48  # of the interface: PyTorch's 2.13, the first that has all of it

view = redispatched(torch.ops.aten.view.default)
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_refusals = threading.local()  # messages, until they are thrown


def _slow(handle: int, axes: int, sizes: Any, steps: int, strides: Any, offset: Any, result: Any) -> int:
    """Makes a view as PyTorch's own kernels do, errors included; see @slow_view."""
    try:
        x = _aoti.alloc_tensor_by_stealing_from_void_ptr(capsule(handle, None, None))
        if strides:
            own = offset[0] if offset else None
            tensor = as_strided(HOST_KEYS, x, sizes[:axes], strides[:steps], own)
        else:
            tensor = view(HOST_KEYS, x, sizes[:axes])
    except RuntimeError as error:
        _refusals.message = ctypes.create_string_buffer(str(error).encode())
        result[0] = ctypes.addressof(_refusals.message)
        return 0
    result[0] = _pointer(_aoti.unsafe_alloc_void_ptr_from_tensor(tensor), None)
    return 1


_NUMBERS = ctypes.POINTER(ctypes.c_int64)
_slow_view = ctypes.CFUNCTYPE(
    ctypes.c_int32,
    ctypes.c_void_p,
    ctypes.c_int64,
    _NUMBERS,
    ctypes.c_int64,
    _NUMBERS,
    _NUMBERS,
    ctypes.POINTER(ctypes.c_void_p),
)(_slow)


_FILE = __file__.encode()  # PyTorch names it in what it prints, and keeps the address alone


def register_compiled() -> tuple[str, ...]:
    """Registers such kernels; the operators that have one now. Raises Unlike."""
    expect(all(hasattr(_aoti, name) for name in HANDING), "torch._C._aoti does not hand tensors on")
    text, strides = (Path(__file__).with_name(name) for name in ("views.ll", "view_strides.ll"))
    code = compiled(text, NAMES, (strides,), slow_view=_slow_view)
    if code is None:
        return ()
    library, handle = pytorch(), ctypes.c_void_p()
    if library.aoti_torch_library_init_impl(b"aten", b"PrivateUse1", _FILE, 1, ctypes.byref(handle)):
        raise Unlike("PyTorch makes no library of operators")
    for name, address in zip(NAMES, code.addresses, strict=True):
        if library.torch_library_impl(
            handle, name.encode(), ctypes.c_void_p(address), ctypes.c_uint64(STABLE_VERSION)
        ):
            raise Unlike(f"PyTorch does not take a kernel for {name}")
    return NAMES
