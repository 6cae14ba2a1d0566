"""Ctrl-C while compiled code runs: heard within a second in the main thread, and everything works afterwards."""

# pyright: reportInvalidTypeForm=false

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import hologram as hg
from tests.backends.cpu.interrupting import ENDLESS, halving, interrupted, works


@hg.kernel
def counted(o: hg.Array[hg.f32]):
    i = hg.index()
    v = o[i]
    for _ in range(2_000_000_000):
        v = v * 0.5 + 1.0
    o[i] = v


@hg.kernel
def nested(o: hg.Array[hg.f32]):
    i = hg.index()
    v = o[i]
    for _ in range(20_000_000):
        for _ in range(100):
            v = v * 0.5 + 1.0
    o[i] = v


@hg.kernel
def thrice_nested(o: hg.Array[hg.f32], m: hg.Array[hg.i32]):
    i = hg.index()
    v = o[i]
    for _ in range(3000):
        for _ in range(1000):
            for _ in range(1000):
                v = v * 0.5 + 1.0
    o[i] = v


@hg.kernel
def nested_in_told(o: hg.Array[hg.f32], m: hg.Array[hg.i32]):
    i = hg.index()
    v = o[i]
    for _ in range(m[0]):
        for _ in range(1_000_000):
            v = v * 0.5 + 1.0
    o[i] = v


@hg.kernel
def nested_in_while(o: hg.Array[hg.f32], m: hg.Array[hg.i32]):
    i = hg.index()
    v = o[i]
    while v < 3.0:
        for _ in range(1_000_000):
            v = v * 0.5 + 1.0
    o[i] = v


@hg.kernel
def told(o: hg.Array[hg.f32], m: hg.Array[hg.i32]):
    i = hg.index()
    v = o[i]
    for _ in range(m[0] * 10_000):
        v = v * 0.5 + 1.0
    o[i] = v


@hg.kernel
def told_in_told(o: hg.Array[hg.f32], m: hg.Array[hg.i32]):
    i = hg.index()
    v = o[i]
    for _ in range(m[0]):
        for _ in range(m[0]):
            v = v * 0.5 + 1.0
    o[i] = v


@hg.kernel
def given(o: hg.Array[hg.f32], turns: hg.i32):
    i = hg.index()
    v = o[i]
    for _ in range(turns):
        v = v * 0.5 + 1.0
    o[i] = v


@hg.kernel
def given_twice(o: hg.Array[hg.f32], turns: hg.i32):
    i = hg.index()
    v = o[i]
    for _ in range(turns):
        for _ in range(turns):
            v = v * 0.5 + 1.0
    o[i] = v


@hg.kernel
def ahead(o: hg.Array[hg.f32], turns: hg.i32):
    i = hg.index()
    v = o[i] * 0.0
    for k in range(turns):
        v += hg.exp(o[i] * 0.0 - k)
    o[i] = v


@hg.kernel(workgroup=32)
def met(o: hg.Array[hg.f32], turns: hg.i32):
    i, t = hg.index(), hg.thread_index()
    own = hg.shared(32, hg.f32)
    own[t] = o[i]
    for _ in range(turns):
        hg.barrier()
        v = own[(t + 1) % 32] * 0.5 + 1.0
        hg.barrier()
        own[t] = v
    o[i] = own[t]


@pytest.fixture(scope="module")
def cpu() -> Iterator[hg.Executor]:
    with hg.Executor("cpu") as executor:
        yield executor


@pytest.mark.parametrize("lanes", [1, 64, 100_000])
def test_loops_with_a_condition(lanes: int, cpu: hg.Executor) -> None:
    o = cpu.ones(lanes)
    halving[lanes](o, 10)  # compiled
    ended = o.to_numpy()
    for _ in range(2):
        with interrupted():
            halving[lanes](o, ENDLESS)
        works(cpu)
    o = cpu.ones(lanes)
    halving[lanes](o, 10)
    np.testing.assert_array_equal(o.to_numpy(), ended)


@pytest.mark.parametrize("kernel", [counted, nested], ids=["for", "for in for"])
@pytest.mark.parametrize("lanes", [1, 64])
def test_loops_that_count_far(kernel: Any, lanes: int, cpu: hg.Executor) -> None:
    with interrupted(1.5):  # when it is compiled
        kernel[lanes](cpu.ones(lanes))
    works(cpu)


@pytest.mark.parametrize("kernel", [told, told_in_told], ids=["for", "for in for"])
@pytest.mark.parametrize("lanes", [1, 64])
def test_loops_with_told_bounds(kernel: Any, lanes: int, cpu: hg.Executor) -> None:
    """Both forms of the loop, around the number of turns that tells them apart, are the same."""
    for turns in (0, 1, 2, 13, 14, 15, 255, 256, 257, 520):
        o = cpu.zeros(lanes)
        kernel[lanes](o, cpu.tensor(np.array([turns], dtype=np.int32)))
        inner = turns * (10_000 if kernel is told else turns)
        assert (o.to_numpy() == np.float32(2 - 2.0 ** (1 - inner))).all()
    bounds = cpu.tensor(np.array([200_000], dtype=np.int32))
    with interrupted():
        kernel[lanes](cpu.ones(lanes), bounds)
    works(cpu)


@pytest.mark.parametrize("kernel", [given, given_twice, ahead, met])
@pytest.mark.parametrize("lanes", [32, 640])
def test_loops_with_given_bounds(kernel: Any, lanes: int, cpu: hg.Executor) -> None:
    """Code for few turns and code for many give the same; what they give they still give afterwards."""

    def ended(turns: int) -> np.ndarray:
        o = cpu.zeros(lanes)
        kernel[lanes](o, turns)
        return o.to_numpy()

    limit = 1 / (1 - np.exp(-1)) if kernel is ahead else 2
    for turns in (50, 300, 3000):
        np.testing.assert_allclose(ended(turns), limit, rtol=1e-6)
    with interrupted():
        kernel[lanes](cpu.ones(lanes), ENDLESS // 2)
    for turns in (50, 300, 3000):
        np.testing.assert_allclose(ended(turns), limit, rtol=1e-6)
    works(cpu)


@pytest.mark.parametrize("kernel", [told, told_in_told], ids=["for", "for in for"])
def test_many_lanes(kernel: Any, cpu: hg.Executor) -> None:
    """None of which takes long."""
    kernel[4](cpu.ones(4), cpu.tensor(np.array([1], dtype=np.int32)))
    turns = cpu.tensor(np.array([1 if kernel is told else 120], dtype=np.int32))
    with interrupted():
        kernel[2_000_000](cpu.ones(2_000_000), turns)
    works(cpu)


@hg.kernel
def stepped(o: hg.Array[hg.i32], m: hg.Array[hg.i32]):
    count, last = 0, 0
    for k in range(m[0], m[1], 3):
        count += 1
        last = k
    o[0] = count
    o[1] = last


@pytest.mark.parametrize("turns", [0, 1, (1 << 14) + 1, (1 << 17) - 1, 1 << 17, (1 << 17) + 1, (3 << 17) + 5])
@pytest.mark.parametrize("start", [-5, 0, 1 << 30])
def test_parts_of_a_loop(start: int, turns: int, cpu: hg.Executor) -> None:
    o = cpu.full(2, 0, dtype=hg.i32)
    stepped[1](o, cpu.tensor(np.array([start, start + 3 * turns - (turns > 0)], dtype=np.int32)))
    assert o.to_numpy().tolist() == [turns, start + 3 * (turns - 1) if turns else 0]


@pytest.mark.parametrize("kernel", [thrice_nested, nested_in_told, nested_in_while])
@pytest.mark.parametrize("lanes", [1, 64])
def test_long_turns(kernel: Any, lanes: int, cpu: hg.Executor) -> None:
    bounds = cpu.tensor(np.array([60_000], dtype=np.int32))
    with interrupted(1.5):
        kernel[lanes](cpu.ones(lanes), bounds)
    works(cpu)


@hg.kernel
def long_steps(o: hg.Array[hg.i64], m: hg.Array[hg.i32]):
    count = hg.i64(0)
    for k in range(0, hg.i64(m[0]) * 1_000_000, 5000):
        count += k // 5000 % 3
    o[0] = count


def test_loops_with_long_steps(cpu: hg.Executor) -> None:
    o = cpu.full(1, 0, dtype=hg.i64)
    for told in (0, 1, 81, 82, 1000):  # below and above 16,384 turns
        long_steps[1](o, cpu.tensor(np.array([told], dtype=np.int32)))
        assert o.to_numpy()[0] == (np.arange(told * 200) % 3).sum()
    with interrupted():
        long_steps[1](o, cpu.tensor(np.array([ENDLESS], dtype=np.int32)))
    works(cpu)


def test_many_launches_in_one(cpu: hg.Executor) -> None:
    slow = hg.jit(lambda x: [x := hg.sort(hg.sin(x)) for _ in range(300)][-1])
    x = cpu.tensor(np.linspace(0, 1, 1_000_000, dtype=np.float32))

    def steady() -> None:
        while True:
            slow(x)

    slow(x)
    with interrupted():
        steady()
    works(cpu)


def test_stacks_of_matrices(cpu: hg.Executor) -> None:
    x = np.random.default_rng(0).standard_normal((400, 96, 96)).astype(np.float32)
    stack = cpu.tensor(x + x.swapaxes(1, 2))
    for function in (hg.linalg.eigh, hg.linalg.svd):
        function(stack[:5])

        def steady(function: Any = function) -> None:
            while True:
                function(stack)

        with interrupted():
            steady()
        works(cpu)


@hg.kernel
def uneven(o: hg.Array[hg.f32], turns: hg.Array[hg.i32]):
    i = hg.index()
    v, k = o[i], 0
    while k < turns[i]:
        v = v * 0.5 + 1.0
        k += 1
    o[i] = v


def test_the_caller_asks_while_it_waits(cpu: hg.Executor) -> None:
    """Only the last lanes, which workers take, are long."""
    lanes = 100_000
    turns = np.ones(lanes, np.int32)
    uneven[lanes](cpu.ones(lanes), cpu.tensor(turns))
    turns[-64:] = ENDLESS
    long = cpu.tensor(turns)
    with interrupted():
        uneven[lanes](cpu.ones(lanes), long)
    works(cpu)


def test_graphs_that_loop(cpu: hg.Executor) -> None:
    """A loop over launches, repeated without Python."""
    turns = hg.jit(lambda x: hg.while_loop(lambda y: (y >= 0).all(), lambda y: hg.cos(y) + 1, x))
    x = cpu.tensor(np.linspace(0, 1, 1000, dtype=np.float32))
    for _ in range(2):
        with interrupted(1.0):
            turns(x)
        works(cpu)


def test_stacks_that_numpy_is_given_in_parts(cpu: hg.Executor) -> None:
    x = np.random.default_rng(0).standard_normal((5000, 3, 3))
    x += x.swapaxes(1, 2)
    values, vectors = (y.to_numpy() for y in hg.linalg.eig(cpu.tensor(x)))
    np.testing.assert_allclose(x @ vectors, vectors * values[:, None], atol=1e-12)
