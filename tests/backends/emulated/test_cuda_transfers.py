"""Long transfers on the emulated card: beside launches, in order with them, and past a card that is full."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cuda.bindings", reason="cuda-python has no wheels for this platform")

import hologram as hg
from hologram.backends.cuda.staging import Staging
from hologram.runtime.memory.reading import fetched
from tests.backends.emulated import cuda as machine

LARGE = np.arange(1 << 19, dtype=np.float32)  # twice what goes by a stream of its own


@pytest.fixture
def executor(installed: None) -> Any:
    with hg.Executor(backend=machine.NAME) as opened:
        yield opened


def streams(executor: hg.Executor) -> tuple[Any, Any]:
    """That of launches and that of transfers, as the driver has them."""
    driver: Any = machine.library().driver
    device: Any = executor.device
    context, transfers = device.context, device.transfers
    return driver.handles[int(context.stream)], driver.handles[int(transfers.staging.stream)]


def test_a_write_does_not_wait_for_launches(executor: hg.Executor) -> None:
    x = executor.tensor(LARGE)
    launches, transfers = streams(executor)
    executor.synchronize()
    y = x * 2
    waiting = len(launches.queue)
    x.buffer.from_numpy(LARGE + 1)
    transfers.drain()
    assert len(launches.queue) > waiting > 0, "the launch was done first"
    np.testing.assert_array_equal(y.to_numpy(), LARGE * 2)
    np.testing.assert_array_equal(x.to_numpy(), LARGE + 1)


def test_a_fetch_waits_for_no_launch_behind_it(executor: hg.Executor) -> None:
    x = executor.tensor(np.arange(9, dtype=np.float32))
    launches, _ = streams(executor)
    y = x * 2
    one, two = fetched(y.buffer), fetched(y.buffer)
    z = y + 1
    waiting = len(launches.queue)
    np.testing.assert_array_equal(one(), np.arange(9) * 2)
    np.testing.assert_array_equal(two(), np.arange(9) * 2)
    assert waiting > len(launches.queue) > 0, "what is behind was done, or what is ahead was not"
    np.testing.assert_array_equal(z.to_numpy(), np.arange(9) * 2 + 1)
    del one, two
    for _ in range(9):
        fetched(z.buffer)
    device: Any = executor.device
    assert len(device.transfers.staging.fetched) == 2


def sequence(executor: hg.Executor) -> bool:
    """Writes and reads of many pieces between launches."""
    x = executor.tensor(np.zeros_like(LARGE))
    found = []
    for k in range(4):
        y = x + 1
        x.buffer.from_numpy(LARGE * k)
        if k == 2:
            executor.synchronize()
        z = x + y
        found.append((z.to_numpy() if k % 2 else (z + 0).to_numpy(), k))
    return all((got == LARGE * k + (LARGE * (k - 1) if k else 0) + 1).all() for got, k in found)


@pytest.mark.parametrize("left_out", [None, 0, 1, 2])
def test_a_wait_that_is_left_out_shows(
    executor: hg.Executor, left_out: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    device: Any = executor.device
    device.transfers.staging.piece_bytes = 100_000
    behind, told = Staging._behind, itertools.count()  # noqa: SLF001  an error planted: a wait is left out

    def planted(self: Staging, stream: Any, event: Any) -> None:
        """0: a write waits for what stands between; 1: launches wait for a write; 2: a read waits for launches."""
        if (2 if reads else int(stream != self.stream)) == left_out:
            next(told)
        else:
            behind(self, stream, event)

    reads: list[int] = []
    read = Staging.read

    def noted(self: Staging, *arguments: Any) -> None:
        reads.append(1)
        read(self, *arguments)
        reads.pop()

    monkeypatch.setattr(Staging, "_behind", planted)  # private: an error planted
    monkeypatch.setattr(Staging, "read", noted)
    assert sequence(executor) == (left_out is None)
    assert (next(told) > 0) == (left_out is not None)


@contextmanager
def slow_read(x: hg.Tensor, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[np.ndarray]]:
    """A thread reads a tensor, and is not done before the end."""
    driver: Any = machine.library().driver
    busy, go, found = threading.Event(), threading.Event(), []
    x.executor.synchronize()
    thread = threading.Thread(target=lambda: found.append(x.to_numpy()))
    wait = driver.cuEventSynchronize

    def slow(event: Any) -> Any:
        if threading.current_thread() is thread:
            busy.set()
            assert go.wait(60)
        return wait(event)

    slow.__name__ = "cuEventSynchronize"
    monkeypatch.setattr(driver, "cuEventSynchronize", slow)
    thread.start()
    try:
        assert busy.wait(60)
        yield found
        assert not found
    finally:
        go.set()
        thread.join()


def waits(work: Callable[[], Any]) -> bool:
    """Whether another thread that does some work is held up."""
    done = threading.Event()

    def others() -> None:
        work()
        done.set()

    threading.Thread(target=others, daemon=True).start()
    return not done.wait(10)


@pytest.mark.parametrize("data", [LARGE, LARGE[:1000]], ids=["apart", "in line"])
def test_others_enqueue_while_one_reads(
    executor: hg.Executor, data: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work() -> None:
        y = executor.allocate(12_345_678).fill(2.0)  # past the pool
        hg.ops.vector_add(executor, y, y, y)

    with slow_read(executor.tensor(data), monkeypatch) as found:
        assert not waits(work), "another thread had to wait for the read"
    np.testing.assert_array_equal(found[0], data)


@pytest.mark.parametrize("ends", ["read", "close"])
def test_memory_goes_back_while_one_reads(
    executor: hg.Executor, ends: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ours and what others lend: nobody waits, and all of it is gone when the read is done."""
    driver: Any = machine.library().driver
    card = driver.cards[0]
    with hg.Executor(backend=machine.NAME) as lender:
        x, lent = executor.tensor(LARGE), lender.tensor(LARGE)
        borrowed = executor.from_dlpack(lent, copy=False)
        own = [executor.allocate(12_345_678)]
        shared = weakref.ref(lent.buffer.shared_block())
        with slow_read(x, monkeypatch) as found:
            before = card.used
            del lent, borrowed
            own.clear()
            assert not waits(executor.pool.release_cached), "another thread had to wait for the read"
            assert card.used == before
            assert shared() is not None
        if ends == "read":
            executor.synchronize()
        else:
            executor.close()
        np.testing.assert_array_equal(found[0], LARGE)
        assert card.used < before
        assert shared() is None


def test_a_full_card_has_transfers_go_in_line(executor: hg.Executor) -> None:
    driver: Any = machine.library().driver
    card = driver.cards[0]
    x = executor.allocate(LARGE.size)
    capacity, card.capacity = card.capacity, 0
    try:
        x.from_numpy(LARGE)
        np.testing.assert_array_equal(x.to_numpy(), LARGE)
    finally:
        card.capacity = capacity
    x.from_numpy(LARGE + 1)
    np.testing.assert_array_equal(x.to_numpy(), LARGE + 1)


def test_small_writes_do_not_wait_for_launches(executor: hg.Executor) -> None:
    """As many as a step of training has."""
    small = np.arange(1000, dtype=np.float32)
    buffers = [executor.allocate(small.size) for _ in range(8)]
    x = executor.tensor(LARGE)
    executor.synchronize()
    y = x * 2
    launches: Any = machine.library().driver.handles[int(executor.device.context.stream)]  # type: ignore[attr-defined]
    waiting = len(launches.queue)
    for k, buffer in enumerate(buffers):
        buffer.from_numpy(small + k)
    assert len(launches.queue) > waiting > 0
    for k, buffer in enumerate(buffers):
        np.testing.assert_array_equal(buffer.to_numpy(), small + k)
    np.testing.assert_array_equal(y.to_numpy(), LARGE * 2)
