"""What HOLOGRAM_DEBUG prints of kernels on their way to a device; see hologram.foundation.debug for the rungs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hologram.atlas.program import Program
from hologram.foundation import debug, lazy
from hologram.foundation.debug import Rung
from hologram.machine.plan import Tile

if TYPE_CHECKING:
    from hologram.atlas import text
    from hologram.compiler import pipeline
else:
    text, pipeline = lazy.module("hologram.atlas.text"), lazy.module("hologram.compiler.pipeline")


def compiled(kernel: Program | Tile) -> None:
    """Shows a kernel that a device compiles for the first time."""
    if debug.shows(Rung.PROGRAM):
        if isinstance(kernel, Program):
            debug.show(
                Rung.PROGRAM, f"{kernel.name} ({pipeline.identity(kernel)})", text.format_program(kernel)
            )
        else:
            debug.show(Rung.PROGRAM, f"{kernel.entry} is the hand-written {kernel.stem}", tile_text(kernel))


def tile_text(tile: Tile) -> str:
    """What a tile's prelude declares, and its epilogue."""
    parameters = [f"{name}: {dtype} ({access})" for name, dtype, access in tile.buffers]
    lines = [
        f"buffers {', '.join(parameters)}",
        f"scalars {', '.join(f'{name}: {dtype}' for name, dtype in tile.scalars) or 'none'}",
        f"types {', '.join(f'{name} = {dtype}' for name, dtype in tile.types) or 'none'}",
        f"constants {', '.join(f'{name} = {value}' for name, value in tile.constants) or 'none'}",
        f"workgroup {' x '.join(map(str, tile.workgroup))}",
    ]
    if tile.epilogue is not None:
        lines += ["epilogue", text.format_program(tile.epilogue)]
    return "\n".join(lines)


def generated(name: str, language: str, source: Callable[[], str]) -> None:
    """Shows the source of a kernel, which nobody need have generated if its code was kept from before."""
    if debug.shows(Rung.SOURCE):
        debug.show(Rung.SOURCE, f"{name} in {language}", source())
