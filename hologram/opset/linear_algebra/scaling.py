"""Matrices brought to a size whose squares are numbers, and what is not finite found, ahead of a factorisation."""

from __future__ import annotations

from functools import lru_cache

from hologram.atlas.builder import Builder, Value
from hologram.atlas.complex_parts import number, parts
from hologram.atlas.functions import absolute, select
from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Access, Program
from hologram.foundation.dtypes import DType, i32
from hologram.opset.forms.steps import Place, Steps

THREADS = 64


def scaled(steps: Steps, x: Place) -> tuple[Place, Place]:
    """Appends x times a factor for each matrix, in place, for x (batch, m, n): the factors, and codes (i32).

    A factor is 1 unless the largest magnitude is so large or small that its square is none; a code is 1 where an
    element is NaN or infinite.
    """
    batch, m, n = x.layout.shape
    factors, codes = steps.place(x.layout.dtype.part, (batch,)), steps.place(i32, (batch,))
    steps.run(_sizes(x.layout.dtype, m * n), (x, factors, codes), {}, (batch * THREADS,))
    steps.run(_times(x.layout.dtype), (x, factors), {}, (batch, m * n))
    return factors, codes


def unscaled(steps: Steps, x: Place, factors: Place) -> None:
    """Appends x over its factor, in place, for contiguous x (batch, ...)."""
    batch = x.layout.shape[0]
    steps.run(_over(x.layout.dtype), (x, factors), {}, (batch, x.layout.size // batch))


@lru_cache(maxsize=256)
def _sizes(dtype: DType, size: int) -> Program:
    b = Builder(f"atlas_scale_{dtype}", rank=1, workgroup=THREADS)
    x = b.buffer("x", dtype, Access.READ)
    factors, codes = b.buffer("factors", dtype.part, Access.WRITE), b.buffer("codes", i32, Access.WRITE)
    matrix, thread = b.position(Opcode.WORKGROUP), b.position(Opcode.THREAD)
    sizes, failed = b.shared("sizes", dtype.part, THREADS), b.shared("failed", i32, THREADS)
    most = dtype.part.largest
    none, zero = b.constant(0.0, dtype.part), b.constant(0, i32)

    def look(k: Value, best: Value, bad: Value) -> tuple[Value, Value]:
        z = b.load(x, matrix * size + k)
        for u in parts(z):
            magnitude = absolute(u)
            held = (u == u) & (magnitude <= most)
            best = select(held & (magnitude > best), magnitude, best)
            bad = select(held, bad, 1)
        return best, bad

    best, bad = b.loop(thread, size, look, first=(none, zero), step=THREADS)
    b.shared_store(sizes, thread, best)
    b.shared_store(failed, thread, bad)
    b.barrier()

    def tell() -> None:
        def largest(k: Value, best: Value, bad: Value) -> tuple[Value, Value]:
            size = b.shared_load(sizes, k)
            return select(size > best, size, best), bad | b.shared_load(failed, k)

        best, bad = b.loop(0, THREADS, largest, first=(none, zero))
        wide = dtype.part.bits == 64
        high, low = (1e130, 1e-130) if wide else (1e14, 1e-10)
        extreme = ((best > high) | (best < low)) & (best > 0.0)
        b.store(factors, matrix, select(extreme, 1.0 / select(extreme, best, 1.0), 1.0))
        b.store(codes, matrix, bad)

    b.if_(thread == 0, tell, lambda: None)
    return b.build()


def _scale(dtype: DType, name: str, access: Access, over: bool) -> Program:
    b = Builder(f"atlas_{name}_{dtype}", rank=2)
    x, factors = b.buffer("x", dtype, access), b.buffer("factors", dtype.part, Access.READ)
    factor = b.load(factors, b.coordinate(0))
    at = b.coordinate(0) * b.extent(1) + b.coordinate(1)
    z = b.load(x, at)
    b.store(x, at, number([u / factor if over else u * factor for u in parts(z)]))
    return b.build()


@lru_cache(maxsize=4)
def _times(dtype: DType) -> Program:
    return _scale(dtype, "scaled", Access.READ_WRITE, False)


@lru_cache(maxsize=4)
def _over(dtype: DType) -> Program:
    return _scale(dtype, "unscaled", Access.READ_WRITE, True)
