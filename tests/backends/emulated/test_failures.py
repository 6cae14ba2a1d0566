"""What goes wrong on a device has its exception, and a new executor works: both native backends, above stand-ins."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cuda.bindings", reason="cuda-python has no wheels for this platform")

import hologram as hg
from tests.backends import emulated
from tests.backends.emulated import cuda, metal
from tests.backends.emulated.metal.objects import Error

VALUES = np.arange(100, dtype=np.float32)
PAGE_FAULT = 3  # MTLCommandBufferErrorPageFault


def crash_cuda(executor: hg.Executor) -> None:
    """What is enqueued next reaches where there is no memory."""
    device: Any = executor.device
    cuda.library().driver.contexts[int(device.context.device)].error = "CUDA_ERROR_ILLEGAL_ADDRESS"


def crash_metal(executor: hg.Executor) -> None:
    device: Any = executor.device
    device.queue.handle.fail_next = Error(PAGE_FAULT, "Caused GPU Address Fault Error")


def shrink_cuda(nbytes: int) -> None:
    """The card has so many bytes left."""
    cuda.library().driver.cards[0].capacity = nbytes


def shrink_metal(nbytes: int) -> None:
    metal.framework().metal.MTLCopyAllDevices()[0].room = nbytes


CRASHES: dict[str, Callable[[hg.Executor], None]] = {
    "cuda-emulated": crash_cuda,
    "metal-emulated": crash_metal,
}
SHRINKS: dict[str, Callable[[int], None]] = {"cuda-emulated": shrink_cuda, "metal-emulated": shrink_metal}
MIB = 1 << 20


@pytest.fixture(params=CRASHES)
def name(request: pytest.FixtureRequest) -> Iterator[str]:
    """A backend on a machine of its own."""
    emulated.install()
    for machine in (cuda.library, metal.framework):
        machine.cache_clear()
    yield request.param
    for machine in (cuda.library, metal.framework):
        machine.cache_clear()


def works(name: str) -> None:
    with hg.Executor(name) as executor:
        np.testing.assert_array_equal((executor.tensor(VALUES) * 2).to_numpy(), VALUES * 2)


def test_a_kernel_that_traps(name: str) -> None:
    executor = hg.Executor(name)
    x = executor.tensor(VALUES)
    crash = CRASHES[name]
    y = x + x
    crash(executor)
    with pytest.raises(hg.DeviceLost, match="open a new Executor"):
        y.to_numpy()
    for call in (lambda: x + x, executor.synchronize, lambda: executor.tensor(VALUES)):
        with pytest.raises(hg.DeviceLost):
            call()
    works(name)
    with pytest.raises(hg.DeviceLost):
        executor.close()
    assert executor.closed
    executor.close()
    works(name)


def test_a_device_that_is_lost_while_a_graph_runs(name: str) -> None:
    executor = hg.Executor(name)
    x = executor.tensor(VALUES)
    step = hg.jit(lambda x: hg.softmax(hg.softmax(x, dim=0) * 2, dim=0))
    for _ in range(5):
        step(x)
    executor.synchronize()
    y = step(x)
    CRASHES[name](executor)
    with pytest.raises(hg.DeviceLost):
        y.to_numpy()
    with pytest.raises(hg.DeviceLost):
        step(x)
    with hg.Executor(name) as other:
        np.testing.assert_allclose(float(hg.sum(step(other.tensor(VALUES)))), 1, rtol=1e-5)
    with pytest.raises(hg.DeviceLost):
        executor.close()


def test_more_than_there_is(name: str) -> None:
    with hg.Executor(name) as executor:
        x = executor.tensor(VALUES)
        with pytest.raises(hg.OutOfMemory):
            executor.allocate(1 << 42)
        SHRINKS[name](64 * MIB)
        held = [executor.allocate(6 * MIB, dtype="u8") for _ in range(9)]
        with pytest.raises(hg.OutOfMemory, match="even with its caches released"):
            held += [executor.allocate(6 * MIB, dtype="u8") for _ in range(2)]
        held.clear()
        np.testing.assert_array_equal((x + x).to_numpy(), VALUES * 2)
        executor.allocate(6 * MIB, dtype="u8").free()


def test_what_else_takes_memory_finds_room_in_the_cache(
    installed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code, that of fills as well, and graphs do too, while the cache may hold all of the card."""
    driver: Any = cuda.library().driver
    with hg.Executor(cuda.NAME) as executor:
        x = executor.tensor(np.ones((20, 20), np.float32))
        step = hg.jit(lambda x: hg.softmax(hg.softmax(x, dim=1) * 2, dim=1))

        def fill() -> None:
            executor.allocate(100 * MIB, dtype="u8").free()

        def without_room(name: str) -> None:
            real = getattr(driver, name)

            def full(*arguments: Any) -> Any:
                stats = executor.memory_stats()
                room = (
                    stats["reserved"] - stats["allocated"] < 2 * MIB
                )  # small buffers have a pool of their own
                return real(*arguments) if room else (driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY, None)

            full.__name__ = name
            monkeypatch.setattr(driver, name, full, raising=False)

        without_room("cuLibraryLoadData")
        without_room("cuGraphInstantiate")
        fill()
        np.testing.assert_allclose(hg.sin(x).to_numpy(), np.sin(np.ones((20, 20))), rtol=1e-6)
        for _ in range(8):
            np.testing.assert_allclose(step(x).to_numpy(), 1 / 20, rtol=1e-5)
            fill()
        wide = executor.allocate(20, dtype="i64").fill(1 << 40)  # which the driver does not fill by itself
        np.testing.assert_array_equal(wide.to_numpy(), 1 << 40)
