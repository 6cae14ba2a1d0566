"""Threads that share a Metal device: who waits, or compiles, keeps no other from enqueueing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.backends.metal.pipeline import Pipelines
from tests.backends.emulated.metal.commands import CommandBuffer
from tests.backends.metal.test_device import Executor

DATA = np.arange(100, dtype=np.float32)


def waits(executor: Executor) -> Callable[[], np.ndarray]:
    x = executor.tensor(DATA) + 1
    return lambda: x.to_numpy()


def synchronizes(executor: Executor) -> Callable[[], np.ndarray]:
    x = executor.tensor(DATA) + 1
    return lambda: (executor.synchronize(), x.to_numpy())[1]


def sees(executor: Executor) -> Callable[[], np.ndarray]:
    """A launch over memory that others see, which is waited for."""
    x = executor.tensor(DATA)
    (x + 1).to_numpy()  # compiles
    view = x.to_numpy(copy=False)
    return lambda: (x + 1).to_numpy() + 0 * view


def compiles(executor: Executor) -> Callable[[], np.ndarray]:
    x = executor.tensor(DATA)
    return lambda: hg.maximum(x + 1, x).to_numpy()


def odd(executor: Executor) -> tuple[hg.Buffer, hg.Buffer]:
    """Bytes to copy, and where to: no whole words, so that a kernel copies them."""
    x, y = (executor.allocate(DATA.size + 1, dtype="u8") for _ in range(2))
    return x.from_numpy(np.append(DATA + 1, 0).astype(np.uint8)), y


def copies(executor: Executor) -> Callable[[], np.ndarray]:
    x, y = odd(executor)
    return lambda: y.copy_from(x).to_numpy()[:-1]


def copies_what_others_see(executor: Executor) -> Callable[[], np.ndarray]:
    x, y = odd(executor)
    y.copy_from(x)  # compiles
    view = x.to_numpy(copy=False)
    return lambda: y.copy_from(x).to_numpy()[:-1] + 0 * view[:-1]


@pytest.fixture
def executor() -> Iterator[Executor]:
    opened = Executor()
    yield opened
    opened.close()


@pytest.mark.parametrize("task", [waits, synchronizes, sees, compiles, copies, copies_what_others_see])
def test_others_enqueue_meanwhile(
    executor: Executor, task: Callable[[Executor], Callable[[], np.ndarray]], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = (executor.allocate(16).fill(v) for v in (1.0, 2.0))
    hg.ops.vector_sub(executor, a, b, b)  # compiles
    executor.synchronize()
    run, found = task(executor), []
    busy, go = threading.Event(), threading.Event()
    thread = threading.Thread(target=lambda: found.append(run()))

    def slowly(function: Any) -> Any:
        def slow(*arguments: Any) -> Any:
            if threading.current_thread() is thread:
                busy.set()
                assert go.wait(60)
            return function(*arguments)

        return slow

    compiling = task in (compiles, copies)
    owner: Any = Pipelines if compiling else CommandBuffer
    name = "compile" if compiling else "waitUntilCompleted"
    monkeypatch.setattr(owner, name, slowly(getattr(owner, name)))
    done = threading.Event()
    other = threading.Thread(target=lambda: (hg.ops.vector_sub(executor, a, b, b), done.set()))
    thread.start()
    try:
        assert busy.wait(60)
        other.start()
        assert done.wait(10), "another thread's launch had to wait"
        assert not found
    finally:
        go.set()
        thread.join()
        other.join()
    np.testing.assert_array_equal(found[0], DATA + 1)
    np.testing.assert_array_equal(b.to_numpy(), 2.0)
