"""The Metal backend: so far the spelling of MSL (dialect.py), and what can be asked of the machine.

Kernels are generated and run under clang in the tests, but nothing launches them yet: the probe names the devices it
sees and reports none as usable.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from hologram import lazy
from hologram.atlas.program import Program
from hologram.device import Probe
from hologram.errors import BackendUnavailable
from hologram.limits import Limits
from hologram.plan import Tile

if TYPE_CHECKING:
    from hologram.backends.metal import dialect, usual
    from hologram.compiler.source import listing
else:  # needed for source alone
    dialect = lazy.module("hologram.backends.metal.dialect")
    usual = lazy.module("hologram.backends.metal.usual")
    listing = lazy.module("hologram.compiler.source.listing")

NAME = "metal"
PREFERENCE = 20
WEBGPU = "Use backend='webgpu', which reaches Apple GPUs through Metal."


def probe() -> Probe:
    """Why Metal cannot be used, and what to do. Loads PyObjC's binding on macOS."""
    if sys.platform != "darwin":
        return Probe(
            NAME, reason=f"Metal exists on macOS only, this is {sys.platform}", remedy="Use backend='webgpu'."
        )
    try:
        import Metal
    except ImportError as error:
        return Probe(
            NAME,
            reason=f"pyobjc-framework-Metal is not installed ({error})",
            remedy=f"pip install 'hologram[metal]'. {WEBGPU}",
        )
    names = ", ".join(device.name() for device in Metal.MTLCopyAllDevices())
    if not names:
        return Probe(NAME, reason="macOS lists no Metal device", remedy="A virtual machine may hide the GPU.")
    return Probe(
        NAME,
        reason=f"this version of hologram has no Metal launch path yet; devices seen: {names}",
        remedy=WEBGPU,
    )


def open_device(index: int) -> NoReturn:
    """Raises BackendUnavailable with the probe's reason."""
    found = probe()
    raise BackendUnavailable(f"metal: device {index} cannot be opened: {found.reason}. {found.remedy}")


def usual_limits() -> Limits:
    """Those of a usual device; none has to be here."""
    return usual.LIMITS


def source(kernel: Program | Tile, grid: Sequence[int], scalars: Sequence[int | float | bool] = ()) -> str:
    """The MSL of a kernel on a usual device; none has to be here."""
    return listing.listing(kernel, dialect.msl(), usual.LIMITS, grid, scalars)
