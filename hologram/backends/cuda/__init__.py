"""The CUDA backend: CUDA C++ through NVRTC, launched on NVIDIA GPUs through the driver's own interface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hologram.atlas.program import Launchable
from hologram.foundation import lazy
from hologram.machine.backend_module import Probe
from hologram.machine.device import Device
from hologram.machine.limits import Limits

if TYPE_CHECKING:
    from hologram.backends.cuda import dialect, probing
    from hologram.backends.cuda import reference as reference
    from hologram.compiler.source import listing
else:  # needed for devices or source alone
    dialect = lazy.module("hologram.backends.cuda.dialect")
    probing = lazy.module("hologram.backends.cuda.probing")
    reference = lazy.module("hologram.backends.cuda.reference")
    listing = lazy.module("hologram.compiler.source.listing")

NAME = "cuda"
PREFERENCE = 10
DEVICE_FILES = ("nvidia[0-9]*", "dxg", "nvgpu*", "nvhost-gpu")  # cards, WSL, modules with a GPU inside


def probe() -> Probe:
    """The devices of this machine, or why there are none and what to do; loads the driver's library."""
    return probing.probe(NAME)


def open_device(index: int) -> Device:
    """Opens the device with that index in the probe's list; raises BackendUnavailable."""
    return probing.open_device(NAME, index)


def reference_limits() -> Limits:
    """Those of a reference device; none has to be here."""
    return reference.LIMITS


def source(kernel: Launchable, grid: Sequence[int], scalars: Sequence[int | float | bool] = ()) -> str:
    """The CUDA C++ of a kernel on a reference device; none has to be here."""
    return listing.listing(kernel, dialect.cuda(), reference.LIMITS, grid, scalars)
