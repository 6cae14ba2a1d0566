"""Counting the turns of loops, and unrolling those that take too many; the evaluator says whether that is the same."""

from __future__ import annotations

import numpy as np
import pytest

from hologram.atlas.builder import Builder, Value
from hologram.atlas.evaluate import evaluate
from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Access, Program
from hologram.atlas.rewrite import Unrolling, rewrite
from hologram.atlas.verify import verify
from hologram.compiler.analysis.ranges import Lanes
from hologram.compiler.analysis.turns import Turns
from hologram.foundation.dtypes import i32, i64, index, u32, u64


def program(dtype=index, m: int | None = None) -> Program:
    """A loop in a loop, both of which carry; the inner one of m rounds, or as the launch says."""
    b = Builder("loops")
    out, n, lane = b.buffer("out", i64, Access.WRITE), b.scalar("n", dtype), b.coordinate(0)
    start, step = b.scalar("start", dtype), b.scalar("step", dtype)
    inner_stop = b.scalar("m", dtype) if m is None else b.constant(m, dtype)

    def inner(j: Value, x: Value, y: Value) -> tuple[Value, ...]:
        return y, x * 3 + j.to(i64)

    def turn(i: Value, x: Value, y: Value) -> tuple[Value, ...]:
        return b.loop(0, inner_stop, inner, first=(x + i.to(i64), y), dtype=dtype)

    first = b.constant(1, i64), b.constant(2, i64)
    x, y = b.loop(start, n, turn, first=first, step=step, dtype=dtype)
    b.store(out, lane, x * 5 + y)
    return b.build()


def counters(program: Program) -> list[int]:
    return [i.blocks[0].arguments[0] for i in program.body.walk() if i.opcode is Opcode.LOOP]


def result(program: Program, **scalars: int) -> int:
    out = np.zeros(1, np.int64)
    evaluate(program, {"out": out}, scalars, (1,))
    return int(out[0])


@pytest.mark.parametrize("dtype", [index, i32, u32, i64, u64], ids=repr)
@pytest.mark.parametrize("copies", [(2, 1), (1, 3), (4, 4)])
@pytest.mark.parametrize(
    ("start", "n", "step", "m"), [(0, 10, 1, 5), (3, 3, 1, 2), (9, 2, 1, 2), (1, 12, 4, 0), (0, 1, 7, 9)]
)
def test_several_rounds_a_turn(dtype, copies, start, n, step, m):
    plain = program(dtype)
    unrolled = rewrite(
        plain, unrolled={c: Unrolling(k) for c, k in zip(counters(plain), copies, strict=True)}
    )
    verify(unrolled)
    scalars = {"start": start, "n": n, "step": step, "m": m}
    assert result(unrolled, **scalars) == result(plain, **scalars)


def test_the_ends_of_a_dtype():
    for dtype, start, n in (
        (i32, -(2**31), -(2**31) + 9),
        (i32, 2**31 - 9, 2**31 - 1),
        (i64, 2**63 - 5, 2**63 - 1),
    ):
        plain = program(dtype)
        unrolled = rewrite(plain, unrolled={counters(plain)[0]: Unrolling(4)})
        scalars = {"start": start, "n": n, "step": 2, "m": 1}
        assert result(unrolled, **scalars) == result(plain, **scalars)


def test_a_loop_without_its_loop():
    plain = program(m=6)
    whole = rewrite(plain, unrolled={counters(plain)[1]: Unrolling(6, whole=True)})
    assert len(counters(whole)) == 1
    scalars = {"start": 0, "n": 5, "step": 1}
    assert result(whole, **scalars) == result(plain, **scalars)


def turns(program: Program, *scalars: int) -> Turns:
    return Turns.of(program, Lanes.of(program, scalars, (1,)))


def test_counting():
    plain = program()  # n, start, step, m
    outer, inner = counters(plain)
    found = turns(plain, 100, 0, 1, 7)
    assert found.most() == found.certain() == 101 + 100 * 8
    assert found.certain({inner: Unrolling(4)}) == 101 + 100 * (1 + 3 + 2)
    assert found.certain({outer: Unrolling(10)}) == 10 + 2 + 100 * 8
    assert turns(plain, 100, 90, 3, 0).most() == 5 + 4
    assert turns(plain, 5, 9, 1, 7).most() == 1
    assert Turns.always(plain).most() is None
    fixed = turns(program(m=7), 100, 0, 1)
    assert fixed.certain({inner: Unrolling(7, whole=True)}) == 101


def test_what_is_unrolled():
    assert turns(program(), 100, 0, 1, 7).unrolling(1000) == {}
    plain = program()
    outer, inner = counters(plain)
    found = turns(plain, 300, 0, 1, 300).unrolling(65_000)
    assert found == {inner: Unrolling(2)}
    found = turns(plain, 4, 0, 1, 300_000).unrolling(65_000)
    assert turns(plain, 4, 0, 1, 300_000).certain(found) <= 65_000
    assert outer not in found
    fixed = program(m=16)
    found = turns(fixed, 60_000, 0, 1).unrolling(65_000)
    assert found == {counters(fixed)[1]: Unrolling(16, whole=True)}
    found = turns(plain, 60_000, 0, 1, 3).unrolling(65_000)
    assert found == {inner: Unrolling(3, whole=True)}, "in this launch"
    assert turns(plain, 60_000, 0, 1, 3000).unrolling(65_000) == {}, "no use: each round ends a loop"
    assert turns(plain, 2**31, 0, 1, 0).unrolling(65_000) == {}, "too much code"


def test_what_may_be_skipped_is_not_certain():
    b = Builder("branch")
    out, n, lane = b.buffer("out", u32, Access.WRITE), b.scalar("n", index), b.coordinate(0)
    counts = b.buffer("counts", u32, Access.READ)

    def loop(stop: Value) -> tuple[Value, ...]:
        return b.loop(0, stop, lambda i, c: (c + 1,), first=(b.constant(0, u32),))

    (x,) = b.if_(lane == 0, lambda: loop(n), lambda: loop(n * 2))
    b.store(out, lane, x)
    found = turns(b.build(), 50)
    assert (found.most(), found.certain()) == (51 + 101, 0)
    (y,) = loop(b.load(counts, lane).to(index))
    b.store(out, lane, y)
    found = turns(b.build(), 50)
    assert (found.most(), found.certain()) == (None, 0)
