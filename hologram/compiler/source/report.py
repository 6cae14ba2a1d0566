"""What HOLOGRAM_DEBUG prints of kernels on their way to a device; see hologram.foundation.debug for the rungs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hologram.atlas.program import Launchable, Program
from hologram.foundation import debug, lazy
from hologram.foundation.debug import Rung

if TYPE_CHECKING:
    from hologram.compiler import pipeline
else:
    pipeline = lazy.module("hologram.compiler.pipeline")


def compiled(kernel: Launchable) -> None:
    """Shows a kernel that a device compiles for the first time."""
    if debug.shows(Rung.PROGRAM):
        known = isinstance(kernel, Program) and f"({pipeline.identity(kernel)})"
        debug.show(
            Rung.PROGRAM, f"{kernel.name} {known or f'is the hand-written {kernel.stem}'}", str(kernel)
        )


def generated(name: str, language: str, source: Callable[[], str]) -> None:
    """Shows the source of a kernel, which nobody need have generated if its code was kept from before."""
    if debug.shows(Rung.SOURCE):
        debug.show(Rung.SOURCE, f"{name} in {language}", source())
