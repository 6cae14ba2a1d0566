"""Programs as kernels: packing a launch, and handing it to one thread or all."""

from __future__ import annotations

import functools
import itertools
import math
import struct
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hologram.atlas import arithmetic
from hologram.atlas.program import Program
from hologram.atlas.text import digest
from hologram.backends.cpu import interrupts
from hologram.backends.cpu.image import ADDRESS, F32, F64, Patch, Piece, Step, prepared
from hologram.backends.cpu.llvm.arguments import Slots
from hologram.backends.cpu.llvm.module import module
from hologram.backends.cpu.workers import Pool
from hologram.compiled.machine_code.engine import Code, Engine
from hologram.compiled.machine_code.objects import kept_code
from hologram.compiler.analysis.accesses import Reference, paths, reached, references
from hologram.compiler.analysis.ranges import I64, Lanes
from hologram.compiler.functions.transcendental import unless_scalar
from hologram.compiler.lowering.bounds import GUARD, measured
from hologram.compiler.passes import Goal, Place
from hologram.compiler.pipeline import applied, lower
from hologram.compiler.scheduling.interior import interior
from hologram.compiler.scheduling.loops import Schedule, Variant, facts, schedule
from hologram.compiler.scheduling.orders import VECTOR_BYTES
from hologram.compiler.scheduling.streams import Extent
from hologram.compiler.source.report import generated
from hologram.foundation import store
from hologram.foundation.bounded_caches import FIFOCache
from hologram.foundation.dtypes import DType, Number
from hologram.foundation.frozen import frozen
from hologram.machine.kernel import Binding, Kernel, Launch, Prepared, Span, nothing
from hologram.machine.plan import Given

FOLDER = Path(__file__).parent  # all that decides the code
GOAL = Goal(lacks=unless_scalar, strict=True)
# As what a scalar of a dtype is told, where that needs no rounding beside the conversion.
TOLD = {"f32": F32, "f64": F64}


def pack_scalar(number: int | float | bool, dtype: DType) -> int:
    """A scalar as the bits of its register type, in a slot."""
    if dtype.name == "f64":
        packed = struct.pack("<d", float(number))
    elif dtype.is_float:
        packed = struct.pack("<f4x", arithmetic.number(float(number), dtype))
    elif -(1 << 63) <= number < 1 << 63:
        return int(number) if isinstance(number, float) else number + 0
    else:
        packed = (int(number) & (1 << 64) - 1).to_bytes(8, "little")
    return int.from_bytes(packed, "little", signed=True)


def _empty(program: Program, grid: Sequence[int]) -> bool:
    """Whether there is nothing to do; a row without elements still has its result."""
    return not math.prod(grid[: program.rank - program.reduced])


INTERIOR_NS = 20_000  # of a launch, from which on the inside of its grid is looked for
MAX_SCHEDULES = 256  # that a program's kernel remembers
OWN_GRIDS = 4  # small ones that have code of their own: who comes with more shapes would mostly compile


@frozen
class Host:
    """What kernels share: the compiler and the threads, each opened at first need."""

    engine: Callable[[], Engine]
    pool: Callable[[], Pool]
    threads: int


class ProgramKernel(Kernel):
    """A program; compiled once for each way its launches want it."""

    def __init__(self, program: Program, host: Host) -> None:
        self._source = program
        self.program = lower(program, GOAL)
        self._paths = paths(self.program)
        self._facts = facts(self.program)
        self._host = host
        self._compiled: dict[Variant, Code] = {}
        self._guards: dict[frozenset[Place], Program] = {frozenset(): self.program}
        self._schedules: FIFOCache[Any, Schedule] = FIFOCache(
            MAX_SCHEDULES
        )  # of launches whose buffers lie apart
        self._grids = set[tuple[int, ...]]()  # with code of their own
        self._lock = threading.Lock()

    @property
    def fresh(self) -> bool:
        """Whether nothing was compiled yet."""
        return not self._compiled

    def bind(
        self, bindings: Sequence[Binding], scalars: Sequence[int | float | bool], grid: Sequence[int]
    ) -> Launch:
        """See device.Kernel. The launch runs on the calling thread, or on all threads if it is long enough."""
        return bound(self.pieces, bindings, scalars, grid, self._host)

    def pieces(
        self,
        spans: Sequence[Span],
        scalars: Sequence[int | float | bool],
        grid: Sequence[int],
        often: bool = False,
    ) -> list[Piece]:
        """The steps of a launch on memory like this: as large, aligned to vectors where this is, apart where this is.

        Operand k is argument number k. A small launch that comes `often` gets code of its own (see `_own`).
        """
        if _empty(self.program, grid):
            return []
        plan = self.scheduled(spans, scalars, grid)
        if often:
            plan = self._own(plan, tuple(grid))
        program, guarded = self.program, self._guarded(plan.variant)
        slots = Slots(guarded)
        words = [
            *(0 for _ in program.buffers),
            *(pack_scalar(x, s.dtype) for x, s in zip(scalars, program.scalars, strict=True)),
            *(spans[k][1] // program.buffers[k].dtype.itemsize for k in measured(program, guarded)),
            *grid,
            plan.tile,
            0,
        ]
        patches = [Patch(k, ADDRESS, k) for k in range(len(program.buffers))]
        for k, (x, s) in enumerate(zip(scalars, program.scalars, strict=True)):
            if type(x) is Given:
                patches.append(Patch(slots.scalars + k, TOLD[s.dtype.name], x.argument))
        code = self.code(plan.variant)
        steps = tuple(map(Step, code.addresses, plan.totals, plan.slices))
        return [Piece(steps, words, tuple(patches), plan.scratch + 1, slots.scratch, code)]

    def _own(self, plan: Schedule, grid: tuple[int, ...]) -> Schedule:
        """The schedule with code for a small grid alone, for the first grids; more share what is for any."""
        own = plan.only(grid)
        if own is plan or (grid not in self._grids and len(self._grids) >= OWN_GRIDS):
            return plan
        self._grids.add(grid)
        return own

    def in_order(
        self, spans: Sequence[Span], scalars: Sequence[int | float | bool], grid: Sequence[int]
    ) -> Piece | None:
        """The launch, as `pieces`, if it is one step whose lanes follow the grid's order and can run in any parts."""
        variant = self.scheduled(spans, scalars, grid).variant
        if variant.form != "map" or variant.strips or variant.order != tuple(range(len(grid))):
            return None
        (piece,) = self.pieces(spans, scalars, grid)
        return piece

    def scheduled(
        self, spans: Sequence[Span], scalars: Sequence[int | float | bool], grid: Sequence[int]
    ) -> Schedule:
        """The schedule; of memory only sizes, alignment and overlaps have a say, so most that is bound finds one."""
        program = self.program
        extents = [(place, nbytes, p) for (place, nbytes), p in zip(spans, program.buffers, strict=True)]
        key = None
        if _apart(extents):
            places = tuple([(address % VECTOR_BYTES, nbytes) for address, nbytes in spans])
            key = (tuple(scalars), tuple(grid), places)
            known = self._schedules.get(key)
            if known is not None:
                return known
        lanes = Lanes.of(program, scalars, grid, I64)
        found = self._planned(references(self._paths, lanes), lanes, grid, extents)
        if key is not None:
            self._schedules.keep(key, found)
        return found

    def schedule(
        self, spans: Sequence[Span], scalars: Sequence[int | float | bool], grid: Sequence[int]
    ) -> str:
        """The form of the code, and in how many slices threads share it."""
        if _empty(self.program, grid):
            return "nothing to do"
        plan = self.scheduled(spans, scalars, grid)
        counts = [-(-total // size) for total, size in zip(plan.totals, plan.slices, strict=True) if size]
        shared = "on one thread" if plan.alone else f"in {' + '.join(map(str, counts))} slices"
        return f"{plan.variant.form} {shared}"

    def source(self, grid: Sequence[int], scalars: Sequence[int | float | bool] = ()) -> str:
        """The LLVM IR that a launch over this grid would get; see device.Device.source."""
        program = self.program
        if _empty(program, grid):
            return "; nothing is launched: the grid is empty"
        lanes = Lanes.of(program, scalars or (1,) * len(program.scalars), grid, I64)
        found = references(self._paths, lanes)
        reach = reached(found)
        spans, address = [], 0
        for p in program.buffers:
            spans.append((address, (reach.get(p.name, (0, -1))[1] + 1) * p.dtype.itemsize, p))
            address += -(-spans[-1][1] // VECTOR_BYTES) * VECTOR_BYTES
        plan = self._planned(found, lanes, grid, spans)
        return module(self._guarded(plan.variant), plan.variant, self._host.engine().vector_bits)[0]

    def _planned(
        self, found: Sequence[Reference], lanes: Lanes, grid: Sequence[int], extents: Sequence[Extent]
    ) -> Schedule:
        """The schedule of a launch, and the inside of its grid where that is worth to be looked for."""
        plan = schedule(self._facts, found, lanes, tuple(grid), extents, self._host.threads)
        lanes_ns = plan.totals[0] * self._facts.element_ns
        if plan.variant.form != "map" or not plan.variant.order or lanes_ns < INTERIOR_NS:
            return plan
        guarded = self._guarded(plan.variant)
        lengths = {
            s.name: extents[k][1] // self.program.buffers[k].dtype.itemsize
            for k, s in zip(
                measured(self.program, guarded), guarded.scalars[len(self.program.scalars) :], strict=True
            )
        }
        known = replace(lanes, program=guarded, scalars={**lanes.scalars, **lengths})
        inside = interior(guarded, known, plan.variant.order[-1])
        strips = 0 if inside else plan.variant.strips  # either cuts runs into pieces
        return replace(plan, variant=replace(plan.variant, inside=inside, strips=strips))

    def _guarded(self, variant: Variant) -> Program:
        """The program with checks where a variant's accesses may miss their memory."""
        found = self._guards.get(variant.guarded)
        if found is None:
            found = applied(GUARD, self.program, replace(GOAL, guarded=variant.guarded))
            self._guards[variant.guarded] = found
        return found

    def code(self, variant: Variant) -> Code:
        """Machine code for a variant, made at first need."""
        found = self._compiled.get(variant)
        if found is None:
            with self._lock:
                found = self._compiled.get(variant)
                if found is None:
                    engine = self._host.engine()
                    interrupts.known()
                    name = self.program.name

                    def text() -> tuple[str, tuple[str, ...]]:
                        return module(self._guarded(variant), variant, engine.vector_bits)

                    generated(f"{name}, form {variant.form},", "LLVM IR", lambda: text()[0])
                    key = store.key(self._digest, variant.text)
                    found = self._compiled[variant] = kept_code(engine, name, key, text, FOLDER)
        return found

    @functools.cached_property
    def _digest(self) -> str:
        """Of the program as it was given: what it became follows from that."""
        return digest(self._source)


def _apart(spans: Sequence[tuple[int, int, Any]]) -> bool:
    """Whether no two pieces of memory share a byte."""
    ends = sorted([(address, address + nbytes) for address, nbytes, _ in spans])
    return all(one[1] <= other[0] for one, other in itertools.pairwise(ends))


Pieces = Callable[[Sequence[Span], Sequence[Number], Sequence[int]], list[Piece]]


def bound(
    pieces: Pieces, bindings: Sequence[Binding], scalars: Sequence[Number], grid: Sequence[int], host: Host
) -> Launch:
    """A launch of pieces that always lies in the same memory, which it keeps alive."""
    spans = [(b.memory.address + b.offset, b.nbytes) for b in bindings]
    found = pieces(spans, scalars, grid)
    if not found:
        return nothing
    launch = prepared(found, host.pool(), host.engine())
    return functools.partial(_on, launch, [place for place, _ in spans], [b.memory for b in bindings])


def _on(launch: Prepared, arguments: list[Any], _memories: Any) -> None:
    launch(arguments)
