"""Jitted functions called by several threads, ten thousand times, and on executors that come and go."""

from __future__ import annotations

import gc
import threading
import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest

import hologram as hg
from hologram.frontend.jit.jitted import MAX_SIGNATURES


def together(count: int, work: Callable[[int], None]) -> None:
    """Runs work(0), work(1), ... in threads that start as one; raises what the first of them raised."""
    failures: list[BaseException] = []
    gate = threading.Barrier(count)

    def run(number: int) -> None:
        gate.wait()
        try:
            work(number)
        except BaseException as failure:  # noqa: BLE001  (raised below, in the test's own thread)
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def steps(t):
    """Several kernels, with scratch memory between them, and several results."""
    return hg.cumsum(t * 2 + 1, axis=1), t.reshape(-1)[::-1] - t.sum()


def test_threads_share_a_function(executor: hg.Executor) -> None:
    """Each with tensors of its own, of two signatures, met for the first time by all of them at once."""
    jitted = hg.jit(steps)

    def work(number: int) -> None:
        for k in range(20):
            array = np.full((4 + k % 2, 50), number + 1, np.float32)
            total, rest = jitted(executor.tensor(array))
            np.testing.assert_array_equal(total.to_numpy(), np.cumsum(array * 2 + 1, axis=-1))
            np.testing.assert_array_equal(rest.to_numpy(), array.reshape(-1) - array.sum())

    together(4, work)


def test_threads_share_arguments(executor: hg.Executor) -> None:
    jitted = hg.jit(steps)
    array = np.arange(200, dtype=np.float32).reshape(4, 50)
    shared = executor.tensor(array)

    def work(number: int) -> None:
        for _ in range(20):
            total, rest = jitted(shared)
            np.testing.assert_array_equal(total.to_numpy(), np.cumsum(array * 2 + 1, axis=-1))
            np.testing.assert_array_equal(rest.to_numpy(), array.reshape(-1)[::-1] - array.sum())

    together(4, work)


def test_threads_give_their_arguments_away(executor: hg.Executor) -> None:
    jitted = hg.jit(lambda p, g: (p - g, g.sum()), donate=0)

    def work(number: int) -> None:
        value = executor.full((300,), 100.0 * number)
        change = executor.ones((300,))
        for _ in range(20):
            value, total = jitted(value, change)
            assert total.item() == 300
        np.testing.assert_array_equal(value.to_numpy(), np.full(300, 100.0 * number - 20, np.float32))

    together(4, work)


def test_one_of_the_threads_that_donate_a_tensor_wins(executor: hg.Executor) -> None:
    """The others are told that it is gone, and nobody sees memory that another writes."""
    jitted = hg.jit(lambda p: p * 2 + 1, donate=0)
    jitted(executor.ones((1000,)))
    for _ in range(10):
        given, won, lost = executor.ones((1000,)), [], []

        def work(number: int, given: hg.Tensor = given, won: list = won, lost: list = lost) -> None:
            try:
                won.append(jitted(given))
            except hg.BufferFreed:
                lost.append(number)

        together(3, work)
        assert len(won) + len(lost) == 3
        assert won
        for result in won:
            np.testing.assert_array_equal(result.to_numpy(), np.full(1000, 3, np.float32))


def test_ten_thousand_calls_leave_nothing_behind(executor: hg.Executor) -> None:
    if executor.limits.software and not executor.limits.host_resident:
        calls = 1000  # which a CPU that emulates a GPU takes seconds for
    else:
        calls = 10_000
    jitted = hg.jit(steps)
    x = executor.tensor(np.ones((4, 50), np.float32))

    def call(times: int) -> None:
        for _ in range(times):
            jitted(x)

    call(200)
    executor.synchronize()
    gc.collect()
    before = executor.memory_stats()
    tracemalloc.start()
    try:
        call(100)
        executor.synchronize()  # what waits in a queue is no leak
        first = tracemalloc.get_traced_memory()[0]
        call(calls)
        executor.synchronize()
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - first
    finally:
        tracemalloc.stop()
    executor.synchronize()
    after = executor.memory_stats()
    assert grown < 100_000, "Python objects are kept"
    assert (after["allocated"], after["count"]) == (before["allocated"], before["count"])


@pytest.mark.filterwarnings("ignore:hg.jit")
def test_signatures_are_forgotten_and_met_again(executor: hg.Executor) -> None:
    traced = []
    jitted = hg.jit(lambda t, mode: traced.append(mode) or t + int(mode))
    x = executor.ones((3,))
    for n in range(MAX_SIGNATURES + 1):
        jitted.compiled(x, str(n))
    assert len(traced) == MAX_SIGNATURES + 1
    assert jitted(x, str(MAX_SIGNATURES)).to_numpy()[0] == MAX_SIGNATURES + 1
    assert len(traced) == MAX_SIGNATURES + 1
    assert jitted(x, "0").to_numpy()[0] == 1
    assert len(traced) == MAX_SIGNATURES + 2


def test_a_function_outlives_executors(backend: str, executor: hg.Executor) -> None:
    jitted = hg.jit(lambda t: t * 2)
    for value in (1.0, 2.0):
        with hg.Executor(backend=backend) as passing:
            x = passing.full((5,), value)
            np.testing.assert_array_equal(jitted(x).to_numpy(), np.full(5, 2 * value, np.float32))
        with pytest.raises(hg.BufferFreed):
            jitted(x)
    np.testing.assert_array_equal(jitted(executor.ones((5,))).to_numpy(), np.full(5, 2, np.float32))


def test_calls_are_profiled(executor: hg.Executor) -> None:
    jitted = hg.jit(steps)
    x = executor.tensor(np.ones((4, 50), np.float32))
    jitted(x)
    with executor.profile() as profile:
        jitted(x)
    assert len(profile.launches) == jitted.dispatches(x)
