"""Random valid Atlas programs with data to run them on, for tests that compare two readings of a program."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from hologram.atlas.builder import Builder, Value
from hologram.atlas.functions import select
from hologram.atlas.opcodes import COMPARISONS, ROUNDINGS, TRANSCENDENTALS, Opcode
from hologram.atlas.program import Access, Program
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType

_BITS = (Opcode.AND, Opcode.OR, Opcode.XOR)
_SHIFTS = (Opcode.SHL, Opcode.SHR)
_FOLDS = (Opcode.REDUCE_ADD, Opcode.REDUCE_MUL, Opcode.REDUCE_MIN, Opcode.REDUCE_MAX)


@dataclass(frozen=True)
class Case:
    """A program and what to run it on."""

    program: Program
    buffers: dict[str, np.ndarray]
    scalars: dict[str, int | float]
    grid: tuple[int, ...]


def data(rng: np.random.Generator, dtype: DType, size: int) -> np.ndarray:
    """Small numbers, and now and then an extreme or special one."""
    if dtype.kind == "bool":
        return rng.random(size) < 0.5
    if dtype.is_integer:
        info = np.iinfo(dtype.numpy)
        small = rng.integers(max(info.min, -9), 9, size).astype(dtype.numpy)
        extremes = np.array([info.min, info.max, 0, 1], dtype.numpy)
    else:
        small = rng.normal(0.0, 3.0, size).astype(dtype.numpy)
        extremes = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 65000.0]).astype(dtype.numpy)
    return np.where(rng.random(size) < 0.15, extremes[rng.integers(0, extremes.size, size)], small)


@dataclass
class _Writer:
    """Draws instructions; `pool` holds the values in reach."""

    draw: st.DrawFn
    builder: Builder
    pool: list[Value]
    exact: bool
    division: bool
    known: tuple[DType, ...]
    arrays: bool = False  # whether lanes may have memory of their own
    local: dict[DType, Any] | None = None

    def pick(self, dtype: DType) -> Value:
        """A value of the dtype: one in reach, one converted, or a constant."""
        same = [v for v in self.pool if v.dtype is dtype]
        if same and self.draw(st.integers(0, 3)):
            return self.draw(st.sampled_from(same))
        if self.draw(st.booleans()):
            return self.draw(st.sampled_from(self.pool)).to(dtype)
        small = self.draw(st.integers(0, 7))
        return self.builder.constant(small % 2 == 1 if dtype.kind == "bool" else small, dtype)

    def operations(self, dtype: DType) -> list[tuple[Opcode, int]]:
        """Opcodes that take some operands of the dtype and give it back, with their number."""
        if dtype.kind == "bool":
            return [(o, 2) for o in _BITS] + [(Opcode.NOT, 1)]
        found = [(o, 2) for o in (Opcode.ADD, Opcode.SUB, Opcode.MUL, Opcode.MIN, Opcode.MAX)]
        found += [(Opcode.ABS, 1), (Opcode.NEG, 1)]
        if dtype.is_integer:
            found += [(o, 2) for o in (*_BITS, *_SHIFTS, Opcode.DIV, Opcode.REM, Opcode.POW)]
            found += [(Opcode.NOT, 1), (Opcode.MAD, 3)]
            if dtype in (dtypes.i32, dtypes.u32):
                found.append((Opcode.MULHI, 2))
            return found
        found += [(o, 1) for o in sorted(ROUNDINGS, key=lambda o: o.value)]
        if self.division:
            found.append((Opcode.DIV, 2))
        if not self.exact:
            found += [(o, 1) for o in sorted(TRANSCENDENTALS, key=lambda o: o.value)]
            found += [(Opcode.MAD, 3), (Opcode.FMA, 3), (Opcode.POW, 2), (Opcode.REM, 2)]
        return found

    def step(self, depth: int = 0) -> None:
        """One more value in the pool."""
        dtype = self.draw(st.sampled_from(self.known))
        kind = self.draw(st.integers(0, 9))
        if kind == 0 and depth < 2:
            self.pool.extend(self.branch(dtype, depth))
        elif kind == 1 and depth < 2:
            self.pool.extend(self.loop(dtype, depth))
        elif kind == 4 and depth < 2:
            self.pool.extend(self.while_(dtype, depth))
        elif kind == 5 and self.arrays and self.draw(st.booleans()):
            self.pool.append(self.through_memory(dtype))
        elif kind == 2:
            self.pool.append(select(self.pick(dtypes.bool_), self.pick(dtype), self.pick(dtype)))
        elif kind == 3:
            compare = self.draw(st.sampled_from(sorted(COMPARISONS, key=lambda o: o.value)))
            self.pool.append(self.builder.emit(compare, dtypes.bool_, self.pick(dtype), self.pick(dtype)))
        else:
            opcode, count = self.draw(st.sampled_from(self.operations(dtype)))
            operands = [self.pick(dtype) for _ in range(count)]
            self.pool.append(self.builder.emit(opcode, dtype, *operands))

    def inside(self, dtype: DType, depth: int, *entering: Value) -> list[Value]:
        """A block's steps; what it adds is out of reach afterwards."""
        before = len(self.pool)
        self.pool.extend(entering)
        for _ in range(self.draw(st.integers(0, 2))):
            self.step(depth + 1)
        result = self.pick(dtype)
        del self.pool[before:]
        return [result]

    def branch(self, dtype: DType, depth: int) -> tuple[Value, ...]:
        return self.builder.if_(
            self.pick(dtypes.bool_),
            lambda: self.inside(dtype, depth),
            lambda: self.inside(dtype, depth),
        )

    def loop(self, dtype: DType, depth: int) -> tuple[Value, ...]:
        """Up to 3 rounds, as many as the lane's own value says."""
        stop = (self.pick(dtypes.u32) & 3).to(dtypes.index)
        first = self.pick(dtype)
        step = self.draw(st.integers(1, 2))
        return self.builder.loop(
            0, stop, lambda k, x: self.inside(dtype, depth, k.to(dtypes.i32), x), first=[first], step=step
        )

    def while_(self, dtype: DType, depth: int) -> tuple[Value, ...]:
        """Up to 3 rounds, unless the data end it before."""
        left, first = self.pick(dtypes.u32) & 3, self.pick(dtype)

        def body(left: Value, x: Value) -> list[Value]:
            (result,) = self.inside(dtype, depth, left, x)
            return [(left > 1) & (self.pick(dtypes.bool_) | (left == 3)), left - 1, result]

        return self.builder.while_(left > 0, body, first=[left, first])[1:]

    def through_memory(self, dtype: DType) -> Value:
        """A value that went through the lane's own memory; some positions are outside of it."""
        self.local = self.local or {}
        if dtype not in self.local:
            self.local[dtype] = self.builder.local(f"local_{dtype.name}", dtype, 3)
        array = self.local[dtype]
        for _ in range(self.draw(st.integers(0, 2))):
            place = self.pick(dtypes.u32) & 3
            at = select(place < 3, place, 0).to(dtypes.index)
            self.builder.local_store(array, at, self.pick(dtype))
        place = self.pick(dtypes.u32) & 1
        return self.builder.local_load(array, place.to(dtypes.index))


@st.composite
def programs(
    draw: st.DrawFn,
    known: tuple[DType, ...] = dtypes.COMPUTED,
    *,
    exact: bool = False,
    division: bool | None = None,
    rows: bool | None = None,
) -> Case:
    """A map or row program over random data, and output buffers for some of its values.

    `known` are the dtypes it may use; bool, i32 and u32 occur in any case. `exact` leaves out what may differ in the
    last bit from one backend to the next: functions, mad, fma, float pow and rem, float sums and products over rows,
    and (unless `division` says otherwise) float division. `rows` asks for a row program or forbids one.
    """
    reduced = int(draw(st.booleans()) if rows is None else rows)
    rank = reduced + draw(st.integers(1, 2))
    grid = tuple(draw(st.integers(1, 9)) for _ in range(rank))
    lanes, size = math.prod(grid[: rank - reduced]), math.prod(grid)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    b = Builder("atlas_random", rank=rank, reduced=reduced)
    buffers: dict[str, np.ndarray] = {}
    row = b.position(Opcode.LANE)
    at = row * b.extent(rank - 1) + b.coordinate(rank - 1) if reduced else row
    pool = [at.to(dtypes.i32)]
    for k in range(draw(st.integers(1, 3))):
        dtype = draw(st.sampled_from(known))
        buffers[f"in_{k}"] = data(rng, dtype, size)
        pool.append(b.load(b.buffer(f"in_{k}", dtype, Access.READ), at))
    factor = draw(st.integers(0, 5))
    pool.append(b.scalar("factor", dtypes.i32))
    writer = _Writer(draw, b, pool, exact, not exact if division is None else division, known, not reduced)
    for _ in range(draw(st.integers(1, 8))):
        writer.step()
    uniform = [_fold(draw, writer) for _ in range(draw(st.integers(1, 2)))] if reduced else []
    for _ in range(draw(st.integers(0, 4)) if reduced else 0):
        writer.step()
    for k in range(draw(st.integers(1, 2))):
        value = draw(st.sampled_from(writer.pool))
        buffers[f"out_{k}"] = data(rng, value.dtype, size)
        b.store(b.buffer(f"out_{k}", value.dtype, Access.WRITE), at, value)
    for k, value in enumerate(uniform):
        buffers[f"row_{k}"] = data(rng, value.dtype, lanes)
        b.store(b.buffer(f"row_{k}", value.dtype, Access.WRITE), row, value)
    return Case(b.build(), buffers, {"factor": factor}, grid)


def _fold(draw: st.DrawFn, writer: _Writer) -> Value:
    """A reduction of something in reach."""
    x = draw(st.sampled_from([v for v in writer.pool if v.dtype.kind != "bool"]))
    inexact = writer.exact and x.dtype.is_float
    folded = writer.builder.emit(draw(st.sampled_from(_FOLDS[2:] if inexact else _FOLDS)), x.dtype, x)
    writer.pool.append(folded)
    return folded
