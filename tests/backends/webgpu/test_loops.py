"""Long loops: a software adapter ends those of a thread after 65,535 turns together, and no result may depend on it."""

from __future__ import annotations

import numpy as np
import pytest

import hologram as hg
from hologram.atlas.builder import Builder, Value
from hologram.atlas.functions import select
from hologram.atlas.program import Access, Program
from hologram.foundation.dtypes import DType, i32, i64, index, u32
from hologram.foundation.errors import HologramError
from tests.needs import needs

LANES = 37  # no multiple of what a thread or a workgroup takes


@pytest.fixture
def executor(index):
    with hg.Executor(backend="webgpu") as opened:
        yield opened


def counted(dtype: DType = index, start: int = 0, step: int = 1) -> Program:
    """out[i] = how many rounds a loop from `start` below n + i takes, by a sum that wraps, and tells their order."""
    b = Builder(f"rounds_{dtype}")
    out, n, lane = b.buffer("out", u32, Access.WRITE), b.scalar("n", dtype), b.coordinate(0)

    def turn(i: Value, total: Value) -> tuple[Value]:
        return (total * 3 + i.to(u32),)

    stop = n + lane.to(dtype)
    b.store(out, lane, b.loop(start, stop, turn, first=(b.constant(1, u32),), step=step, dtype=dtype)[0])
    return b.build()


def nested() -> Program:
    b = Builder("rounds_of_rounds")
    out, n, m, lane = (
        b.buffer("out", u32, Access.WRITE),
        b.scalar("n", index),
        b.scalar("m", index),
        b.coordinate(0),
    )

    def inner(j: Value, total: Value) -> tuple[Value]:
        return (total * 5 + j.to(u32),)

    def turn(i: Value, total: Value) -> tuple[Value, ...]:
        return b.loop(0, m, inner, first=(total + i.to(u32),))

    b.store(out, lane, b.loop(0, n + lane, turn, first=(b.constant(1, u32),))[0])
    return b.build()


def given() -> Program:
    """As many rounds as a buffer says."""
    b = Builder("rounds_given")
    counts, out = b.buffer("counts", u32, Access.READ), b.buffer("out", u32, Access.WRITE)
    lane = b.coordinate(0)
    one = b.constant(1, u32)
    b.store(
        out, lane, b.loop(0, b.load(counts, lane).to(index), lambda i, c: (c + one,), first=(one - one,))[0]
    )
    return b.build()


def counted_by_hand(n: int, start: int = 0, step: int = 1) -> list[int]:
    total, i, found = 1, start, []
    for lane in range(LANES):
        while i < n + lane:
            total, i = (total * 3 + i) % 2**32, i + step
        found.append(total)
    return found


def nested_by_hand(n: int, m: int) -> list[int]:
    total, i, found = 1, 0, []
    for lane in range(LANES):
        while i < n + lane:
            total, i = total + i, i + 1
            for j in range(m):
                total = (total * 5 + j) % 2**32
        found.append(total % 2**32)
    return found


def agree(executor: hg.Executor, program: Program, want: list[int], **scalars: int) -> None:
    out = executor.allocate(LANES, u32)
    executor.run(program, {"out": out}, lanes=LANES, **scalars)
    assert out.to_numpy().tolist() == want


@pytest.mark.parametrize("n", [0, 1, 16_384, 65_000, 65_536, 70_000, 200_001])
def test_any_number_of_rounds(executor, n):
    agree(executor, counted(), counted_by_hand(n), n=n)


@pytest.mark.parametrize("dtype", [i32, u32, i64], ids=repr)
@pytest.mark.parametrize("start", [0, 7])
@pytest.mark.parametrize("step", [1, 3])
def test_counters_of_each_dtype(executor, dtype, start, step):
    needs(executor, dtype)
    for n in (0, 5, 250_003):
        agree(executor, counted(dtype, start, step), counted_by_hand(n, start, step), n=n)


def test_counters_that_start_below_zero_and_end_at_the_last_number(executor):
    for start, n in ((-100_000, -20), (2**31 - 200_000, 2**31 - 1 - LANES)):
        agree(executor, counted(i32, start), counted_by_hand(n, start), n=n)


@pytest.mark.parametrize(("n", "m"), [(300, 300), (3, 70_000), (70_000, 0), (0, 70_000), (500, 150)])
def test_loops_in_loops(executor, n, m):
    agree(executor, nested(), nested_by_hand(n, m), n=n, m=m)


def test_a_long_loop_beside_a_short_one_that_the_program_counts(executor):
    b = Builder("beside")
    out, n, lane = b.buffer("out", u32, Access.WRITE), b.scalar("n", index), b.coordinate(0)

    def short(j: Value, total: Value) -> tuple[Value]:
        return (total * 7 + 1,)

    def turn(i: Value, total: Value) -> tuple[Value, ...]:
        return b.loop(0, 40, short, first=(total,))

    (total,) = b.loop(0, n, turn, first=(lane.to(u32),))
    b.store(out, lane, total)
    want = []
    for total in range(LANES):
        for _ in range(4000 * 40):
            total = (total * 7 + 1) % 2**32
        want.append(total)
    agree(executor, b.build(), want, n=4000)


def test_stores_of_every_round(executor):
    b = Builder("each_round")
    out, n, lane = b.buffer("out", u32, Access.READ_WRITE), b.scalar("n", index), b.coordinate(0)

    def turn(i: Value) -> None:
        place = i % LANES
        b.store(out, place, b.load(out, place) + 1)

    b.if_(lane == 0, lambda: b.loop(0, n, turn) and None, lambda: None)
    program, n_ = b.build(), 140_000
    out_ = executor.allocate(LANES, u32).from_numpy(np.zeros(LANES, np.uint32))
    executor.run(program, {"out": out_}, lanes=LANES, n=n_)
    if not executor.limits.loop_turns:
        np.testing.assert_array_equal(out_.to_numpy(), np.bincount(np.arange(n_) % LANES))
        return
    # A branch that only some lanes take is no reason to unroll; that its loop was ended is said.
    with pytest.raises(HologramError, match="ended loops before they were done, in each_round"):
        out_.to_numpy()


def test_rounds_that_data_counts_are_all_done_or_it_is_said(executor):
    counts = np.zeros(LANES, np.uint32)
    counts[[0, 5, 36]] = 3, 60_000, 9

    def run() -> np.ndarray:
        buffer, out = executor.allocate(LANES, u32).from_numpy(counts), executor.allocate(LANES, u32)
        executor.run(given(), {"counts": buffer, "out": out}, lanes=LANES)
        return out.to_numpy()

    np.testing.assert_array_equal(run(), counts)
    counts[5] = 70_000
    if executor.limits.loop_turns:
        with pytest.raises(HologramError, match="ended loops before they were done, in rounds_given"):
            run()
        buffer, out = executor.allocate(LANES, u32).from_numpy(counts), executor.allocate(LANES, u32)
        executor.run(given(), {"counts": buffer, "out": out}, lanes=LANES)
        with pytest.raises(HologramError, match="in rounds_given"):
            executor.synchronize()
        counts[5] = 9
    np.testing.assert_array_equal(run(), counts)  # once said it is over


def test_rows_whose_elements_loop(executor):
    x = np.arange(20_000, dtype=np.int64) % 7
    powers = hg.jit(lambda x: hg.sum(x**x))
    assert int(powers(executor.tensor(x)).to_numpy()) == int((x**x).sum())
    whole = np.stack([x, x + 1])
    rows = hg.jit(lambda x: hg.sum(x**x, axis=1))
    np.testing.assert_array_equal(rows(executor.tensor(whole)).to_numpy(), (whole**whole).sum(1))


def test_short_loops_stay_as_they_are(executor):
    """Nothing is unrolled or watched that cannot take too long."""
    b = Builder("short")
    out, lane = b.buffer("out", u32, Access.WRITE), b.coordinate(0)
    b.store(
        out,
        lane,
        b.loop(0, 9000, lambda i, c: (select(i == c.to(index), c + 1, c),), first=(lane.to(u32),))[0],
    )
    text = executor.device.source(b.build(), (LANES,))
    assert "unfinished" not in text
    assert text.count("for (") == 1
