"""Kernels of the emulated card: CUDA C++ that clang compiled, and what the driver would know of it."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from enum import IntEnum

from hologram.foundation.errors import CompileError
from tests.shaders import emulator

MAGIC = b"emulated cubin\n"
BOUNDS = re.compile(r"__launch_bounds__\(([^,)]*)")
WAITS = ("__syncthreads", "_sync(", "multiply_add(")  # by which a thread waits for others
MOST_PARAMETERS = 256
DECLARED = {"__half": "cuda_fp16.h", "__nv_bfloat16": "cuda_bf16.h"}  # by name, the header that NVRTC needs


class Clang:
    """Stands in for NVRTC: gives the text itself as code, once clang took it."""

    identity = "clang for an emulated card"

    def __init__(self, architecture: int) -> None:
        self.architecture = architecture

    def compile(self, entry: str, text: str) -> bytes:
        for name, header in DECLARED.items():  # which stand ahead of every kernel here
            if name in text and f"#include <{header}>" not in text:
                raise CompileError(entry, f"{name} is not declared without {header}", text)
        try:
            _library(entry, text)
        except emulator.CompilationError as error:
            raise CompileError(entry, str(error), text) from None
        return MAGIC + entry.encode() + b"\n" + text.encode()


def _library(entry: str, text: str) -> ctypes.CDLL:
    bounds = BOUNDS.search(text)
    waits = any(word in text for word in WAITS)
    lines = [
        "namespace kernel {",
        f'#line 1 "{entry}.cu"',
        text,
        f"constexpr unsigned emulated_most_threads = {bounds[1] if bounds else 'emulation::MAX_THREADS'};",
        "}",
        f"EMULATED_KERNEL(kernel::{entry}, kernel::emulated_most_threads, {str(waits).lower()})",
    ]
    return ctypes.CDLL(str(emulator.library("\n".join(lines), "cu", quick=not waits)))


class Outcome(IntEnum):
    """Of a launch: all went well, some threads waited for ever, or one reached where there is no memory."""

    DONE, STUCK, TRAPPED = range(3)


class Kernel:
    """One kernel of loaded code. Raises ValueError for what is no code."""

    def __init__(self, code: bytes) -> None:
        if not code.startswith(MAGIC):
            raise ValueError("this is no code of the emulated card")
        entry, _, text = code[len(MAGIC) :].partition(b"\n")
        self.entry = entry.decode()
        self._library = _library(self.entry, text.decode())
        room = (ctypes.c_int * MOST_PARAMETERS)()
        count = self._library.emulated_parameters(room)
        self.sizes = tuple(map(abs, room[:count]))
        self.pointers = tuple(k for k in range(count) if room[k] < 0)
        self.most_threads: int = self._library.emulated_bound()
        self.shared_bytes: int = self._library.emulated_shared_bytes()
        self.most_dynamic_bytes: int | None = None  # None: what any kernel may ask for

    def run(
        self, parameters: Sequence[bytes], grid: Sequence[int], block: Sequence[int], shared_bytes: int
    ) -> Outcome:
        held = [ctypes.create_string_buffer(p, len(p)) for p in parameters]
        table = (ctypes.c_void_p * max(len(held), 1))(*map(ctypes.addressof, held))
        counts = ctypes.c_uint * 3
        return Outcome(self._library.emulated_launch(table, counts(*grid), counts(*block), shared_bytes))
