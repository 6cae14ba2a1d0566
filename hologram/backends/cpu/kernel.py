"""Programs as kernels: choosing how to compile one for a launch, and packing the launch."""

from __future__ import annotations

import ctypes
import functools
import math
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from hologram.atlas.program import Program
from hologram.backends.cpu.access import Site, sites
from hologram.backends.cpu.arguments import Slots, Variant
from hologram.backends.cpu.dialect import module
from hologram.backends.cpu.engine import Code, Engine
from hologram.backends.cpu.writer import narrow
from hologram.device import Binding, Launch
from hologram.dtypes import DType

_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


def nothing() -> None:
    """The launch of an empty grid."""


def pack_scalar(number: int | float | bool, dtype: DType) -> bytes:
    """A scalar as its register type, in the low bytes of a slot."""
    if dtype.name == "f64":
        return struct.pack("<d", float(number))
    if dtype.is_float:
        return struct.pack("<f4x", narrow(float(number), dtype))
    return (int(number) & (1 << 64) - 1).to_bytes(8, "little")


class ProgramKernel:
    """A program; compiled once for each way its launches want it."""

    def __init__(self, program: Program, engine: Callable[[], Engine]) -> None:
        self.program = program
        self._engine = engine
        self._compiled: dict[Variant, Code] = {}
        self._lock = threading.Lock()

    def bind(
        self, bindings: Sequence[Binding], scalars: Sequence[int | float | bool], grid: Sequence[int]
    ) -> Launch:
        program = self.program
        if math.prod(grid) == 0 and not (
            program.reduced and math.prod(grid[: program.rank - program.reduced])
        ):
            return nothing
        named = {s.name: x for s, x in zip(program.scalars, scalars, strict=True)}
        lengths = [b.nbytes // p.dtype.itemsize for b, p in zip(bindings, program.buffers, strict=True)]
        found = sites(program, named, [max(n, 1) for n in grid])
        variant = choose(
            program, found, named, grid, dict(zip((b.name for b in program.buffers), lengths, strict=True))
        )
        code = self.code(variant)
        slots = Slots(program)
        block = np.zeros(slots.count, np.int64)
        block[: slots.scalars] = [b.memory.address + b.offset for b in bindings]
        for k, (parameter, x) in enumerate(zip(program.scalars, scalars, strict=True)):
            block[slots.scalars + k] = int.from_bytes(pack_scalar(x, parameter.dtype), "little", signed=True)
        block[slots.extents : slots.lengths] = grid
        block[slots.lengths : slots.tile] = lengths
        total = math.prod(grid[: program.rank - program.reduced])
        call = _FUNCTION(code.addresses[0])
        launch = functools.partial(call, block.ctypes.data, 0, total)
        launch.keep = (block, code, [b.memory for b in bindings])  # type: ignore[attr-defined]
        return launch

    def code(self, variant: Variant) -> Code:
        """Machine code for a variant, compiled at first need."""
        found = self._compiled.get(variant)
        if found is None:
            with self._lock:
                found = self._compiled.get(variant)
                if found is None:
                    engine = self._engine()
                    text, names = module(self.program, variant, engine.vector_bits)
                    found = self._compiled[variant] = engine.compile(self.program.name, text, names)
        return found


def choose(
    program: Program,
    found: Sequence[Site],
    scalars: Mapping[str, Any],
    grid: Sequence[int],
    lengths: Mapping[str, int],
) -> Variant:
    """The variant for a launch."""
    kept = program.rank - program.reduced
    constants = tuple((s.name, int(scalars[s.name])) for s in program.scalars
                      if s.dtype.kind == "index" and int(scalars[s.name]) in (0, 1))  # fmt: skip
    unproven = frozenset(
        s.key for s in found
        if s.span is None or s.span.low < 0 or s.span.high >= lengths[s.key[0]]
    )  # fmt: skip
    order = innermost(range(kept), found, grid)
    reduced = innermost(range(kept, program.rank), found, grid)
    return Variant("row" if program.reduced else "map", order, reduced, constants, unproven)


def innermost(axes: Sequence[int], found: Sequence[Site], grid: Sequence[int]) -> tuple[int, ...]:
    """The axes in an order whose last one reads and writes memory with the smallest strides."""

    def cost(axis: int) -> tuple[float, int]:
        strides = [s.stride(axis) for s in found]
        steps = sum(0 if s in (0, 1) else 1 for s in strides)
        return steps + (8 / max(grid[axis], 1) if grid[axis] < 32 else 0), -axis

    if not axes:
        return ()
    best = min(axes, key=cost)
    return (*(a for a in axes if a != best), best)
