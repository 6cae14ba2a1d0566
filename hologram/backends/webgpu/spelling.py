"""From kernels to WGSL for one adapter, and how a launch of the result is counted and packed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hologram.atlas.program import Program
from hologram.backends.webgpu.dialect import wgsl
from hologram.backends.webgpu.intervals import Number
from hologram.compiler.codegen import generate
from hologram.compiler.dialect import words
from hologram.compiler.lower import lower
from hologram.errors import ProgramError
from hologram.limits import Limits
from hologram.opset.plan import Tile


@dataclass(frozen=True)
class Text:
    """WGSL and how to launch it."""

    text: str
    entry: str
    parameter_bytes: int
    pack: Callable[[Sequence[Number], Sequence[int]], bytes]
    groups: Callable[[Sequence[int]], tuple[int, int, int]]


def spell(kernel: Program | Tile, limits: Limits, immediates: bool) -> Text:
    """The text of a kernel; its parameters come as immediates, or in a uniform buffer after the storage buffers."""
    if isinstance(kernel, Tile):
        raise ProgramError(f"{kernel.entry}: tiles are not supported yet")
    dialect = wgsl(limits.dtypes, immediates=immediates)
    source = generate(lower(kernel, dialect), dialect, limits)
    return Text(
        text=source.text,
        entry=source.entry,
        parameter_bytes=4 * sum(words(p.dtype) for p in source.parameters),
        pack=source.pack,
        groups=lambda grid: source.groups(grid, limits),
    )
