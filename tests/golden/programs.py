"""A few programs that between them use most of what a dialect must spell."""

from __future__ import annotations

from collections.abc import Callable

from hologram.atlas import functions as b
from hologram.atlas.builder import Builder, Value
from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Access, Program
from hologram.foundation.dtypes import DType, bool_, f16, f32, i8, i32, index, u32

READ, WRITE, READ_WRITE = Access.READ, Access.WRITE, Access.READ_WRITE


def elementwise(name: str, inputs: tuple[DType, ...], output: DType, body: Callable[..., Value]) -> Program:
    """out[i] = body(a[i], b[i], ...)."""
    p = Builder(name)
    buffers = [p.buffer("abc"[k], d, READ) for k, d in enumerate(inputs)]
    out = p.buffer("out", output, WRITE)
    lane = p.coordinate(0)
    p.store(out, lane, body(*(p.load(x, lane) for x in buffers)))
    return p.build()


def silu_f16() -> Program:
    """Narrow in memory, f32 between."""

    def body(x: Value) -> Value:
        wide = x.to(f32)
        return (wide / (b.exp(-wide) + 1.0)).to(f16)

    return elementwise("atlas_silu_f16", (f16,), f16, body)


def softmax_f32() -> Program:
    """Two reductions, one after the other, and a sweep that stores."""
    p = Builder("atlas_softmax_f32", rank=2, reduced=1)
    x, out = p.buffer("x", f32, READ), p.buffer("out", f32, WRITE)
    position = p.coordinate(0) * p.extent(1) + p.coordinate(1)
    value = p.load(x, position)
    power = b.exp(value - b.reduce_max(value))
    p.store(out, position, power / b.reduce_add(power))
    return p.build()


def column_sum_f32() -> Program:
    """A reduction whose elements do not lie side by side; its result is stored once a row."""
    p = Builder("atlas_column_sum_f32", rank=2, reduced=1)
    x, out = p.buffer("x", f32, READ), p.buffer("out", f32, WRITE)
    column = p.coordinate(0)
    total = b.reduce_add(p.load(x, p.coordinate(1) * p.extent(0) + column))
    p.store(out, column, total)
    return p.build()


def power_of_seven_u32() -> Program:
    """A loop that carries two values and a branch: 7 to the a-th power by squaring, 0 past 2^16."""
    p = Builder("atlas_power_of_seven_u32")
    a, out = p.buffer("a", u32, READ), p.buffer("out", u32, WRITE)
    lane = p.coordinate(0)
    exponent = p.load(a, lane)

    def turn(counter: Value, result: Value, square: Value) -> tuple[Value, Value]:
        bit = (exponent >> counter.to(u32)) & 1
        return b.select(bit != 0, result * square, result), square * square

    def powered() -> tuple[Value]:
        result, _ = p.loop(0, 16, turn, first=(p.constant(1, u32), p.constant(7, u32)), dtype=index)
        return (result,)

    (value,) = p.if_(exponent < 65536, powered, lambda: (p.constant(0, u32),))
    p.store(out, lane, value)
    return p.build()


def histogram_i32() -> Program:
    """Atomics at positions that the data names; the old counts are kept."""
    p = Builder("atlas_histogram_i32")
    a, counts = p.buffer("a", i32, READ), p.buffer("counts", i32, READ_WRITE)
    step = p.scalar("step", i32)
    position = (p.load(a, p.coordinate(0)) & 15).to(index)
    p.atomic(Opcode.ATOMIC_ADD, counts, position, step)
    return p.build()


def reverse_f32() -> Program:
    """Shared memory and a barrier: every workgroup of 64 turns its elements round."""
    p = Builder("atlas_reverse_f32", workgroup=64)
    a, out = p.buffer("a", f32, READ), p.buffer("out", f32, WRITE)
    kept = p.shared("kept", f32, 64)
    thread, lane = p.position(Opcode.THREAD), p.position(Opcode.LANE)
    p.shared_store(kept, thread, p.load(a, lane))
    p.barrier()
    p.store(out, lane, p.shared_load(kept, p.constant(63, index) - thread))
    return p.build()


PROGRAMS: dict[str, Program] = {
    "add_f32": elementwise("atlas_add_f32", (f32, f32), f32, lambda x, y: x + y),
    "add_i8": elementwise("atlas_add_i8", (i8, i8), i8, lambda x, y: x + y),
    "cast_f32_i8": elementwise("atlas_cast_f32_i8", (f32,), i8, lambda x: x.to(i8)),
    "column_sum_f32": column_sum_f32(),
    "histogram_i32": histogram_i32(),
    "power_of_seven_u32": power_of_seven_u32(),
    "reverse_f32": reverse_f32(),
    "silu_f16": silu_f16(),
    "softmax_f32": softmax_f32(),
    "where_f32": elementwise("atlas_where_f32", (bool_, f32, f32), f32, b.select),
}
