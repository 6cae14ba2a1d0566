"""The WebGPU backend: WGSL through wgpu-native, on Vulkan, Metal or DirectX 12."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hologram.atlas.program import Launchable
from hologram.backends.webgpu.native.files import DEVICE_FILES as DEVICE_FILES
from hologram.foundation import lazy
from hologram.machine.backend_module import Probe
from hologram.machine.limits import Limits

if TYPE_CHECKING:
    from hologram.backends.webgpu import device
    from hologram.backends.webgpu import reference as reference
    from hologram.backends.webgpu.device import WebGPUDevice
    from hologram.backends.webgpu.native import probing
    from hologram.backends.webgpu.wgsl import dialect
    from hologram.compiler.source import listing
else:  # needed for devices or source alone
    device = lazy.module("hologram.backends.webgpu.device")
    probing = lazy.module("hologram.backends.webgpu.native.probing")
    dialect = lazy.module("hologram.backends.webgpu.wgsl.dialect")
    reference = lazy.module("hologram.backends.webgpu.reference")
    listing = lazy.module("hologram.compiler.source.listing")

NAME = "webgpu"
PREFERENCE = 30


def probe() -> Probe:
    """The adapters of this machine, or why there are none and what to do; loads wgpu's library."""
    return probing.probe()


def open_device(index: int, **lowered: Any) -> WebGPUDevice:
    """Opens the device with that index in the probe's list; raises BackendUnavailable.

    `lowered` replaces fields of its Limits by smaller ones.
    """
    return device.open_device(index, **lowered)


def reference_limits() -> Limits:
    """Those of a reference device; none has to be here."""
    return reference.LIMITS


def source(kernel: Launchable, grid: Sequence[int], scalars: Sequence[int | float | bool] = ()) -> str:
    """The WGSL of a kernel on a reference device; none has to be here."""
    return listing.listing(kernel, dialect.wgsl(immediates=True), reference.LIMITS, grid, scalars)
