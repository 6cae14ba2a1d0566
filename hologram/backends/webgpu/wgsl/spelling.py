"""From kernels to WGSL for one adapter, and how a launch of the result is counted and packed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

from hologram import dtypes, store
from hologram.atlas.program import Access, Program
from hologram.atlas.text import digest
from hologram.backends.webgpu.wgsl.dialect import wgsl
from hologram.backends.webgpu.wgsl.sources import kept_source
from hologram.compiler.lowering.lower import lower
from hologram.compiler.source.codegen import generate
from hologram.compiler.source.dialect import words
from hologram.compiler.source.schedule import Schedule, choose
from hologram.compiler.source.shader import load
from hologram.dtypes import Number
from hologram.errors import ShapeError
from hologram.limits import Limits
from hologram.plan import Tile

Groups = tuple[int, int, int]
SCHEDULES_KEPT = 1024


@dataclass(frozen=True)
class Text:
    """WGSL and how to launch it."""

    text: str
    entry: str
    writable: tuple[bool, ...]  # how each storage buffer is declared
    parameter_bytes: int
    immediates: bool  # where the parameters are expected; else in a uniform buffer after the storage buffers
    pack: Callable[[Sequence[Number], Sequence[int]], bytes]
    groups: Callable[[Sequence[int]], Groups]


class Spelling(Protocol):
    """A kernel that can be written for any grid, in as many ways as there are schedules."""

    def schedule(self, grid: Sequence[int]) -> Schedule | None: ...

    def text(self, schedule: Schedule | None) -> Text: ...

    def mapping(self, grid: Sequence[int]) -> str:
        """How a launch over the grid maps to threads, in a few words."""
        ...


class ProgramSpelling:
    """A generated kernel. `read_write`: every buffer is declared so, because some lie in one GPU buffer."""

    def __init__(self, program: Program, limits: Limits, max_immediate_bytes: int, read_write: bool) -> None:
        self.limits = limits
        size = 4 * (program.rank + sum(words(s.dtype) for s in program.scalars))
        self.immediates = size <= max_immediate_bytes
        self.parameter_bytes = size
        self.dialect = wgsl(limits.dtypes, immediates=self.immediates, read_write=read_write)
        self._given = program
        self._schedules: dict[tuple[int, ...], Schedule] = {}

    @cached_property
    def _lowered(self) -> Program:
        return lower(self._given, self.dialect)

    @cached_property
    def _identity(self) -> str:
        """Of all that decides the texts, but the schedule."""
        return store.key(
            digest(self._given), self.limits.text, f"{self.immediates}", f"{self.dialect.read_write}"
        )

    def schedule(self, grid: Sequence[int]) -> Schedule | None:
        """What suits the grid; None for a program without reductions, which has one schedule for all."""
        if not self._given.reduced:
            return None
        key = tuple(grid)
        if key not in self._schedules:
            if len(self._schedules) >= SCHEDULES_KEPT:
                self._schedules.clear()
            self._schedules[key] = choose(self._lowered, self.dialect, self.limits, grid)
        return self._schedules[key]

    def mapping(self, grid: Sequence[int]) -> str:
        return (self.schedule(grid) or choose(self._lowered, self.dialect, self.limits)).text

    def text(self, schedule: Schedule | None) -> Text:
        source = kept_source(
            store.key(self._identity, f"{schedule}"),
            lambda: generate(self._lowered, self.dialect, self.limits, schedule=schedule),
        )
        return Text(
            text=source.text,
            entry=source.entry,
            writable=tuple(b.access is not Access.READ for b in source.buffers),
            parameter_bytes=self.parameter_bytes,
            immediates=self.immediates,
            pack=source.pack,
            groups=lambda grid: source.groups(grid, self.limits),
        )


class TileSpelling:
    """A hand-written kernel: its grid is counted in workgroups, its parameters are a uniform buffer."""

    def __init__(self, tile: Tile, limits: Limits) -> None:
        self.tile = tile
        self.limits = limits

    def schedule(self, grid: Sequence[int]) -> None:
        return None

    def mapping(self, grid: Sequence[int]) -> str:
        return ", ".join(f"{name} {value}" for name, value in self.tile.constants) or self.tile.stem

    def text(self, schedule: Schedule | None) -> Text:
        tile, dialect = self.tile, wgsl(self.limits.dtypes)
        if tile.epilogue is not None:
            tile = replace(tile, epilogue=lower(tile.epilogue, dialect))
        shader = load(tile, dialect, missing=frozenset(dtypes.ALL) - self.limits.dtypes)
        return Text(
            text=shader.text,
            entry=shader.entry,
            writable=(True,) * len(tile.buffers),
            parameter_bytes=4 * len(shader.scalars),
            immediates=False,
            pack=lambda scalars, _grid: shader.pack(scalars),
            groups=self._groups,
        )

    def _groups(self, grid: Sequence[int]) -> Groups:
        x, y, z = (*grid, 1, 1)[:3]
        most = self.limits.max_workgroups
        if max(x, y, z) > most:
            raise ShapeError(
                f"{self.tile.entry}: {x} x {y} x {z} workgroups, this adapter takes {most} along an axis"
            )
        return x, y, z
