"""The backend `metal-emulated`: hologram's Metal backend, all of it, over a stand-in for PyObjC."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from hologram.atlas.program import Launchable
from hologram.backends import metal
from hologram.backends.metal import probing
from hologram.backends.metal.device import MetalDevice
from hologram.machine.backend_module import Probe
from hologram.machine.limits import Limits
from tests.backends.emulated.metal.framework import Emulated

NAME = "metal-emulated"
PREFERENCE = 201  # after the CPU: only for who asks


@cache
def framework() -> Emulated:
    """The process's emulated Mac."""
    return Emulated()


def probe() -> Probe:
    return probing.probe(NAME, framework)


def open_device(index: int) -> MetalDevice:
    return probing.open_device(NAME, framework, index)


def reference_limits() -> Limits:
    return metal.reference_limits()


def source(kernel: Launchable, grid: Sequence[int], scalars: Sequence[int | float | bool] = ()) -> str:
    return metal.source(kernel, grid, scalars)
