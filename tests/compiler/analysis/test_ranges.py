"""Ranges and strides of positions: true of every lane, and tight where the opset depends on it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hologram.atlas.builder import Builder, Value
from hologram.atlas.evaluate import evaluate
from hologram.atlas.functions import maximum, minimum, select
from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Access, Program
from hologram.compiler.analysis.accesses import paths, reached, references, unproven
from hologram.compiler.analysis.ranges import I64, U32, Lanes, Range, ranges
from hologram.foundation.dtypes import DType, f32, i32, i64, index, u8
from hologram.machine.kernel import Binding
from tests.backends.cpu.llvm.launching import device, place

GRID = (3, 4, 5)
OPERATIONS: tuple[Callable[[Value, Value], Value], ...] = (
    lambda x, y: x + y,
    lambda x, y: x - y,
    lambda x, y: x * y,
    lambda x, y: x // y,
    lambda x, y: x % y,
    minimum,
    maximum,
    lambda x, y: select(x < y, x, y + 1),
    lambda x, y: select((x >= 2) & (x < y + 1), x, y),
    lambda x, y: select((y > x) & (7 >= x), x * 2, x),
    lambda x, y: x.to(i32).to(index) + y.to(u8).to(index),
    lambda x, y: x.to(i64).to(f32).to(index) - y,
)


@st.composite
def positions(draw: st.DrawFn) -> Program:
    """out[the lane] = an expression of coordinates and small numbers."""
    b = Builder("atlas_position", rank=3)
    out = b.buffer("out", i64, Access.WRITE)
    values = [b.coordinate(k) for k in range(3)]
    values += [b.constant(n, index) for n in draw(st.lists(st.integers(0, 300), min_size=1, max_size=3))]
    for _ in range(draw(st.integers(1, 6))):
        x, y = (draw(st.sampled_from(values)) for _ in range(2))
        values.append(draw(st.sampled_from(OPERATIONS))(x, y))
    b.store(out, b.position(Opcode.LANE), values[-1].to(i64))
    return b.build()


@given(positions())
def test_a_range_holds_every_value_and_a_stride_every_step(program: Program) -> None:
    out = np.zeros(60, np.int64)
    evaluate(program, {"out": out}, {}, GRID)
    stored = program.body.instructions[-1].operands[1]
    found = ranges(program.body.walk(), Lanes.of(program, (), GRID, I64)).get(stored)
    if found is None:
        return
    assert found.low <= out.min()
    assert out.max() <= found.high
    strides = found.strides
    for axis in range(3) if strides is not None else ():
        steps = np.diff(out.reshape(GRID), axis=axis)
        assert (steps == (strides or {}).get(axis, 0)).all()


def one(write: Callable[[Builder], Value], rank: int = 1, workgroup: int | None = None) -> Program:
    """Loads x at a position."""
    b = Builder("atlas_at", rank=rank, workgroup=workgroup)
    x, out = b.buffer("x", f32, Access.READ), b.buffer("out", f32, Access.WRITE)
    b.store(out, b.position(Opcode.LANE), b.load(x, write(b)))
    return b.build()


def reach(program: Program, grid: tuple[int, ...], whole: tuple[int, int] = U32) -> Range | None:
    return references(paths(program), Lanes.of(program, (), grid, whole))[0].range


def test_positions_of_views_are_known_to_the_element() -> None:
    program = one(lambda b: b.coordinate(0) * 7 + (4 - b.coordinate(1)) * 1, rank=2)
    assert reach(program, (3, 5)) == Range(0, 18, {0: 7, 1: -1})
    last = one(lambda b: b.position(Opcode.WORKGROUP) * 64 + b.position(Opcode.THREAD), workgroup=64)
    assert reach(last, (100,)) == Range(0, 127, None)


@pytest.mark.parametrize(
    "write",
    [
        lambda b: (b.coordinate(0).to(f32) / 2.0 * 2.0).to(index),
        lambda b: ((b.coordinate(0).to(f32) / b.constant(2, index).to(f32)) * 8.0).to(index),
        lambda b: (b.coordinate(0) + 5).to(i32).to(f32).to(index),
    ],
)
def test_nothing_is_known_of_what_was_a_float(write: Callable[[Builder], Value]) -> None:
    assert reach(one(write), (8,)) is None


def test_what_does_not_fit_an_index_has_no_order() -> None:
    below = one(lambda b: maximum(b.coordinate(0) - 1, 0))
    assert reach(below, (8,)) is None  # 2^32 - 1, where an index has 32 bits
    assert reach(below, (8,), I64) == Range(0, 6, None)
    assert reach(one(lambda b: b.coordinate(0) - 1 + 1), (8,)) == Range(0, 7, {0: 1})


def test_a_choice_is_known_by_its_condition() -> None:
    def padded(b: Builder) -> Value:
        place = b.coordinate(0) * 2
        return select((place >= 3) & (place < 13), place, 3) - 3

    assert reach(one(padded), (10,)) == Range(0, 9, None)


@pytest.mark.parametrize("kind", [i32, i64])
def test_a_number_read_from_memory_is_known_by_its_condition(kind: DType) -> None:
    def gathered(
        bounds: Callable[[Value], Value], seen: Callable[[Value], Value] = lambda x: x
    ) -> Range | None:
        b = Builder("atlas_gather", rank=1)
        at, x = b.buffer("at", kind, Access.READ), b.buffer("x", f32, Access.READ)
        out, i = b.buffer("out", f32, Access.WRITE), b.coordinate(0)
        read = b.load(at, i)
        counted = seen(select(read < 0, read + 7, read))
        b.store(out, i, b.load(x, select(bounds(counted), counted, 0).to(index)))
        program = b.build()
        found = references(paths(program), Lanes.of(program, (), (3,), I64))
        return next(r.range for r in found if r.instruction.attribute == "x")

    assert gathered(lambda x: (x >= 0) & (x < 7)) == Range(0, 6, None)
    assert gathered(lambda x: (7 > x) & (2 <= x)) == Range(0, 6, None)  # or the 0 chosen elsewhere
    assert gathered(lambda x: x < 7) is None
    assert gathered(lambda x: (x < 0) & (x >= 7)) == Range(0, 0)
    # Of an unsigned number one bound will do.
    own = kind.unsigned
    assert gathered(lambda x: x < 7, lambda x: x.bitcast(own)) == Range(0, 6, None)
    assert gathered(lambda x: x > 7, lambda x: x.bitcast(own)) is None


def test_reach_and_proof() -> None:
    b = Builder("atlas_gather")
    at, x = b.buffer("at", i32, Access.READ), b.buffer("x", f32, Access.READ)
    out, i = b.buffer("out", f32, Access.WRITE), b.coordinate(0)
    b.store(out, i, b.load(x, b.load(at, i).to(index)) + b.load(x, i + 3))
    program = b.build()
    page = Lanes(program, {}, [(10, 19)], [100])
    found = references(paths(program), page)
    assert reached(found) == {"at": (10, 19), "out": (10, 19)}  # x is gathered
    assert {name for name, _ in unproven(found, {"at": 20, "x": 99, "out": 20})} == {"x"}
    assert {name for name, _ in unproven(found, {"at": 19, "x": 99, "out": 20})} == {"at", "x"}


@pytest.mark.parametrize("length", [1, 1024, 1027])
def test_loops_count_by_their_steps(length: int) -> None:
    """Four at a time, and the rest: none reads beyond the end, nor does a loop that has no turn."""
    b = Builder("atlas_copy")
    x, out = b.buffer("x", f32, Access.READ), b.buffer("out", f32, Access.WRITE)
    whole, end = b.scalar("n", index) // 4 * 4, b.scalar("n", index)
    b.loop(0, whole, lambda k: b.store(out, k + 3, b.load(x, k + 3)), step=4)
    b.loop(whole, end, lambda k: b.store(out, k, b.load(x, k)))
    program = b.build()
    found = references(paths(program), Lanes(program, {"n": length}, [(0, 0)], [1]))
    assert not unproven(found, {"x": max(length, 4), "out": max(length, 4)})
    assert unproven(found, {"x": max(length, 4), "out": length - 1})


def test_a_position_computed_in_floats_stays_inside_on_the_cpu() -> None:
    """15 / 2 * 2 is 15 in f32, not 14, and there is no element 15."""
    b = Builder("atlas_scatter")
    x, i = b.buffer("x", f32, Access.WRITE), b.coordinate(0)
    two = b.constant(2, index).to(f32)
    b.store(x, (i.to(f32) / two * two).to(index), b.constant(1.0, f32))
    cpu = device()
    memory = place(cpu, np.zeros(16, np.float32))
    cpu.compile(b.build()).bind([Binding(memory, 0, 60)], (), (16,))()
    np.testing.assert_array_equal(memory.bytes[:64].view(np.float32), [1] * 15 + [0])
