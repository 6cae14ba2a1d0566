"""Shared memory and barriers where the last workgroup is not whole: every backend does what the evaluator says."""

from __future__ import annotations

import numpy as np
import pytest

import hologram as hg
from hologram.atlas.builder import Builder, Value
from hologram.atlas.evaluate import evaluate
from hologram.atlas.functions import select
from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Access, Program
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType, f32, i32
from tests.needs import needs

THREADS = 8
COUNTS = [1, 5, 8, 13, 16, 1003]
KINDS = [dtypes.f32, dtypes.i32, dtypes.u8, dtypes.f16, dtypes.bool_, dtypes.f64, dtypes.i64]


def reverse(dtype: DType, size: int = THREADS) -> Program:
    """Each lane gives what its mirror in the workgroup has: 0 where there is none."""
    b = Builder("reversed", workgroup=THREADS)
    x, out = b.buffer("x", dtype, Access.READ), b.buffer("out", dtype, Access.WRITE)
    kept, lane, thread = b.shared("kept", dtype, size), b.coordinate(0), b.position(Opcode.THREAD)
    b.shared_store(kept, thread, b.load(x, lane))
    b.barrier()
    b.store(out, lane, b.shared_load(kept, size - 1 - thread))
    return b.build()


def totals() -> Program:
    """The workgroup's sum by halves, with a barrier in a loop: lanes that are missing add nothing."""
    b = Builder("totals", workgroup=THREADS)
    x, out = b.buffer("x", i32, Access.READ), b.buffer("out", i32, Access.WRITE)
    parts, lane, thread = b.shared("parts", i32, THREADS), b.coordinate(0), b.position(Opcode.THREAD)
    b.shared_store(parts, thread, b.load(x, lane))
    b.barrier()

    def halve(_: Value, width: Value) -> tuple[Value]:
        def add() -> None:
            b.shared_store(parts, thread, b.shared_load(parts, thread) + b.shared_load(parts, thread + width))

        b.if_(thread < width, add, lambda: None)
        b.barrier()
        return (width // 2,)

    b.loop(0, 3, halve, first=(b.constant(THREADS // 2, dtypes.index),))
    b.store(out, lane, b.shared_load(parts, b.constant(0, dtypes.index)))
    return b.build()


def untouched() -> Program:
    """Nobody stores: shared memory begins as zeros in each workgroup, whatever the one before left there."""
    b = Builder("untouched", workgroup=THREADS)
    x, out = b.buffer("x", f32, Access.READ), b.buffer("out", f32, Access.WRITE)
    kept, lane, thread = b.shared("kept", f32, 2 * THREADS), b.coordinate(0), b.position(Opcode.THREAD)
    before = b.shared_load(kept, thread)
    b.barrier()
    b.shared_store(kept, thread, b.load(x, lane))
    b.barrier()
    b.store(out, lane, before + b.shared_load(kept, thread + THREADS) + b.shared_load(kept, thread))
    return b.build()


def rounds() -> Program:
    """Turns of a loop with a barrier, as many as one of the workgroup's elements says; none for every second group."""
    b = Builder("rounds", workgroup=THREADS)
    x, out = b.buffer("x", i32, Access.READ), b.buffer("out", i32, Access.WRITE)
    kept, turns = b.shared("kept", i32, THREADS), b.shared("turns", i32, 1)
    lane, thread = b.coordinate(0), b.position(Opcode.THREAD)
    zero = b.constant(0, dtypes.index)
    b.shared_store(kept, thread, b.load(x, lane))

    def tell() -> None:
        even = b.position(Opcode.WORKGROUP) % 2 == 0
        b.shared_store(turns, zero, select(even, b.load(x, lane) % 5 + 1, 0))

    b.if_(thread == 0, tell, lambda: None)
    b.barrier()
    count = b.shared_agreed(turns, zero)

    def turn(_: Value) -> None:
        neighbour = b.shared_load(kept, (thread + 1) % THREADS)
        b.barrier()
        b.shared_store(kept, thread, neighbour + 1)
        b.barrier()

    b.loop(0, count.to(dtypes.index), turn)
    b.store(out, lane, b.shared_load(kept, thread) + count)
    return b.build()


def agree(executor: hg.Executor, program: Program, dtype: DType, lanes: int) -> None:
    x = (np.arange(lanes) % 100 + 1).astype(dtype.numpy)
    want = np.zeros(lanes, dtype.numpy)
    evaluate(program, {"x": x, "out": want}, {}, (lanes,))
    out = executor.allocate(lanes, dtype)
    executor.run(program, {"x": executor.allocate(lanes, dtype).from_numpy(x), "out": out}, lanes=lanes)
    np.testing.assert_array_equal(out.to_numpy(), want)


@pytest.mark.parametrize("lanes", COUNTS)
@pytest.mark.parametrize("dtype", KINDS, ids=repr)
def test_a_lane_that_is_missing_stores_nothing(executor, dtype, lanes):
    needs(executor, dtype)
    agree(executor, reverse(dtype), dtype, lanes)
    agree(executor, reverse(dtype, size=THREADS + 3), dtype, lanes)


@pytest.mark.parametrize("lanes", COUNTS)
def test_sums_of_workgroups(executor, lanes):
    agree(executor, totals(), i32, lanes)
    x = (np.arange(lanes) % 100 + 1).astype(np.int32)
    want = np.zeros(lanes, np.int32)
    evaluate(totals(), {"x": x, "out": want}, {}, (lanes,))
    sums = np.add.reduceat(x, np.arange(0, lanes, THREADS))
    np.testing.assert_array_equal(want, np.repeat(sums, THREADS)[:lanes])  # what the definition is


@pytest.mark.parametrize("lanes", COUNTS)
def test_loops_that_a_workgroup_agrees_on(executor, lanes):
    agree(executor, rounds(), i32, lanes)


@pytest.mark.parametrize("lanes", COUNTS)
def test_shared_memory_begins_as_zeros(executor, lanes):
    agree(executor, untouched(), f32, lanes)
