"""The Metal backend over the emulated Mac: memory that the host shares, order, failures, several devices."""

from __future__ import annotations

import gc
import itertools
import mmap
import multiprocessing
import os
import threading
import weakref
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.backends.metal import probing
from hologram.backends.metal.device import MetalDevice
from hologram.backends.metal.memory import LARGE_BYTES
from hologram.foundation import dtypes
from hologram.machine.timeline import Clock
from hologram.opset.tiles import product_tile
from hologram.runtime import selector
from tests.backends.emulated.metal.framework import Device, Emulated
from tests.backends.emulated.metal.objects import Error

NAME = "metal-emulated"
HEAD = "#include <metal_stdlib>\n"


class Executor(hg.Executor):
    """An executor on a device of a Mac of the test's own."""

    device: MetalDevice

    def __init__(self, *devices: Device, index: int = 0) -> None:
        mac = Emulated(devices or (Device(1), Device(2)))
        module = SimpleNamespace(open_device=lambda index: probing.open_device(NAME, lambda: mac, index))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(selector, "select", lambda *_: (module, index))
            super().__init__()

    @property
    def queue(self):
        """The emulated MTLCommandQueue."""
        return self.device.queue.handle


@pytest.fixture(name="executor")
def _executor() -> Iterator[Executor]:
    executor = Executor()
    yield executor
    executor.close()


def pages() -> np.ndarray:
    """Floats that begin at a page and fill whole pages, as many as are used in place, and one more."""
    return np.frombuffer(mmap.mmap(-1, LARGE_BYTES + mmap.PAGESIZE), np.float32)


def test_a_view_is_the_memory(executor: Executor) -> None:
    a = executor.allocate(100).from_numpy(np.arange(100, dtype=np.float32))
    view = a.to_numpy(copy=False)
    hg.ops.vector_add(executor, a, a, a)
    np.testing.assert_array_equal(view, 2.0 * np.arange(100))
    view[:] = 1
    np.testing.assert_array_equal(a.to_numpy(), 1.0)


@pytest.mark.parametrize("see", [lambda a: a.to_numpy(copy=False), np.from_dlpack])
def test_launches_over_what_others_see_are_done_when_they_return(executor: Executor, see: Any) -> None:
    """Later writes into the view cannot overtake them; without a view of their bytes launches stay queued."""
    a, b, other = (executor.allocate(100).fill(float(k)) for k in range(3))
    queue = executor.device.queue
    view = see(a)  # a, b and other share one memory, of the boundary pool
    hg.ops.vector_add(executor, a, other, b)
    assert queue.batch is None
    view[:] = 7  # type: ignore[index]
    np.testing.assert_array_equal(b.to_numpy(), 2.0)
    a.fill(3.0)
    np.testing.assert_array_equal(view, 3.0)
    b.copy_from(a)
    view[:] = 8  # type: ignore[index]
    np.testing.assert_array_equal(b.to_numpy(), 3.0)
    hg.ops.vector_add(executor, b, other, b)
    assert queue.batch is not None  # nobody sees these bytes
    del view
    assert not queue.views
    hg.ops.vector_add(executor, a, a, a)
    assert queue.batch is not None
    np.testing.assert_array_equal(a.to_numpy(), 16.0)


def test_a_view_outlives_the_executor() -> None:
    executor = Executor()
    view = executor.allocate(100).fill(3.0).to_numpy(copy=False)
    executor.close()
    del executor
    gc.collect()
    np.testing.assert_array_equal(view, 3.0)


def test_dlpack_shares_memory_both_ways(executor: Executor) -> None:
    a = executor.tensor(np.arange(8, dtype=np.float32))
    out = np.from_dlpack(a)
    assert out.ctypes.data == a.buffer.ptr
    mine = pages()
    mine[:] = 5
    shared = executor.from_dlpack(mine)
    assert shared.buffer.ptr == mine.ctypes.data
    hg.ops.vector_add(executor, shared.buffer, shared.buffer, shared.buffer)
    np.testing.assert_array_equal(mine, 10.0)  # a launch on the host's own memory is waited for
    inside = executor.from_dlpack(mine[mmap.PAGESIZE // 4 :])
    assert inside.buffer.ptr == mine.ctypes.data + mmap.PAGESIZE
    np.testing.assert_array_equal((inside + inside).to_numpy(), 20.0)


@pytest.mark.parametrize(
    "part", [slice(4, None), slice(1, None), slice(0, 100), slice(0, LARGE_BYTES // 4 - 1)]
)
def test_what_has_no_pages_of_its_own_is_copied_once(executor: Executor, part: slice) -> None:
    mine = pages()[part]
    with pytest.raises(hg.InteropError, match="cannot use the host's memory"):
        executor.from_dlpack(mine, copy=False)
    assert executor.from_dlpack(mine).buffer.ptr != mine.ctypes.data


def test_adopted_memory_is_copied_and_filled(executor: Executor) -> None:
    mine = pages()
    mine[:] = np.arange(mine.size)
    shared = executor.from_dlpack(mine).buffer
    memory = shared.live_block().memory
    executor.device.copy(memory, 3, memory, 6, 41)  # bytes, over themselves
    expected = np.arange(mine.size, dtype=np.float32).view(np.uint8)
    expected[6:47] = expected[3:44].copy()
    np.testing.assert_array_equal(mine.view(np.uint8), expected)
    shared.fill(2.0)
    np.testing.assert_array_equal(shared.to_numpy(), 2.0)


@pytest.mark.parametrize("cached", [True, False])
def test_adopted_memory_is_of_the_working_set(executor: Executor, cached: bool) -> None:
    """Where that is full, room is made, as for an allocation: of what is only kept for later, or there is none."""
    mine, mac = pages(), executor.device.queue.device
    held = [executor.allocate(2 * LARGE_BYTES, dtype="u8")]
    mac.room = mac.allocated + mine.nbytes - 1
    if cached:
        held.clear()
        shared = executor.from_dlpack(mine)
        assert shared.buffer.ptr == mine.ctypes.data
        assert mac.allocated <= mac.room
    else:
        with pytest.raises(hg.OutOfMemory, match="works on are allocated"):
            executor.from_dlpack(mine)


def test_a_copy_onto_itself_finds_room_in_what_is_kept_for_later(executor: Executor) -> None:
    mine, mac = pages(), executor.device.queue.device
    mine[:] = np.arange(mine.size)
    expected = mine[mmap.PAGESIZE // 4 :].copy()
    target, source = (executor.from_dlpack(mine[k : k + LARGE_BYTES // 4]) for k in (0, mmap.PAGESIZE // 4))
    executor.allocate(2 * LARGE_BYTES, dtype="u8").free()
    mac.room = mac.allocated
    target.buffer.copy_from(source.buffer)
    np.testing.assert_array_equal(target.to_numpy(), expected)


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "int64"])
@pytest.mark.parametrize("count", [1, 3, 1000])
def test_fills(executor: Executor, dtype: str, count: int) -> None:
    buffer = executor.allocate(count, np.dtype(dtype)).fill(7)
    np.testing.assert_array_equal(buffer.to_numpy(), np.full(count, 7, dtype))


def test_a_batch_is_handed_over_when_it_is_full(executor: Executor) -> None:
    a = executor.allocate(16).fill(0.0)
    one = executor.allocate(16).fill(1.0)
    for _ in range(120):
        hg.ops.vector_add(executor, a, one, a)
    assert len(executor.queue.waiting) == 2
    np.testing.assert_array_equal(a.to_numpy(), 120.0)


def test_reading_waits_for_what_it_reads_only(executor: Executor) -> None:
    a, b = (executor.allocate(10_000).fill(v) for v in (1.0, 2.0))
    executor.synchronize()
    hg.ops.vector_add(executor, a, a, a)
    np.testing.assert_array_equal(b.to_numpy(), 2.0)
    assert executor.device.queue.batch is not None  # still open
    np.testing.assert_array_equal(a.to_numpy(), 2.0)


def test_writing_waits_for_who_reads(executor: Executor) -> None:
    a, b = (executor.allocate(16).fill(v) for v in (1.0, 2.0))
    hg.ops.vector_add(executor, a, a, b)
    a.from_numpy(np.full(16, 9, np.float32))
    np.testing.assert_array_equal(b.to_numpy(), 2.0)


def test_what_a_batch_uses_lives_until_it_is_done(executor: Executor) -> None:
    a, out = executor.allocate(1 << 20).fill(1.0), executor.allocate(1 << 20)
    hg.ops.vector_add(executor, a, a, out)
    a.free()
    executor.empty_cache()
    np.testing.assert_array_equal(out.to_numpy(), 2.0)


def test_nothing_stays_behind(executor: Executor) -> None:
    a = executor.allocate(1 << 20)
    held = weakref.ref(a.live_block().memory.buffer)
    hg.ops.vector_add(executor, a, a, a)
    executor.synchronize()
    a.free()
    executor.empty_cache()
    gc.collect()
    assert held() is None


@pytest.mark.parametrize("lost", [False, True])
def test_what_the_gpu_uses_outlives_an_executor_that_nobody_closed(lost: bool) -> None:
    """And the encoder that is open is ended: Metal ends a process that lets go of it."""
    executor = Executor()
    a = executor.allocate(1 << 20).fill(1.0)
    executor.synchronize()
    executor.queue.fail_next = Error(3, "Caused GPU Address Fault Error") if lost else None
    for _ in range(70):  # a batch on its way, and one that is open
        hg.ops.vector_add(executor, a, a, a)
    queue = executor.queue
    assert queue.unfinished == 2
    if lost:
        with pytest.raises(hg.DeviceLost):
            executor.device.queue.wait(executor.device.queue.pending[0].serial)
    del executor, a
    gc.collect()
    assert queue.unfinished == 0


def test_more_than_the_device_works_on_is_refused() -> None:
    with Executor(Device(1, room=4 << 20)) as executor:
        with pytest.raises(hg.OutOfMemory, match="at most 2,097,152 bytes"):
            executor.allocate(1 << 20)
        kept = [executor.allocate(100_000) for _ in range(5)]
        with pytest.raises(hg.OutOfMemory, match="are allocated"):
            kept += [executor.allocate(100_000) for _ in range(20)]
        kept.clear()
        assert executor.allocate(100_000).fill(1.0).to_numpy()[0] == 1


def test_a_batch_without_memory_is_out_of_memory(executor: Executor) -> None:
    a = executor.allocate(16).fill(1.0)
    executor.synchronize()
    executor.queue.fail_next = Error(8, "Insufficient Memory")
    hg.ops.vector_add(executor, a, a, a)
    with pytest.raises(hg.OutOfMemory, match="code 8: Insufficient Memory"):
        executor.synchronize()
    hg.ops.vector_add(executor, a, a, a)
    np.testing.assert_array_equal(a.to_numpy(), 2.0)  # the device goes on


def test_a_batch_that_failed_is_not_taken_for_an_allocation_that_did(executor: Executor) -> None:
    """The pool would release its caches, try again, and nobody would hear of the launches."""
    a = executor.allocate(16).fill(1.0)
    executor.synchronize()
    executor.queue.fail_next = Error(8, "Insufficient Memory")
    hg.ops.vector_add(executor, a, a, a)
    queue = executor.device.queue
    queue.commit()
    batch = queue.pending.popleft()
    batch.commands.waitUntilCompleted()
    queue.finish(batch)
    assert queue.failure is not None
    executor.allocate(1 << 20)
    with pytest.raises(hg.OutOfMemory, match="code 8: Insufficient Memory"):
        a.to_numpy()


def test_a_fault_loses_the_device() -> None:
    executor = Executor()
    a = executor.allocate(16).fill(1.0)
    executor.synchronize()
    executor.queue.fail_next = Error(3, "Caused GPU Address Fault")
    hg.ops.vector_add(executor, a, a, a)
    with pytest.raises(hg.DeviceLost, match=r"code 3.*open a new Executor"):
        a.to_numpy()
    for act in (lambda: executor.allocate(1 << 20), executor.close):
        with pytest.raises(hg.DeviceLost):
            act()
    with Executor() as another:
        assert another.allocate(4).fill(1.0).to_numpy()[0] == 1


def test_a_closed_device_says_so() -> None:
    executor = Executor()
    device = executor.device
    executor.close()
    with pytest.raises(hg.DeviceLost, match="was closed"):
        device.allocate(16)
    with pytest.raises(hg.DeviceLost, match="was closed"):
        device.synchronize()


def test_every_device_opens() -> None:
    with Executor(index=0) as first, Executor(index=1) as second:
        assert [e.device.info.name for e in (first, second)] == ["Apple M1 (emulated)", "Apple M2 (emulated)"]
        a = first.allocate(10).fill(4.0)
        np.testing.assert_array_equal(second.allocate(10).copy_from(a).to_numpy(), 4.0)
    with pytest.raises(hg.BackendUnavailable, match="there are 2 devices"):
        Executor(index=2)


def test_times_are_the_gpus(executor: Executor) -> None:
    a = executor.allocate(1000).fill(1.0)
    assert executor.device.timeline().clock is Clock.DEVICE
    with executor.profile() as profile:
        for _ in range(5):
            hg.ops.vector_add(executor, a, a, a)
    times = [(launch.start_ns, launch.end_ns) for launch in profile.launches]
    assert len(times) == 5
    assert all(start < stop for start, stop in times)
    assert all(first[1] <= second[0] for first, second in itertools.pairwise(times))


def test_threads_share_a_device(executor: Executor) -> None:
    results, count, one = {}, 6, executor.allocate(300).fill(1.0)

    def work(k: int) -> None:
        a = executor.allocate(300).fill(float(k))
        for _ in range(40):
            hg.ops.vector_add(executor, a, one, a)
        results[k] = a.to_numpy()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k in range(count):
        np.testing.assert_array_equal(results[k], k + 40.0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_is_told(executor: Executor) -> None:
    a = executor.allocate(16).fill(1.0)
    device, memory = executor.device, a.live_block().memory
    parent, child = multiprocessing.Pipe()
    pid = os.fork()
    if not pid:
        try:
            for use in (lambda: device.read(memory, 0, memoryview(bytearray(64))), Executor):
                try:
                    use()
                    child.send("it went well")
                except hg.BackendUnavailable as error:
                    child.send(str(error))
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    assert all("was forked" in parent.recv() for _ in range(2))
    np.testing.assert_array_equal(a.to_numpy(), 1.0)


def test_a_kernel_that_does_not_compile_shows_its_source(executor: Executor) -> None:
    with pytest.raises(hg.CompileError, match="undeclared identifier") as error:
        executor.device.kernel_context.pipelines.compile("f", HEAD + "kernel void f() { nonsense; }", 1)
    assert "nonsense" in error.value.source
    with pytest.raises(hg.CompileError, match="declares no kernel g"):
        executor.device.kernel_context.pipelines.compile("g", HEAD + "kernel void f() {}", 1)


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize(("m", "k", "n"), [(33, 1, 17), (70, 37, 130), (5, 300, 200)])
def test_products_by_simdgroup_matrices(dtype: str, m: int, k: int, n: int) -> None:
    """Of operands that lie either way, beside the edges of every tile; small integers, whose sums are exact."""
    rng = np.random.default_rng(m)
    a, b = (rng.integers(-1, 2, shape).astype(np.float32) for shape in ((m, k), (k, n)))
    kind = dtypes.named(dtype)
    with Executor() as executor:
        ways = product_tile.candidates((1, m, k, n), kind, executor.limits)
        ours = [way for way in ways if way.stem == product_tile.UNITS.stem]
        assert len(ours) > 6
        for number, way in enumerate(ours[:: 3 if dtype == "f16" else 5]):
            executor.target = replace(executor.target, choices=lambda _, way=way: way)
            crossed, plain = executor.tensor(a.T).astype(kind).T, executor.tensor(b).astype(kind)
            left = crossed if number % 2 else executor.tensor(a).astype(kind)
            right = plain if number % 3 else executor.tensor(b.T).astype(kind).T
            np.testing.assert_array_equal(
                (left @ right).astype(hg.float32).to_numpy(), a @ b, err_msg=str(way)
            )
