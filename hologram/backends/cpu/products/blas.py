"""The BLAS that NumPy has loaded, called on the pool's threads (blas.ll) instead of with threads of its own.

OpenBLAS shares small products among its threads poorly, and its threads spin while ours want the cores. So it is held
to one thread while a launch runs, whatever the user has set, and gets the user's number back after. What NumPy
multiplies in other threads meanwhile stays right, on one thread.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import os
import platform
import sys
from pathlib import Path
from typing import Any

import numpy as np

from hologram.backends.cpu.image import Step
from hologram.backends.cpu.workers import prelude
from hologram.compiled.machine_code.engine import Code, Engine
from hologram.compiled.machine_code.objects import kept_code
from hologram.foundation.frozen import frozen

# How builds of OpenBLAS decorate their names: NumPy's wheels, distributions with 64-bit integers, and plain ones.
_NAMES = ("scipy_{}64_", "scipy_{}", "{}64_", "{}")
# The answer of openblas_get_parallel. A build for OpenMP gives a higher one: there each caller has a number of threads.
_PTHREADS = 1
_PRELUDE = """
%size = type i{bits}
%number = type {number}
define internal %size @size(i64 %x) alwaysinline {{
  {narrowed}
}}
"""
# Of OpenBLAS's names of processors, those whose code uses AVX-512. It took a Zen 5 for a Haswell in 2026.
_CORES_OF_512_BITS = (b"skylakex", b"cooperlake", b"sapphirerapids")
_FUNCTIONS = ("matrices", "vectors", "enter", "leave")
_LETTERS = {"float32": ("s", "float"), "float64": ("d", "double")}


@frozen(eq=False)
class Library:
    """A loaded OpenBLAS: addresses of its functions by cblas's plain names."""

    addresses: dict[str, int]
    integer_bits: int
    vector_bits: int  # of the code that it takes here
    owner: Any


@functools.lru_cache(maxsize=1)
def loaded_library() -> Library | None:
    """NumPy's BLAS, if it is an OpenBLAS whose threads can be held; None for any other.

    Names are looked up from NumPy's extension module, which finds what that module was linked with, wherever it lies.
    On Windows such a look-up does not see a module's dependencies, so nothing is found there.
    """
    spec = importlib.import_module("numpy._core._multiarray_umath").__spec__
    if spec is None or not spec.has_location:  # built into the interpreter
        return None
    library = ctypes.CDLL(spec.origin)
    return next((found for name in _NAMES if (found := described(library, name))), None)


def described(library: Any, name: str) -> Library | None:
    """What an OpenBLAS says of itself, whose functions have such names; None for another library."""
    try:
        config, parallel, core = (
            library[name.format(f"openblas_get_{x}")] for x in ("config", "parallel", "corename")
        )
        functions = {
            f: library[name.format(f)]
            for f in (
                *("cblas_sgemm", "cblas_dgemm", "cblas_sgemv", "cblas_dgemv"),
                *("openblas_get_num_threads", "openblas_set_num_threads"),
            )
        }
    except AttributeError:
        return None
    if parallel() > _PTHREADS:
        return None
    config.restype = core.restype = ctypes.c_char_p
    addresses = {f: ctypes.cast(found, ctypes.c_void_p).value or 0 for f, found in functions.items()}
    integer_bits = 64 if b"USE64BITINT" in config() else 32
    return Library(addresses, integer_bits, 512 if core().lower() in _CORES_OF_512_BITS else 256, library)


@frozen
class Routines:
    """The steps of blas.ll for one dtype, and what they are to call."""

    code: Code
    gate: np.ndarray
    gemm: int
    gemv: int
    largest: int  # number that this BLAS's integers hold

    @property
    def matrices(self) -> int:
        return self.code.addresses[0]

    @property
    def vectors(self) -> int:
        return self.code.addresses[1]

    @property
    def guard(self) -> tuple[Step, Step]:
        """The steps before and after which BLAS has threads of its own again. Both run in any case."""
        enter, leave = (Step(function, 0, 0, self.gate.ctypes.data) for function in self.code.addresses[2:])
        return enter, leave


@functools.lru_cache(maxsize=8)
def routines(engine: Engine, library: Library, dtype: np.dtype) -> Routines | None:
    """Compiled for f32 or f64; None for any other dtype."""
    if dtype.name not in _LETTERS:
        return None
    letter, number = _LETTERS[dtype.name]
    bits = library.integer_bits
    narrowed = "ret i64 %x" if bits == 64 else f"%1 = trunc i64 %x to i{bits}\n  ret i{bits} %1"
    own = _PRELUDE.format(bits=bits, number=number, narrowed=narrowed)
    text = prelude(sys.platform, platform.machine().lower()) + own
    text += Path(__file__).with_name("blas.ll").read_text()
    code = kept_code(engine, "blas", text, lambda: (text, _FUNCTIONS))
    gemm, gemv = (library.addresses[f"cblas_{letter}{f}"] for f in ("gemm", "gemv"))
    return Routines(code, _gate(library), gemm, gemv, 2 ** (bits - 1) - 1)


@functools.cache
def _gate(library: Library) -> np.ndarray:
    """Who holds the BLAS to one thread, as blas.ll lays it out; one for the process."""
    gate = np.zeros(4, np.int64)
    gate[2:] = [library.addresses[f"openblas_{verb}_num_threads"] for verb in ("get", "set")]

    def after_fork() -> None:
        """Nobody is inside; a number of threads that was to be restored waits for the next launch."""
        gate[0] = 0

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=after_fork)
    return gate
