"""Ctrl-C in loops in loops, each of which has too few turns to ask alone."""

# pyright: reportInvalidTypeForm=false

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import hologram as hg
from tests.backends.cpu.interrupting import interrupted, works


@pytest.fixture(scope="module")
def cpu() -> Iterator[hg.Executor]:
    with hg.Executor("cpu") as executor:
        yield executor


@hg.kernel
def told_in_constant(o: hg.Array[hg.f32], m: hg.Array[hg.i32]):
    i = hg.index()
    v = o[i]
    for _ in range(100_000):
        for _ in range(m[0]):
            v = hg.sin(v) * hg.exp(v * 0.1) + 1.0
    o[i] = v


@hg.kernel
def while_in_constant(o: hg.Array[hg.f32], m: hg.Array[hg.i32]):
    i = hg.index()
    v = o[i]
    for _ in range(100_000):
        k = 0
        while k < m[0]:
            v = hg.sin(v) * hg.exp(v * 0.1) + 1.0
            k += 1
    o[i] = v


@hg.kernel
def three_told(o: hg.Array[hg.f32], m: hg.Array[hg.i32]):
    i = hg.index()
    v = o[i]
    for _ in range(m[0]):
        for _ in range(m[1]):
            for _ in range(m[2]):
                v = hg.sin(v) * hg.exp(v * 0.1) + 1.0
    o[i] = v


@hg.kernel
def three_whiles(o: hg.Array[hg.f32], m: hg.Array[hg.i32]):
    i = hg.index()
    v, a = o[i], 0
    while a < m[0]:
        b = 0
        while b < m[1]:
            c = 0
            while c < m[2]:
                v = hg.sin(v) * hg.exp(v * 0.1) + 1.0
                c += 1
            b += 1
        a += 1
    o[i] = v


@hg.kernel(workgroup=32)
def three_met(o: hg.Array[hg.f32], a: hg.i32, b: hg.i32, c: hg.i32):
    i, t = hg.index(), hg.thread_index()
    own = hg.shared(32, hg.f32)
    own[t] = o[i]
    for _ in range(a):
        for _ in range(b):
            for _ in range(c):
                hg.barrier()
                v = own[(t + 1) % 32] * 0.5 + 1.0
                hg.barrier()
                own[t] = v
    o[i] = own[t]


@pytest.mark.parametrize(
    ("kernel", "turns"),
    [
        (told_in_constant, [16_000]),
        (while_in_constant, [4000]),
        (three_told, [250, 250, 4000]),
        (three_whiles, [4000, 4000, 30]),
    ],
    ids=["for in constant for", "while in constant for", "three for", "three while"],
)
def test_nests_of_short_loops(kernel: Any, turns: list[int], cpu: hg.Executor) -> None:
    kernel[1](cpu.ones(1), cpu.tensor(np.ones(len(turns), np.int32)))  # compiled
    bounds = cpu.tensor(np.array(turns, dtype=np.int32))
    with interrupted():
        kernel[1](cpu.ones(1), bounds)
    works(cpu)


def test_nests_of_short_loops_with_barriers(cpu: hg.Executor) -> None:
    for turns in ((250, 250, 1), (1, 1, 1000)):  # compiled, and asked within
        o = cpu.zeros(32)
        three_met[32](o, *turns)
        np.testing.assert_array_equal(o.to_numpy(), 2)
    with interrupted():
        three_met[32](cpu.ones(32), 250, 250, 2000)
    works(cpu)
