"""Which device is the current one, told to PyTorch's C++: there the guard of devices written in Python says 0, always.

`.to("hologram")` and torch.tensor ask that guard. Backward passes ask it too, for streams, when an exception leaves
them (of a hook, say): it then looks for methods in Python, and the process ends. It is an object of C++ whose table of
functions PyTorch's headers describe, which every installation has: the object gets a copy of its table, in which these
functions are ours. Where the headers do not say what is expected, or on another system than Linux, on which alone
this was tried, the guard stays as it is.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from typing import Any

import torch
from torch._C._autograd import DeviceType  # pyright: ignore

from hologram_torch.device.devices import devices
from hologram_torch.device.virtual import slots, substitute, words
from hologram_torch.native import compiled
from hologram_torch.reach import expect

HEADER = "include/c10/core/impl/DeviceGuardImplInterface.h"
REGISTRY = "_ZN3c104impl26device_guard_impl_registryE"  # c10::impl::device_guard_impl_registry

_type: Any = DeviceType.PrivateUse1
_kind = int(_type)  # 20, as guard.ll says


def _current(guard: int) -> int:
    """c10::Device, two bytes: the type, and the number."""
    return _kind | devices.current << 8


_function = ctypes.CFUNCTYPE(ctypes.c_uint16, ctypes.c_void_p)(_current)
# Of guard.ll, and which they stand for.
COMPILED = {
    "exchange_device": ("exchangeDevice",),
    "set_device": ("setDevice", "uncheckedSetDevice"),
    "get_stream": ("getStream",),
    "exchange_stream": ("exchangeStream",),
}


def tell() -> None:
    """Has PyTorch's guard name the current device; raises Unlike or OSError where it is another."""
    root = Path(torch.__file__).parent
    expect(sys.platform == "linux", f"this was tried on Linux alone, not on {sys.platform}")
    places = slots((root / HEADER).read_text(), "DeviceGuardImplInterface")
    names = list(places)
    known = names[:3] == ["type", "exchangeDevice", "getDevice"] and names[-1].startswith("~")
    expect(known, f"{HEADER} declares other functions: {names[:3]} to {names[-1:]}")
    guard = (ctypes.c_void_p * (_kind + 1)).in_dll(ctypes.CDLL(str(root / "lib/libc10.so")), REGISTRY)[_kind]
    expect(bool(guard), "no guard is registered for the device")
    ours = {places["getDevice"]: ctypes.cast(_function, ctypes.c_void_p).value or 0}
    code = compiled(Path(__file__).with_name("guard.ll"), tuple(COMPILED))
    for stand_for, address in zip(COMPILED.values(), () if code is None else code.addresses, strict=False):
        ours |= {places[name]: address for name in stand_for}
    substitute(guard, guard, words(places), ours)
