"""Ctrl-C while compiled code runs: heard within a second in the main thread, and everything works afterwards."""

# pyright: reportInvalidTypeForm=false

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import hologram as hg

ENDLESS = 2_000_000_000  # turns: seconds at least


@hg.kernel
def halving(o: hg.Array[hg.f32], turns: hg.i32):
    i = hg.index()
    v, k = o[i], 0
    while k < turns:
        v = v * 0.5 + 1.0
        k += 1
    o[i] = v


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


@pytest.fixture(scope="module")
def cpu() -> Iterator[hg.Executor]:
    with hg.Executor("cpu") as executor:
        yield executor


@contextmanager
def interrupted(after_s: float = 0.3, within_s: float = 1) -> Iterator[None]:
    """Ctrl-C while the block runs, which raises KeyboardInterrupt soon."""
    sent: list[float] = []

    def send() -> None:
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(after_s, send)
    timer.start()
    try:
        yield
        time.sleep(10)
    except KeyboardInterrupt:
        assert time.monotonic() - sent[0] < within_s
    else:
        pytest.fail("Ctrl-C was not heard at all")


def works(executor: hg.Executor) -> None:
    x = executor.tensor(np.arange(100_000, dtype=np.float32))
    np.testing.assert_array_equal((x + 1).to_numpy(), np.arange(100_000, dtype=np.float32) + 1)


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


@pytest.mark.parametrize("kernel", [thrice_nested, nested_in_told, nested_in_while])
@pytest.mark.parametrize("lanes", [1, 64])
def test_long_turns(kernel: Any, lanes: int, cpu: hg.Executor) -> None:
    bounds = cpu.tensor(np.array([60_000], dtype=np.int32))
    with interrupted(1.5, within_s=5):
        kernel[lanes](cpu.ones(lanes), bounds)
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


def test_handlers_that_do_not_raise_stop_nothing(cpu: hg.Executor) -> None:
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        o, timer = cpu.ones(64), threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT))
        halving[64](o, 10)
        timer.start()
        halving[64](o, 20_000_000)
        timer.join()
        assert o.to_numpy()[0] == 2
        assert came
    finally:
        signal.signal(signal.SIGINT, before)


def test_launches_of_other_threads_go_on(cpu: hg.Executor) -> None:
    o, main = cpu.ones(64), cpu.ones(64)
    for each in (o, main):
        halving[64](each, 10)
    other = threading.Thread(target=lambda: halving[64](o, 30_000_000))
    with interrupted():
        other.start()
        halving[64](main, ENDLESS)
    other.join()
    assert o.to_numpy()[0] == 2
    works(cpu)


def heard(call: Callable[[], object]) -> None:
    with interrupted():
        call()


def test_stacks_of_matrices(cpu: hg.Executor) -> None:
    x = np.random.default_rng(0).standard_normal((400, 96, 96)).astype(np.float32)
    stack = cpu.tensor(x + x.swapaxes(1, 2))
    for function in (hg.linalg.eigh, hg.linalg.svd):
        function(stack[:5])

        def steady(function: Any = function) -> None:
            while True:
                function(stack)

        heard(steady)
        works(cpu)
