"""Code that LLVM compiles for this process, beside PyTorch: kernels and functions where Python costs too much.

Where LLVM is not installed, PyTorch is too old, or the system is another one than Linux, on which alone this was
tried, there is none, and Python does the same.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from hologram.compiled.machine_code.builtin import keep
from hologram.compiled.machine_code.engine import Code, shared_engine
from hologram.compiled.machine_code.objects import asked, kept_code

LIBRARIES = ("libtorch_cpu.so", "libc10.so")


def pytorch() -> Any:
    """PyTorch's library of C functions; raises OSError."""
    return ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / LIBRARIES[0]))


def compiled(text: Path, functions: Sequence[str], parts: Sequence[Path] = (), **given: Any) -> Code | None:
    """The functions of a file of IR and its `parts`; `given` are those it calls beside PyTorch's and Python's own."""
    if sys.platform != "linux":
        return None
    content = "\n".join(file.read_text() for file in (text, *parts))
    folder = Path(torch.__file__).parent / "lib"
    try:
        engine = shared_engine()
        libraries = [ctypes.CDLL(str(folder / name)) for name in LIBRARIES]
        libraries += [ctypes.CDLL("libstdc++.so.6"), ctypes.pythonapi, SimpleNamespace(**given)]
        for name in asked(content):
            engine.provide(next(each for each in libraries if hasattr(each, name)), (name,))
    except (ImportError, OSError, StopIteration):
        return None
    code = kept_code(engine, text.stem, content, lambda: (content, tuple(functions)))
    keep((code, given))
    return code
