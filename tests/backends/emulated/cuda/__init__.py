"""The backend `cuda-emulated`: hologram's CUDA backend, all of it, over a stand-in for the driver and for NVRTC."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from hologram.atlas.program import Launchable
from hologram.backends import cuda
from hologram.backends.cuda import probing
from hologram.backends.cuda.device import CudaDevice
from hologram.backends.cuda.library import Library
from hologram.machine.backend_module import Probe
from hologram.machine.limits import Limits
from tests.backends.emulated.cuda.driver import Driver
from tests.backends.emulated.cuda.kernels import Clang
from tests.backends.emulated.cuda.products import CublasLt

NAME = "cuda-emulated"
PREFERENCE = 200  # after the CPU: only for who asks


@cache
def library() -> Library:
    """The process's emulated machine."""
    return Library(Driver(), NAME)


@cache
def products(driver: Any) -> CublasLt:
    """The vendor's library of products, above a driver."""
    return CublasLt(driver)


def probe() -> Probe:
    return probing.probe_library(library())


def open_device(index: int) -> CudaDevice:
    return probing.open_probed(library(), probe(), index, Clang, products(library().driver))


def reference_limits() -> Limits:
    return cuda.reference_limits()


def source(kernel: Launchable, grid: Sequence[int], scalars: Sequence[int | float | bool] = ()) -> str:
    return cuda.source(kernel, grid, scalars)
