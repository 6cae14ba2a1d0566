"""launch.ll: launches that are told where their operands lie, as code that LLVM compiles for this process."""

from __future__ import annotations

import ctypes
import functools
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from hologram.backends.webgpu.encoder import Encoder
from hologram.backends.webgpu.native.library import Library
from hologram.compiled.machine_code.builtin import ONE, Builtin, keep
from hologram.foundation import lazy

if TYPE_CHECKING:
    from hologram.compiled.machine_code import engine, objects
else:  # needed by the launches of a process that goes on
    engine = lazy.module("hologram.compiled.machine_code.engine")
    objects = lazy.module("hologram.compiled.machine_code.objects")

MOST = 60  # operands of a dispatch
WARM = 24  # launches prepared until LLVM, whose import takes 45 ms, is worth having
GPU = "wgpu"  # what the library's own functions begin with

_prepared = 0


def builtin(encoder: Encoder) -> Builtin | None:
    """What launches; None without LLVM or CPython, and while a process is too young to need it."""
    global _prepared
    _prepared += 1
    if _prepared <= WARM and "llvmlite" not in sys.modules:
        return None
    return _builtin(encoder.device.library)


@functools.lru_cache(maxsize=1)
def _builtin(library: Library) -> Builtin | None:
    if sys.implementation.name != "cpython" or sys.platform == "win32":
        return None
    text = Path(__file__).with_name("launch.ll").read_text()
    try:
        shared = engine.shared_engine()
    except ImportError:
        return None
    names = objects.asked(text)
    lib, ffi = library.lib, library.ffi
    own = {
        name: ctypes.CFUNCTYPE(None)(int(ffi.cast("uintptr_t", getattr(lib, name))))
        for name in names
        if name.startswith(GPU)
    }
    shared.provide(SimpleNamespace(**own), tuple(own))
    shared.provide(ctypes.pythonapi, [name for name in names if name not in own])
    code = objects.kept_code(shared, "webgpu_launch", text, lambda: (text, ("webgpu_launch",)))
    keep((code, library))
    return Builtin("webgpu_launch", code.addresses[0], ONE)
