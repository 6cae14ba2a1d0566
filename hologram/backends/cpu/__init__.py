"""The CPU backend: Atlas programs compiled by LLVM, vectorised and threaded; BLAS through NumPy for matrices."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

from hologram.atlas.program import Launchable
from hologram.backends.cpu.device import NAME, CpuDevice, describe
from hologram.foundation.errors import BackendUnavailable
from hologram.machine.backend_module import Probe
from hologram.machine.device import Device
from hologram.machine.limits import Limits

PREFERENCE = 100  # the last resort of `auto`

__all__ = ["NAME", "PREFERENCE", "open_device", "probe", "reference_limits", "source"]


def probe() -> Probe:
    """One device, always there; the notes say what it lacks."""
    notes = () if importlib.util.find_spec("llvmlite") else (
        "llvmlite is not installed: programs are interpreted, far slower than compiled. pip install llvmlite",
    )  # fmt: skip
    return Probe(NAME, (describe(),), notes=notes)


def open_device(index: int) -> Device:
    """The device; raises BackendUnavailable for any index but 0."""
    if index != 0:
        raise BackendUnavailable(f"cpu: there is one device, number 0, got {index}")
    return CpuDevice()


def reference_limits() -> Limits:
    """Those of this CPU."""
    return describe().limits


def source(kernel: Launchable, grid: Sequence[int], scalars: Sequence[int | float | bool] = ()) -> str:
    """The LLVM IR of a kernel, or what runs instead of any."""
    return CpuDevice().source(kernel, grid, scalars)
