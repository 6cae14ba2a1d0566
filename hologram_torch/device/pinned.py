"""Pinned memory of the host, which PyTorch's C++ asks an accelerator for and devices in Python cannot give.

DistributedDataParallel asks so for what it tells other processes about unused parameters, and `torch.empty` on the host
with `pin_memory=True`. The hooks that PyTorch keeps for the device get a copy of their table of functions, in which
the one for an allocator is ours (pinned.ll): plain memory, from which the device copies as quickly, and a deleter by
which that memory is known again. Where the headers do not say what is expected, or on another system than Linux, on
which alone this was tried, PyTorch goes on refusing.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from pathlib import Path

import torch

from hologram_torch.device.virtual import slots, substitute, words
from hologram_torch.native import compiled, pytorch
from hologram_torch.reach import Unlike, expect

HEADERS = Path(torch.__file__).parent / "include"
HOOKS = {
    "AcceleratorHooksInterface": "ATen/detail/AcceleratorHooksInterface.h",
    "PrivateUse1HooksInterface": "ATen/detail/PrivateUse1HooksInterface.h",
}
ALLOCATOR = "c10/core/Allocator.h"
SEARCHED = 64  # bytes of a c10::StorageImpl: a table, two counts, its memory as c10::DataPtr has it
_deleter: list[bytes] = []  # that of our allocator, as it lies in memory


def tell() -> None:
    """Has PyTorch's hooks give memory that is called pinned; raises Unlike or OSError where they are others."""
    expect(sys.platform == "linux", f"this was tried on Linux alone, not on {sys.platform}")
    hooks, own = (slots((HEADERS / file).read_text(), name) for name, file in HOOKS.items())
    allocator = slots((HEADERS / ALLOCATOR).read_text(), "Allocator")
    known = "getPinnedMemoryAllocator" in hooks and list(allocator)[1:2] == ["allocate"]
    expect(known, f"{ALLOCATOR} or {HOOKS['AcceleratorHooksInterface']} declare other functions")
    names = ("allocator", "unpin", "allocate", "unpinned")
    code = compiled(Path(__file__).with_name("pinned.ll"), names)
    if code is None:
        raise Unlike("its functions could not be compiled")
    give, unpin, allocate, unpinned = code.addresses
    library = pytorch()
    found, plain = library["_ZN2at6detail19getPrivateUse1HooksEv"], library["_ZN3c1015GetCPUAllocatorEv"]
    found.restype = plain.restype = ctypes.c_void_p
    target = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(give)(None)
    ours = {allocator["allocate"]: allocate, allocator["raw_deleter"]: unpinned}
    substitute(target, plain(), words(allocator), ours)
    _deleter.append(struct.pack("P", unpin))
    at = found()
    substitute(at, at, words(hooks) + words(own), {hooks["getPinnedMemoryAllocator"]: give})


def is_pinned(storage: torch.UntypedStorage) -> bool:
    """Whether our allocator gave a storage of the host its memory."""
    return bool(_deleter) and _deleter[0] in ctypes.string_at(storage._cdata, SEARCHED)
