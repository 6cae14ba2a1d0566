"""Code that LLVM compiles for this process, beside PyTorch: kernels and functions where Python costs too much.

It calls PyTorch's C functions. Where PyTorch lacks one, LLVM is not installed, or the system is another one than Linux,
on which alone this was tried, there is none, and Python does the same. Each piece is a reach of its own.
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
from hologram_torch.reach import expect, reach

LIBRARIES = ("libtorch_cpu.so", "libc10.so")
SLOWER = "Python does the same, slower"
# What each file of IR is for, and what is done without it.
PIECES = {
    "fresh": ("new tensors", SLOWER),
    "quick": ("operators that were called before", SLOWER),
    "views": ("views", SLOWER),
    "guard": (
        "streams and the current device",
        "after an exception in a hook of a backward pass Python may end",
    ),
    "pinned": ("pinned memory", "PyTorch refuses pin_memory=True"),
}


def pytorch() -> Any:
    """PyTorch's library of C functions; raises OSError."""
    return ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / LIBRARIES[0]))


def compiled(text: Path, functions: Sequence[str], parts: Sequence[Path] = (), **given: Any) -> Code | None:
    """The functions of a file of IR and its `parts`; `given` are those it calls beside PyTorch's and Python's own."""
    content = "\n".join(file.read_text() for file in (text, *parts))

    def made() -> Code | None:
        expect(sys.platform == "linux", f"compiled code was tried on Linux alone, this is {sys.platform}")
        folder = Path(torch.__file__).parent / "lib"
        engine = shared_engine()
        libraries = [ctypes.CDLL(str(folder / name)) for name in LIBRARIES]
        libraries += [ctypes.CDLL("libstdc++.so.6"), ctypes.pythonapi, SimpleNamespace(**given)]
        for name in asked(content):
            library = next((each for each in libraries if hasattr(each, name)), None)
            expect(library is not None, f"neither PyTorch nor this Python has a function {name}")
            engine.provide(library, (name,))
        code = kept_code(engine, text.stem, content, lambda: (content, tuple(functions)))
        keep((code, given))
        return code

    part, otherwise = PIECES[text.stem]
    return reach(text.stem, f"C functions of {LIBRARIES[0]}, for {part}", otherwise, made, None)
