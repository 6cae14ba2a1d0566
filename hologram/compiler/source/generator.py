"""From kernels to source for one device, in as many variants as its launches ask for; kept from process to process.

A launching backend needs no more: it compiles a variant's source, packs the launch's numbers and counts its workgroups.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields, replace
from functools import cached_property
from pathlib import Path
from typing import Protocol

from hologram.atlas.opcodes import LOOPS
from hologram.atlas.program import Access, BufferParameter, Launchable, Program, ScalarParameter
from hologram.atlas.rewrite import Unrolling
from hologram.atlas.text import digest
from hologram.compiler.analysis.accesses import paths, reached, references, unproven
from hologram.compiler.analysis.phases import rows
from hologram.compiler.analysis.ranges import I64, U32, Lanes
from hologram.compiler.analysis.turns import Turns
from hologram.compiler.dialect import Dialect
from hologram.compiler.lowering.bounds import measured
from hologram.compiler.passes import Goal, Place
from hologram.compiler.pipeline import lower
from hologram.compiler.scheduling.schedule import UNROLLED, Schedule, Sweep, choose
from hologram.compiler.source.codegen import Source, generate
from hologram.compiler.source.kept import kept
from hologram.compiler.source.shader import Shader, load
from hologram.foundation import dtypes, store
from hologram.foundation.bounded_caches import FIFOCache
from hologram.foundation.dtypes import Number
from hologram.foundation.frozen import frozen
from hologram.machine.limits import Limits
from hologram.machine.plan import Tile

VARIANTS_KEPT = 1024
COPIES = 7  # of an element's code in a thread that takes four: see entry_map


@frozen
class Variant:
    """What a launch knows and the source depends on. Equal variants of a kernel have one source."""

    schedule: Schedule | None = None  # None: there is one for every grid
    guarded: frozenset[Place] = frozenset()  # accesses that may miss their buffers
    unrolled: tuple[tuple[int, Unrolling], ...] = ()  # loops, by their counters
    watched: bool = False  # says where the driver ended loops: see Limits.loop_turns

    @property
    def text(self) -> str:
        """The same for equal variants, in every process."""
        return f"{self.schedule} {sorted(self.guarded)} {self.unrolled} {self.watched}"


PLAIN = Variant()


class Generator(Protocol):
    """A kernel that can be written for any launch."""

    only: Variant | None  # that of every launch, where there is one

    def variant(
        self, grid: Sequence[int], scalars: Sequence[Number] = (), lengths: Sequence[int] = ()
    ) -> Variant:
        """What suits a launch; `lengths` are those of the bound buffers, in elements, in order."""
        ...

    def listed(self, grid: Sequence[int], scalars: Sequence[Number]) -> Variant:
        """What suits a launch that binds buffers as large as it reaches; without scalars each counts as 1."""
        ...

    def source(self, variant: Variant) -> Source | Shader:
        """Raises UnsupportedDType for what the language lacks."""
        ...

    def mapping(self, grid: Sequence[int]) -> str:
        """How a launch over the grid maps to threads, in a few words."""
        ...


class ProgramGenerator:
    """Of a program. `folder`: the backend's, whose sources count as well for what is kept; None: nothing is."""

    only: Variant | None = None

    def __init__(self, program: Program, dialect: Dialect, limits: Limits, folder: Path | None) -> None:
        self.program = program
        self.dialect = dialect
        self.limits = limits
        self.folder = folder
        self.checks = not dialect.checks_bounds and bool(program.buffers or program.shared or program.local)
        self._schedules: FIFOCache[tuple[int, ...], Schedule] = FIFOCache(VARIANTS_KEPT)

    @cached_property
    def _lowered(self) -> Program:
        return lower(self.program, Goal.language(self.dialect, self.limits))

    @cached_property
    def _paths(self):
        return paths(self.program)

    @cached_property
    def _identity(self) -> str:
        """Of all that decides the sources, but the variant."""
        return store.key(digest(self.program), self.limits.text, self.dialect.name, self.dialect.options)

    def variant(
        self, grid: Sequence[int], scalars: Sequence[Number] = (), lengths: Sequence[int] = ()
    ) -> Variant:
        """See Generator. A program without reductions has one schedule for all grids."""
        schedule = self._schedule(tuple(grid))
        variant = (
            Variant(schedule, self._guarded(grid, scalars, lengths)) if self.checks else Variant(schedule)
        )
        return self._bounded(variant, grid, scalars) if self._loops else variant

    def listed(self, grid: Sequence[int], scalars: Sequence[Number]) -> Variant:
        """See Generator."""
        numbers = scalars or (1,) * len(self.program.scalars)
        reach = reached(references(self._paths, Lanes.of(self.program, numbers, grid)))
        return self.variant(grid, numbers, [reach.get(b.name, (0, -1))[1] + 1 for b in self.program.buffers])

    @cached_property
    def _loops(self) -> bool:
        """Whether some launch's loops may take more turns than the driver lets them."""
        limit = self.limits.loop_turns
        if not limit or not self._lowered.opcodes & LOOPS:
            return False
        most = Turns.always(self._lowered).most()
        return self.program.reduced > 0 or most is None or most * COPIES > limit

    def _bounded(self, variant: Variant, grid: Sequence[int], scalars: Sequence[Number]) -> Variant:
        """The variant with loops unrolled whose turns are too many; watched, where they may still be."""
        lanes = Lanes.of(self._lowered, scalars, grid, U32 if self.dialect.index_bits == 32 else I64)
        turns, limit = Turns.of(self._lowered, lanes), self.limits.loop_turns
        most, schedule = turns.most(), variant.schedule
        if schedule is not None:  # a row: the loops of its elements are turns of those along it
            along = schedule.turns(grid, self.program.reduced, len(rows(self._lowered).phases))
            watched = most is None or along * (1 + UNROLLED * most) > limit
            return replace(variant, watched=watched)
        if most is not None and most * COPIES <= limit:
            return variant
        schedule = replace(choose(self._lowered, self.dialect, self.limits), elements=1)
        unrolled = turns.unrolling(limit)
        most = turns.most(unrolled)
        watched = most is None or most > limit
        return replace(variant, schedule=schedule, unrolled=tuple(unrolled.items()), watched=watched)

    def _schedule(self, grid: tuple[int, ...]) -> Schedule | None:
        if not self.program.reduced:
            return None
        schedule = self._schedules.get(grid)
        return schedule or self._schedules.keep(grid, choose(self._lowered, self.dialect, self.limits, grid))

    def _guarded(
        self, grid: Sequence[int], scalars: Sequence[Number], lengths: Sequence[int]
    ) -> frozenset[Place]:
        lanes = Lanes.of(self.program, scalars, grid, U32 if self.dialect.index_bits == 32 else I64)
        known = dict(zip((b.name for b in self.program.buffers), lengths, strict=True))
        known |= {s.name: s.size for s in (*self.program.shared, *self.program.local)}
        return unproven(references(self._paths, lanes), known)

    def mapping(self, grid: Sequence[int]) -> str:
        return (self._schedule(tuple(grid)) or choose(self._lowered, self.dialect, self.limits)).text

    def source(self, variant: Variant) -> Source:
        """See Generator."""
        if self.folder is None:
            return self._generated(variant)
        identity = store.key(self._identity, variant.text)
        return kept(self.folder, identity, lambda: _packed(self._generated(variant)), _unpacked)

    def _generated(self, variant: Variant) -> Source:
        lowered = self._lowered
        if variant.guarded or variant.unrolled:
            # Where loops are bounded nothing is guarded: lowering anew gives the values that `unrolled` names.
            goal = Goal.language(self.dialect, self.limits)
            goal = replace(goal, guarded=variant.guarded, unrolled=dict(variant.unrolled))
            lowered = lower(self.program, goal)
        source = generate(
            lowered, self.dialect, self.limits, schedule=variant.schedule, watched=variant.watched
        )
        return replace(source, measured=measured(self.program, lowered))


class TileGenerator:
    """Of a hand-written kernel, which has one source and checks its bounds itself."""

    only: Variant | None = PLAIN

    def __init__(self, tile: Tile, dialect: Dialect, limits: Limits) -> None:
        self.tile = tile
        self.dialect = dialect
        self.limits = limits

    def variant(
        self, grid: Sequence[int], scalars: Sequence[Number] = (), lengths: Sequence[int] = ()
    ) -> Variant:
        return PLAIN

    def listed(self, grid: Sequence[int], scalars: Sequence[Number]) -> Variant:
        return PLAIN

    def mapping(self, grid: Sequence[int]) -> str:
        return ", ".join(f"{name} {value}" for name, value in self.tile.constants) or self.tile.stem

    def source(self, variant: Variant) -> Shader:
        """See Generator; raises as `shader.load`."""
        tile, dialect = self.tile, self.dialect
        if tile.epilogue is not None:
            tile = replace(tile, epilogue=lower(tile.epilogue, dialect))
        native = self.limits.dtypes - self.limits.emulated_dtypes
        return load(tile, dialect, missing=frozenset(dtypes.ALL) - native)


def generator(kernel: Launchable, dialect: Dialect, limits: Limits, folder: Path | None = None) -> Generator:
    """That of a kernel in a language."""
    if isinstance(kernel, Program):
        return ProgramGenerator(kernel, dialect, limits, folder)
    assert isinstance(kernel, Tile)
    return TileGenerator(kernel, dialect, limits)


def _packed(source: Source) -> bytes:
    schedule = source.schedule
    values = {field.name: getattr(source, field.name) for field in fields(source)} | {
        "buffers": [(b.name, b.dtype.name, b.access.value) for b in source.buffers],
        "parameters": [(p.name, p.dtype.name) for p in source.parameters],
        "schedule": (
            schedule.sweep.value,
            schedule.workgroup,
            schedule.elements,
            schedule.threads,
            schedule.subgroup,
        ),
    }
    return json.dumps(values).encode()


def _unpacked(content: bytes) -> Source:
    """Raises ValueError, TypeError or KeyError for what `_packed` did not make."""
    values = json.loads(content)
    sweep, *numbers = values["schedule"]
    x, y, z = values["workgroup"]
    return Source(
        **values
        | {
            "workgroup": (x, y, z),
            "buffers": tuple(BufferParameter(n, dtypes.named(d), Access(a)) for n, d, a in values["buffers"]),
            "parameters": tuple(ScalarParameter(n, dtypes.named(d)) for n, d in values["parameters"]),
            "schedule": Schedule(Sweep(sweep), *numbers),
            "measured": tuple(values["measured"]),
        }
    )
