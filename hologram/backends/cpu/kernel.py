"""Programs as kernels: packing a launch, and handing it to one thread or all."""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hologram import store
from hologram.atlas import arithmetic
from hologram.atlas.program import Program
from hologram.atlas.text import digest
from hologram.backends.cpu.engine import Code, Engine
from hologram.backends.cpu.llvm.arguments import Variant
from hologram.backends.cpu.llvm.module import module
from hologram.backends.cpu.llvm.nontemporal import VECTOR_BYTES
from hologram.backends.cpu.llvm.schedule import Schedule, facts, schedule
from hologram.backends.cpu.objects import kept_code
from hologram.backends.cpu.workers import Pool
from hologram.compiler.analysis.ranges import I64, Lanes, paths, reached, references
from hologram.compiler.functions.transcendental import expand, unless_scalar
from hologram.compiler.passes import passed
from hologram.compiler.source.report import generated
from hologram.device import Binding, Kernel, Launch, in_turn, nothing
from hologram.dtypes import DType
from hologram.records import frozen

# Of the ways ctypes calls, the cheapest that releases the interpreter's lock (docs/design/cpu.md).
_STEP = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_LAUNCH = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def pack_scalar(number: int | float | bool, dtype: DType) -> int:
    """A scalar as the bits of its register type, in a slot."""
    if dtype.name == "f64":
        packed = struct.pack("<d", float(number))
    elif dtype.is_float:
        packed = struct.pack("<f4x", arithmetic.number(float(number), dtype))
    else:
        packed = (int(number) & (1 << 64) - 1).to_bytes(8, "little")
    return int.from_bytes(packed, "little", signed=True)


def _empty(program: Program, grid: Sequence[int]) -> bool:
    """Whether there is nothing to do; a row without elements still has its result."""
    return not math.prod(grid[: program.rank - program.reduced])


MAX_SCHEDULES = 256  # that a program's kernel remembers


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
        self.program = passed("expand functions", program, expand(program, unless_scalar, wide=True))
        self._paths = paths(self.program)
        self._facts = facts(self.program)
        self._host = host
        self._compiled: dict[Variant, Code] = {}
        self._schedules: dict[Any, Schedule] = {}  # of launches whose buffers lie apart
        self._lock = threading.Lock()

    def bind(
        self, bindings: Sequence[Binding], scalars: Sequence[int | float | bool], grid: Sequence[int]
    ) -> Launch:
        """See device.Kernel. The launch runs on the calling thread, or on all threads if it is long enough."""
        if _empty(self.program, grid):
            return nothing
        plan = self._scheduled(bindings, scalars, grid)
        scratch = np.zeros(plan.scratch + 1, np.int64)
        block = self._arguments(bindings, scalars, grid, plan, scratch)
        return self._launch(plan, block, (scratch, [b.memory for b in bindings]))

    def _scheduled(
        self, bindings: Sequence[Binding], scalars: Sequence[int | float | bool], grid: Sequence[int]
    ) -> Schedule:
        """The schedule; of memory only sizes, alignment and overlaps have a say, so most that is bound finds one."""
        program = self.program
        spans = [
            (b.memory.address + b.offset, b.nbytes, p) for b, p in zip(bindings, program.buffers, strict=True)
        ]
        key = None
        if _apart(spans):
            places = tuple([(address % VECTOR_BYTES, nbytes) for address, nbytes, _ in spans])
            key = (tuple(scalars), tuple(grid), places)
            known = self._schedules.get(key)
            if known is not None:
                return known
        lanes = Lanes.of(program, scalars, grid, I64)
        found = schedule(
            self._facts, references(self._paths, lanes), lanes, tuple(grid), spans, self._host.threads
        )
        if key is not None:
            if len(self._schedules) >= MAX_SCHEDULES:
                self._schedules.clear()
            self._schedules[key] = found
        return found

    def schedule(
        self, bindings: Sequence[Binding], scalars: Sequence[int | float | bool], grid: Sequence[int]
    ) -> str:
        """The form of the code, and in how many slices threads share it."""
        if _empty(self.program, grid):
            return "nothing to do"
        plan = self._scheduled(bindings, scalars, grid)
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
        plan = schedule(self._facts, found, lanes, tuple(grid), spans, self._host.threads)
        return module(program, plan.variant, self._host.engine().vector_bits)[0]

    def _arguments(
        self,
        bindings: Sequence[Binding],
        scalars: Sequence[int | float | bool],
        grid: Sequence[int],
        plan: Schedule,
        scratch: np.ndarray,
    ) -> np.ndarray:
        """The argument block, in the order of Slots."""
        program = self.program
        return np.array(
            [
                # A load that misses its buffer reads its first element (lane.py), so there must be one.
                *(b.memory.address + b.offset if b.nbytes else scratch.ctypes.data for b in bindings),
                *(pack_scalar(x, s.dtype) for x, s in zip(scalars, program.scalars, strict=True)),
                *grid,
                *(b.nbytes // p.dtype.itemsize for b, p in zip(bindings, program.buffers, strict=True)),
                plan.tile,
                scratch.ctypes.data,
            ],
            np.int64,
        )

    def _launch(self, plan: Schedule, block: np.ndarray, kept: Any) -> Launch:
        code = self.code(plan.variant)
        arguments = block.ctypes.data
        kept = (block, code, kept)
        if plan.alone:
            total = plan.totals[0]
            step = (code.addresses[0], arguments, total, max(total, 1))
            return Bound(_STEP(code.addresses[0]), arguments, 0, total).of((step,), None, kept)
        pool = self._host.pool()
        steps = tuple(
            (address, arguments, total, size)
            for address, total, size in zip(code.addresses, plan.totals, plan.slices, strict=True)
        )
        return recorded(steps, pool, shared=True, kept=kept)

    def code(self, variant: Variant) -> Code:
        """Machine code for a variant, made at first need."""
        found = self._compiled.get(variant)
        if found is None:
            with self._lock:
                found = self._compiled.get(variant)
                if found is None:
                    engine = self._host.engine()
                    name = self.program.name

                    def text() -> tuple[str, tuple[str, ...]]:
                        return module(self.program, variant, engine.vector_bits)

                    generated(f"{name}, form {variant.form},", "LLVM IR", lambda: text()[0])
                    key = store.key(self._digest, variant.text)
                    found = self._compiled[variant] = kept_code(engine, name, key, text)
        return found

    @functools.cached_property
    def _digest(self) -> str:
        """Of the program as it was given: what it became follows from that."""
        return digest(self._source)


def _apart(spans: Sequence[tuple[int, int, Any]]) -> bool:
    """Whether no two pieces of memory share a byte."""
    ends = sorted([(address, address + nbytes) for address, nbytes, _ in spans])
    return all(one[1] <= other[0] for one, other in itertools.pairwise(ends))


Step = tuple[int, int, int, int]  # function, its arguments, total, slice: one that holds the total runs alone


class Bound(functools.partial):
    """A call of compiled code: what it runs, the threads that share it, and what must stay alive for it."""

    steps: tuple[Step, ...]
    pool: Pool | None

    def of(self, steps: tuple[Step, ...], pool: Pool | None, kept: Any) -> Bound:
        self.steps = steps
        self.pool = pool
        self.kept = kept
        return self


def recorded(steps: tuple[Step, ...], pool: Pool, shared: bool, kept: Any) -> Bound:
    """A call that runs steps one after another, on all threads where they are `shared`."""
    if shared:
        pool.start()
    record = np.array([pool.address, len(steps), *(x for step in steps for x in step)], np.int64)
    call = Bound(_LAUNCH(pool.launch_address), record.ctypes.data)
    return call.of(steps, pool if shared else None, (record, pool, kept))


def sequence(launches: Sequence[Launch], pool: Callable[[], Pool]) -> Launch:
    """One call for launches in order: neighbours that are compiled code become one record, which Python starts once."""
    calls: list[Launch] = []
    for compiled, group in itertools.groupby(launches, lambda launch: type(launch) is Bound):
        bound: Any = list(group)
        if compiled and len(bound) > 1:
            steps = tuple(step for b in bound for step in b.steps)
            calls.append(recorded(steps, pool(), any(b.pool for b in bound), bound))
        else:
            calls += [launch for launch in bound if launch is not nothing]
    return in_turn(calls)
