"""The WebGPU backend: WGSL through wgpu-native, on Vulkan, Metal or DirectX 12."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hologram import lazy
from hologram.atlas.program import Program
from hologram.backends.webgpu.device import open_device
from hologram.backends.webgpu.native.probing import NAME, probe
from hologram.limits import Limits
from hologram.plan import Tile

if TYPE_CHECKING:
    from hologram.backends.webgpu import usual
    from hologram.backends.webgpu.wgsl import dialect
    from hologram.compiler.source import listing
else:  # needed for source alone
    dialect = lazy.module("hologram.backends.webgpu.wgsl.dialect")
    usual = lazy.module("hologram.backends.webgpu.usual")
    listing = lazy.module("hologram.compiler.source.listing")

PREFERENCE = 30

__all__ = ["NAME", "PREFERENCE", "open_device", "probe", "source", "usual_limits"]


def usual_limits() -> Limits:
    """Those of a usual device; none has to be here."""
    return usual.LIMITS


def source(kernel: Program | Tile, grid: Sequence[int], scalars: Sequence[int | float | bool] = ()) -> str:
    """The WGSL of a kernel on a usual device; none has to be here."""
    return listing.listing(kernel, dialect.wgsl(immediates=True), usual.LIMITS, grid, scalars)
