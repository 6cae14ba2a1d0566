"""The Metal backend: MSL, launched on Apple's GPUs through PyObjC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hologram import lazy
from hologram.atlas.program import Program
from hologram.backends.metal import framework
from hologram.device import Device, Probe
from hologram.limits import Limits
from hologram.plan import Tile

if TYPE_CHECKING:
    from hologram.backends.metal import dialect, probing, usual
    from hologram.compiler.source import listing
else:  # needed for devices or source alone
    dialect = lazy.module("hologram.backends.metal.dialect")
    probing = lazy.module("hologram.backends.metal.probing")
    usual = lazy.module("hologram.backends.metal.usual")
    listing = lazy.module("hologram.compiler.source.listing")

NAME = "metal"
PREFERENCE = 20


def probe() -> Probe:
    """The devices of this machine, or why there are none and what to do; loads PyObjC's binding on macOS."""
    return probing.probe(NAME, framework.framework)


def open_device(index: int) -> Device:
    """Opens the device with that index in the probe's list; raises BackendUnavailable."""
    return probing.open_device(NAME, framework.framework, index)


def usual_limits() -> Limits:
    """Those of a usual device; none has to be here."""
    return usual.LIMITS


def source(kernel: Program | Tile, grid: Sequence[int], scalars: Sequence[int | float | bool] = ()) -> str:
    """The MSL of a kernel on a usual device; none has to be here."""
    return listing.listing(kernel, dialect.msl(), usual.LIMITS, grid, scalars)
