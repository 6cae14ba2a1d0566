"""hologram: compute on whatever GPU the machine has, from Python."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from hologram import errors
from hologram.dtypes import bf16, bool_, f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64
from hologram.errors import *  # noqa: F403  (the exceptions are all it holds)
from hologram.frontend.executor import Executor, from_dlpack
from hologram.frontend.tensor import Tensor
from hologram.runtime.buffer import Buffer

__version__ = "0.1.0"

# Importing opens nothing and loads no vendor's library. What an executor does not need to open is fetched when it is
# first asked for (name -> module), and so are the operations.
_LAZY = {
    "BackendType": "hologram.backend",
    "Program": "hologram.atlas.program",
    "explain_selection": "hologram.runtime.selector",
    "jit": "hologram.frontend.jit.jitted",
    "get_default_backend": "hologram.backend",
    "is_cuda_available": "hologram.backend",
    "is_metal_available": "hologram.backend",
    "is_webgpu_available": "hologram.backend",
    "validate_backend": "hologram.backend",
}


def __getattr__(name: str) -> Any:
    module = _LAZY.get(name)
    if module is not None:
        value = getattr(import_module(module), name)
    elif find_spec(f"hologram.{name}"):
        value = import_module(f"hologram.{name}")
    else:  # an operation
        value = import_module("hologram.opset").OPERATIONS.get(name)
        if value is None:
            raise AttributeError(f"module 'hologram' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    operations = import_module("hologram.opset").OPERATIONS
    return sorted({*globals(), *_LAZY, *operations})


__all__ = [
    *(
        n
        for n in dir(errors)
        if n.endswith("Error") or n in ("BackendUnavailable", "BufferFreed", "DeviceLost", "OutOfMemory")
    ),
    *("Buffer", "Executor", "Tensor", "from_dlpack"),
    *("bf16", "bool_", "f16", "f32", "f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"),
    *_LAZY,
]
