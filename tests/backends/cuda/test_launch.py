"""Launches on a CUDA device: order, graphs, variants of code, time, and the end of a device."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hologram.atlas.builder import Builder
from hologram.atlas.program import Access, Program
from hologram.backends.cuda import kernel
from hologram.backends.cuda.device import CudaDevice
from hologram.backends.cuda.launches import graph
from hologram.backends.cuda.launches.graph import Graph
from hologram.backends.cuda.memory import Memory
from hologram.compiled import text_kernel
from hologram.foundation import dtypes
from hologram.foundation.errors import BackendUnavailable, DeviceLost, ShapeError
from hologram.machine.kernel import Binding
from hologram.machine.layout import Layout
from hologram.machine.timeline import Clock
from hologram.opset.tiles import product_tile
from tests.backends.emulated import cuda as emulated

SIZE = 1001
VALUES = np.arange(SIZE, dtype=np.float32)


def increment(name: str = "increment") -> Program:
    """x += step"""
    b = Builder(f"atlas_{name}")
    x = b.buffer("x", dtypes.f32, Access.READ_WRITE)
    step = b.scalar("step", dtypes.f32)
    i = b.coordinate(0)
    b.store(x, i, b.load(x, i) + step)
    return b.build()


def double() -> Program:
    b = Builder("atlas_double")
    x = b.buffer("x", dtypes.f32, Access.READ_WRITE)
    i = b.coordinate(0)
    b.store(x, i, b.load(x, i) * 2.0)
    return b.build()


def test_launches_run_in_order(device: CudaDevice, upload, download, whole) -> None:
    memory = upload(VALUES)
    add = device.compile(increment()).bind(whole(memory), (1.0,), (SIZE,))
    twice = device.compile(double()).bind(whole(memory), (), (SIZE,))
    for launch in (add, twice, add):
        launch()
    np.testing.assert_array_equal(download(memory, VALUES), (VALUES + 1) * 2 + 1)


def test_a_launch_takes_parts_of_memories(device: CudaDevice, upload, download) -> None:
    memory = upload(VALUES)
    device.compile(increment()).bind([Binding(memory, 64, 40)], (1.0,), (10,))()
    expected = VALUES.copy()
    expected[16:26] += 1
    np.testing.assert_array_equal(download(memory, VALUES), expected)


def test_an_empty_grid_launches_nothing(device: CudaDevice, upload, download, whole) -> None:
    memory = upload(VALUES)
    device.compile(increment()).bind(whole(memory), (1.0,), (0,))()
    np.testing.assert_array_equal(download(memory, VALUES), VALUES)


@pytest.mark.parametrize("calls", [1, graph.CALLS_BEFORE, graph.CALLS_BEFORE + 3])
def test_a_sequence_becomes_a_graph(device: CudaDevice, upload, download, whole, calls: int) -> None:
    memory = upload(VALUES)
    add = device.compile(increment()).bind(whole(memory), (1.0,), (SIZE,))
    twice = device.compile(double()).bind(whole(memory), (), (SIZE,))
    run: Any = device.sequence([add, twice])
    assert isinstance(run, Graph)
    expected = VALUES
    for _ in range(calls):
        run()
        expected = (expected + 1) * 2
    assert (run.executable is not None) == (calls > graph.CALLS_BEFORE)
    np.testing.assert_array_equal(download(memory, VALUES), expected)


def test_threads_take_turns_at_a_graph(
    device: CudaDevice, upload, download, whole, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, memory, together, most = device.context.driver, upload(VALUES), [], []

    def slow(name: str) -> None:
        function = getattr(driver, name)

        def call(*arguments: Any) -> Any:
            together.append(1)
            time.sleep(0.002)  # where others go on, as in the driver
            most.append(len(together))
            together.pop()
            return function(*arguments)

        call.__name__ = name
        monkeypatch.setattr(driver, name, call)

    for name in ("cuGraphInstantiate", "cuGraphLaunch"):
        slow(name)
    add = device.compile(increment()).bind(whole(memory), (1.0,), (SIZE,))
    run = device.sequence([add, add])
    threads = [threading.Thread(target=lambda: [run() for _ in range(5)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * (1 + 20 - graph.CALLS_BEFORE)
    np.testing.assert_array_equal(download(memory, VALUES), VALUES + 40)


def test_what_is_no_kernel_stays_between_graphs(device: CudaDevice, upload, download, whole) -> None:
    memory = upload(VALUES)
    add = device.compile(increment()).bind(whole(memory), (1.0,), (SIZE,))
    calls: list[int] = []
    run = device.sequence([add, add, lambda: calls.append(1), add])
    for _ in range(4):
        run()
    assert len(calls) == 4
    np.testing.assert_array_equal(download(memory, VALUES), VALUES + 12)


def test_graphs_and_code_go_with_their_last_reference(device: CudaDevice, upload, whole) -> None:
    memory = upload(VALUES)
    for k in range(3):
        add = device.compile(increment(f"increment_{k}")).bind(whole(memory), (1.0,), (SIZE,))
        run = device.sequence([add, add])
        for _ in range(graph.CALLS_BEFORE + 1):
            run()
        del add, run
        device.forget_kernels()
    gc.collect()
    owned = device.context.owned
    late = {"cuLibraryUnload", "cuGraphExecDestroy"}
    assert late <= {name for name, _ in owned}
    device.synchronize()
    assert not late & {name for name, _ in owned}


def test_threads_share_a_device(device: CudaDevice, upload, download, whole) -> None:
    memories = [upload(VALUES) for _ in range(4)]
    adding = device.compile(increment())

    def work(memory: Any) -> None:
        launch = adding.bind(whole(memory), (1.0,), (SIZE,))
        for _ in range(50):
            launch()
        device.synchronize()

    threads = [threading.Thread(target=work, args=(m,)) for m in memories]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for memory in memories:
        np.testing.assert_array_equal(download(memory, VALUES), VALUES + 50)


def test_positions_of_64_bits(device: CudaDevice, upload, download, whole) -> None:
    """What buffers of 2^32 elements would be launched with, on small ones."""
    memory = upload(VALUES)
    made: Any = device.compile(increment())
    made.counted = 100
    made.bind(whole(memory), (1.0,), (SIZE,))()
    assert {bits for bits, _ in made.codes} == {kernel.WIDE_BITS}
    np.testing.assert_array_equal(download(memory, VALUES), VALUES + 1)


def test_bindings_are_checked(device: CudaDevice, upload) -> None:
    memory = upload(VALUES)
    made = device.compile(increment())
    with pytest.raises(ShapeError, match="takes 1 buffers, got 0"):
        made.bind([], (1.0,), (4,))
    for offset, nbytes in ((4, 16), (0, 8192)):
        with pytest.raises(ShapeError, match="must start at a multiple of 16 and lie within"):
            made.bind([Binding(memory, offset, nbytes)], (1.0,), (4,))


def test_timestamps_are_the_devices(device: CudaDevice, upload, whole) -> None:
    memory = upload(VALUES)
    launch = device.compile(increment()).bind(whole(memory), (1.0,), (SIZE,))
    timeline = device.timeline()
    assert timeline.clock is Clock.DEVICE
    marks = [mark for _ in range(3) for mark in timeline.around(launch)]
    times = timeline.times(marks)
    assert times == sorted(times)
    assert times[-1] - times[0] < 10e9


def test_a_timeline_renews_its_anchor(device: CudaDevice) -> None:
    timeline: Any = device.timeline()
    timeline.anchor_s = 0.0
    marks = [timeline.mark() for _ in range(5)]
    times = timeline.times(marks[::-1])[::-1]
    assert times == sorted(times)


def test_operands_past_what_a_word_counts(device: CudaDevice, upload, download) -> None:
    """One matrix of many that lie behind each other: the tile is bound from where the operand begins."""
    left, right = (VALUES[:64].reshape(8, 8) + k for k in (1, 2))
    a, b, out = upload(left), upload(right), upload(np.zeros((8, 8), np.float32))
    before = text_kernel.FAR + 40  # elements, of a buffer of which only the end is there
    ahead, size = 4 * before, 4 * before + a.size
    far = [Memory(memory.address - ahead, size, size) for memory in (a, b, out)]
    place = Layout(dtypes.f32, (1, 8, 8), (64, 8, 1), before)
    product = product_tile.Product(place, place, place)
    candidate = product_tile.default(product.sizes, dtypes.f32, device.limits)
    tile, scalars = product_tile.of(candidate).tile(candidate, product, None)
    grid = product_tile.of(candidate).grid(candidate, product.sizes)
    device.compile(tile).bind([Binding(memory, 0, memory.size) for memory in far], scalars, grid)()
    np.testing.assert_allclose(download(out, left), left @ right, rtol=1e-6)


def test_a_closed_device_says_so(device: CudaDevice, upload, whole) -> None:
    memory = upload(VALUES)
    launch = device.compile(increment()).bind(whole(memory), (1.0,), (SIZE,))
    run = device.sequence([launch, launch])
    device.close()
    device.close()
    calls: list[Callable[[], Any]] = [
        launch,
        run,
        device.synchronize,
        device.flush,
        device.timeline,
        lambda: device.allocate(4),
        lambda: device.write(memory, 0, memoryview(b"1")),
        lambda: device.compile(double()),
    ]
    for call in calls:
        with pytest.raises(DeviceLost, match="was closed"):
            call()
    device.release(memory)


def test_a_kernel_that_traps_loses_the_device() -> None:
    """What it leaves is emulated: a kernel that writes anywhere would write into the tests' own memory."""
    device = emulated.open_device(1)
    memory = device.allocate(4096)
    launch = device.compile(increment()).bind([Binding(memory, 0, 4096)], (1.0,), (1024,))
    launch()
    emulated.library().driver.contexts[1].error = "CUDA_ERROR_ILLEGAL_ADDRESS"
    with pytest.raises(DeviceLost, match=r"CUDA_ERROR_ILLEGAL_ADDRESS.*open a new Executor"):
        device.synchronize()
    with pytest.raises(DeviceLost, match="was lost"):
        launch()
    device.release(memory)
    device.close()
    again = emulated.open_device(1)
    data = np.empty(4, np.uint8)
    memory = again.allocate(4)
    again.write(memory, 0, memoryview(b"good"))
    again.read(memory, 0, memoryview(data))
    assert data.tobytes() == b"good"
    again.close()


def test_a_trap_loses_every_executor_of_the_card() -> None:
    """They share its primary context, which the next one replaces: what they had there is not named again."""
    emulated.library.cache_clear()  # a machine of its own
    first, second = emulated.open_device(1), emulated.open_device(1)
    elsewhere = emulated.open_device(0)
    memories = [device.allocate(4096) for device in (first, second)]
    for device, memory in zip((first, second), memories, strict=True):
        device.write(memory, 0, memoryview(bytes(4096)))
        device.compile(increment()).bind([Binding(memory, 0, 4096)], (1.0,), (1024,))()
    launch = second.compile(double()).bind([Binding(memories[1], 0, 4096)], (), (1024,))
    driver = emulated.library().driver
    driver.contexts[1].error = "CUDA_ERROR_ILLEGAL_ADDRESS"
    with pytest.raises(DeviceLost):
        first.synchronize()
    again = emulated.open_device(1)
    calls: list[Callable[[], Any]] = [launch, second.synchronize, second.timeline, lambda: second.allocate(4)]
    for call in calls:
        with pytest.raises(DeviceLost, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
            call()
    second.release(memories[1])
    for device in (first, second, again, elsewhere):
        device.close()
    assert [c.count for c in driver.contexts] == [0, 0]
    emulated.library.cache_clear()


def test_a_card_that_does_not_recover_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The holds of other libraries on its context are not given back for them."""
    emulated.library.cache_clear()  # a machine of its own
    driver = emulated.library().driver
    driver.cuInit(0)
    driver.cuDevicePrimaryCtxRetain(1)  # another library's
    driver.contexts[1].error = "CUDA_ERROR_ILLEGAL_ADDRESS"
    error = driver.CUresult.CUDA_ERROR_DEVICE_UNAVAILABLE

    def reset(device: int) -> tuple[Any]:
        monkeypatch.setattr(driver, "cuDevicePrimaryCtxRetain", lambda device: (error, None))
        return (driver.CUresult.CUDA_SUCCESS,)

    monkeypatch.setattr(driver, "cuDevicePrimaryCtxReset", reset)
    with pytest.raises(BackendUnavailable, match="does not recover in this process"):
        emulated.open_device(1)
    assert driver.contexts[1].count == 1
    emulated.library.cache_clear()


def test_several_devices() -> None:
    devices = [emulated.open_device(k) for k in range(2)]
    assert [d.dlpack_device for d in devices] == [(2, 0), (2, 1)]
    memories = []
    for k, device in enumerate(devices):
        memories.append(device.allocate(VALUES.nbytes))
        device.write(memories[k], 0, memoryview(VALUES).cast("B"))
        binding = Binding(memories[k], 0, VALUES.nbytes)
        device.compile(increment()).bind([binding], (float(k + 1),), (SIZE,))()
    for k, device in enumerate(devices):
        out = np.empty_like(VALUES)
        device.read(memories[k], 0, memoryview(out).cast("B"))
        np.testing.assert_array_equal(out, VALUES + k + 1)
        device.close()
    with pytest.raises(BackendUnavailable, match="no device 2: there are 2 devices"):
        emulated.open_device(2)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
def test_a_forked_child_is_told(device: CudaDevice, upload, whole) -> None:
    memory = upload(VALUES)
    launch = device.compile(increment()).bind(whole(memory), (1.0,), (SIZE,))
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        said = []
        for call in (launch, device.synchronize, lambda: device.allocate(4)):
            try:
                call()
            except BackendUnavailable as error:
                said.append("forked" in str(error))
        device.release(memory)
        device.close()
        os.write(writer, repr(said).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 100) == b"[True, True, True]"
    launch()
    device.synchronize()


def test_a_device_that_nobody_closed_gives_everything_back() -> None:
    emulated.library.cache_clear()  # a machine of its own
    device = emulated.open_device(0)
    memory = device.allocate(64)
    device.write(memory, 0, memoryview(bytes(64)))
    launch = device.compile(increment()).bind([Binding(memory, 0, 64)], (1.0,), (16,))
    launch()
    timeline = device.timeline()
    driver = emulated.library().driver
    assert driver.contexts[0].count == 1
    del device, launch, memory, timeline
    gc.collect()
    assert driver.contexts[0].count == 0
    assert {type(thing).__name__ for thing in driver.handles.values()} == {"Context"}
    assert not driver.cards[0].live()
    emulated.library.cache_clear()
