"""From kernels to WGSL for one adapter, and how a launch of the result is counted and packed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from hologram import dtypes
from hologram.atlas.program import Program
from hologram.backends.webgpu.dialect import wgsl
from hologram.backends.webgpu.intervals import Number
from hologram.compiler.codegen import generate
from hologram.compiler.dialect import words
from hologram.compiler.lower import lower
from hologram.compiler.shader import load
from hologram.errors import ShapeError
from hologram.limits import Limits
from hologram.opset.plan import Tile


@dataclass(frozen=True)
class Text:
    """WGSL and how to launch it."""

    text: str
    entry: str
    parameter_bytes: int | None  # None: in a uniform buffer, however few
    pack: Callable[[Sequence[Number], Sequence[int]], bytes]
    groups: Callable[[Sequence[int]], tuple[int, int, int]]


def spell(kernel: Program | Tile, limits: Limits, immediates: bool) -> Text:
    """The text of a kernel; its parameters come as immediates, or in a uniform buffer after the storage buffers."""
    if isinstance(kernel, Tile):
        return _spell_tile(kernel, limits)
    dialect = wgsl(limits.dtypes, immediates=immediates)
    source = generate(lower(kernel, dialect), dialect, limits)
    return Text(
        text=source.text,
        entry=source.entry,
        parameter_bytes=4 * sum(words(p.dtype) for p in source.parameters),
        pack=source.pack,
        groups=lambda grid: source.groups(grid, limits),
    )


def _spell_tile(tile: Tile, limits: Limits) -> Text:
    """A hand-written kernel; its grid is counted in workgroups, and its file takes parameters as a uniform buffer."""
    dialect = wgsl(limits.dtypes)
    if tile.epilogue is not None:
        tile = replace(tile, epilogue=lower(tile.epilogue, dialect))
    shader = load(tile, dialect, missing=frozenset(dtypes.ALL) - limits.dtypes)

    def groups(grid: Sequence[int]) -> tuple[int, int, int]:
        x, y, z = (*grid, 1, 1)[:3]
        if max(x, y, z) > limits.max_workgroups:
            most = limits.max_workgroups
            raise ShapeError(f"{tile.entry}: {x} x {y} x {z} workgroups, this adapter takes {most} along an axis")
        return x, y, z

    return Text(
        text=shader.text,
        entry=shader.entry,
        parameter_bytes=None if shader.scalars else 0,
        pack=lambda scalars, _grid: shader.pack(scalars),
        groups=groups,
    )
