"""Long transfers on the emulated card: beside launches, in order with them, and past a card that is full."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cuda.bindings", reason="cuda-python has no wheels for this platform")

import hologram as hg
from hologram.backends.cuda import staging
from hologram.backends.cuda.staging import Staging
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
    monkeypatch.setattr(staging, "PIECE_BYTES", 100_000)
    behind, told = Staging._behind, itertools.count()

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

    monkeypatch.setattr(Staging, "_behind", planted)
    monkeypatch.setattr(Staging, "read", noted)
    assert sequence(executor) == (left_out is None)
    assert (next(told) > 0) == (left_out is not None)


@pytest.mark.parametrize("data", [LARGE, LARGE[:1000]], ids=["apart", "in line"])
def test_others_enqueue_while_one_reads(
    executor: hg.Executor, data: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver: Any = machine.library().driver
    x, busy, go, found = executor.tensor(data), threading.Event(), threading.Event(), []
    executor.synchronize()
    thread = threading.Thread(target=lambda: found.append(x.to_numpy()))
    done = threading.Event()

    def work() -> None:
        y = executor.allocate(12_345_678).fill(2.0)  # past the pool
        hg.ops.vector_add(executor, y, y, y)
        done.set()

    others = threading.Thread(target=work)
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
        others.start()
        assert done.wait(10), "another thread had to wait for the read"
        assert not found
    finally:
        go.set()
        thread.join()
        others.join()
    np.testing.assert_array_equal(found[0], data)


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
