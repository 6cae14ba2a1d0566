"""The Metal backend: MSL, launched on Apple's GPUs through PyObjC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hologram.atlas.program import Launchable
from hologram.backends.metal import framework
from hologram.foundation import lazy
from hologram.machine.backend_module import Probe
from hologram.machine.device import Device
from hologram.machine.limits import Limits

if TYPE_CHECKING:
    from hologram.backends.metal import dialect, probing
    from hologram.backends.metal import reference as reference
    from hologram.compiler.source import listing
else:  # needed for devices or source alone
    dialect = lazy.module("hologram.backends.metal.dialect")
    probing = lazy.module("hologram.backends.metal.probing")
    reference = lazy.module("hologram.backends.metal.reference")
    listing = lazy.module("hologram.compiler.source.listing")

NAME = "metal"
PREFERENCE = 20


def probe() -> Probe:
    """The devices of this machine, or why there are none and what to do; loads PyObjC's binding on macOS."""
    return probing.probe(NAME, framework.framework)


def open_device(index: int) -> Device:
    """Opens the device with that index in the probe's list; raises BackendUnavailable."""
    return probing.open_device(NAME, framework.framework, index)


def reference_limits() -> Limits:
    """Those of a reference device; none has to be here."""
    return reference.LIMITS


def source(kernel: Launchable, grid: Sequence[int], scalars: Sequence[int | float | bool] = ()) -> str:
    """The MSL of a kernel on a reference device; none has to be here."""
    return listing.listing(kernel, dialect.msl(), reference.LIMITS, grid, scalars)
