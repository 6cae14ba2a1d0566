"""Launches of the WebGPU backend: batches, order, parameters, threads, leaks, and what goes wrong."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

from hologram.atlas.builder import Builder
from hologram.atlas.functions import reduce_add
from hologram.atlas.program import Access, Program
from hologram.backends import webgpu
from hologram.backends.webgpu.pipeline import Signature
from hologram.foundation.dtypes import f32, i32, index, u32
from hologram.foundation.errors import CompileError, DeviceLost, OutOfMemory, ShapeError
from hologram.machine.kernel import Binding


def axpy(name: str = "atlas_axpy_f32") -> Program:
    """y = a * x + y."""
    b = Builder(name)
    x, y = b.buffer("x", f32, Access.READ), b.buffer("y", f32, Access.READ_WRITE)
    a, i = b.scalar("a", f32), b.coordinate(0)
    b.store(y, i, a * b.load(x, i) + b.load(y, i))
    return b.build()


def increment() -> Program:
    b = Builder("atlas_increment_u32")
    x, i = b.buffer("x", u32, Access.READ_WRITE), b.coordinate(0)
    b.store(x, i, b.load(x, i) + 1)
    return b.build()


@pytest.mark.parametrize("n", [1, 3, 63, 64, 65, 1000, 4097, 100_003])
def test_elementwise(device, upload, download, whole, n):
    x, y = np.arange(n, dtype=np.float32), np.ones(n, np.float32)
    memories = upload(x), upload(y)
    device.compile(axpy()).bind(whole(*memories), (2.0,), (n,))()
    np.testing.assert_array_equal(download(memories[1], y), 2 * x + 1)


def test_a_launch_writes_nothing_behind_its_grid(device, upload, download, whole):
    memory = upload(np.zeros(64, np.uint32))
    device.compile(increment()).bind(whole(memory), (), (5,))()
    np.testing.assert_array_equal(download(memory, np.empty(64, np.uint32)), [1] * 5 + [0] * 59)


def test_an_empty_grid_launches_nothing(device, upload, download, whole):
    memory = upload(np.zeros(4, np.uint32))
    device.compile(increment()).bind(whole(memory), (), (0,))()
    np.testing.assert_array_equal(download(memory, np.empty(4, np.uint32)), [0] * 4)


def test_rows_of_no_elements_have_a_sum(device, upload, download, whole):
    b = Builder("atlas_row_sum", rank=2, reduced=1)
    x, y = b.buffer("x", f32, Access.READ), b.buffer("y", f32, Access.WRITE)
    b.store(y, b.coordinate(0), reduce_add(b.load(x, b.coordinate(0) * b.extent(1) + b.coordinate(1))))
    memories = upload(np.ones(4, np.float32)), upload(np.ones(4, np.float32))
    device.compile(b.build()).bind(whole(*memories), (), (4, 0))()
    np.testing.assert_array_equal(download(memories[1], np.empty(4, np.float32)), [0] * 4)


def test_more_launches_than_a_batch_run_in_order(device, upload, download, whole):
    memory = upload(np.zeros(10, np.uint32))
    launch = device.compile(increment()).bind(whole(memory), (), (10,))
    for _ in range(1000):
        launch()
    np.testing.assert_array_equal(download(memory, np.empty(10, np.uint32)), [1000] * 10)


def test_launches_keep_their_order_with_transfers_copies_and_fills(device, upload, download, whole):
    first, second = upload(np.zeros(6, np.uint32)), upload(np.zeros(6, np.uint32))
    launch = device.compile(increment()).bind(whole(first), (), (6,))
    launch()
    device.copy(first, 0, second, 0, 24)  # second: 1
    launch()
    device.fill(first, 0, 8, np.uint32(10).tobytes())
    launch()  # first: 11 11 3 3 3 3
    device.write(first, 20, memoryview(np.array([7], np.uint32)))
    launch()
    np.testing.assert_array_equal(download(first, np.empty(6, np.uint32)), [12, 12, 4, 4, 4, 8])
    np.testing.assert_array_equal(download(second, np.empty(6, np.uint32)), [1] * 6)


def test_bindings_start_at_their_offset(device, upload, download):
    memory = upload(np.zeros(256, np.uint32))
    device.compile(increment()).bind([Binding(memory, 512, 40)], (), (10,))()
    expected = np.zeros(256, np.uint32)
    expected[128:138] = 1
    np.testing.assert_array_equal(download(memory, expected), expected)


def test_more_parameters_than_immediates_hold(device, upload, download, whole):
    count = device.encoder.device.adapter.limits["maxImmediateSize"] // 4 + 3
    b = Builder("atlas_many_scalars")
    y, i = b.buffer("y", i32, Access.WRITE), b.coordinate(0)
    total = b.constant(0, i32)
    for k in range(count):
        total = total * 3 + b.scalar(f"s{k}", i32)
    b.store(y, i, total)
    memory = upload(np.zeros(5, np.int32))
    numbers = [k % 7 - 3 for k in range(count)]
    device.compile(b.build()).bind(whole(memory), numbers, (5,))()
    expected = 0
    for number in numbers:
        expected = expected * 3 + number
    wrapped = np.array([expected % 2**32], np.uint32).view(np.int32)[0]
    np.testing.assert_array_equal(download(memory, np.empty(5, np.int32)), [wrapped] * 5)


def test_more_groups_than_one_dimension_takes(device, upload, download, whole):
    n = 70_000
    b = Builder("atlas_position", workgroup=1)
    y, i = b.buffer("y", u32, Access.WRITE), b.coordinate(0)
    b.store(y, i, i.to(u32) + 1)
    memory = upload(np.zeros(n, np.uint32))
    device.compile(b.build()).bind(whole(memory), (), (n,))()
    np.testing.assert_array_equal(download(memory, np.empty(n, np.uint32)), np.arange(1, n + 1))


def test_threads_share_a_device(device, upload, download, whole):
    memories = [upload(np.zeros(100, np.uint32)) for _ in range(4)]
    kernel = device.compile(increment())

    def work(memory):
        launch = kernel.bind(whole(memory), (), (100,))
        for k in range(300):
            launch()
            if k % 50 == 0:
                device.read(memory, 0, memoryview(bytearray(4)))

    threads = [threading.Thread(target=work, args=(m,)) for m in memories]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for memory in memories:
        np.testing.assert_array_equal(download(memory, np.empty(100, np.uint32)), [300] * 100)


def test_ten_thousand_allocations_and_launches_leave_memory_where_it_was(device, whole):
    keep = device.allocate(4096)
    kernel = device.compile(axpy())

    def use(count):
        for _ in range(count):
            memory = device.allocate(4096)
            kernel.bind(whole(memory, keep), (1.0,), (1024,))()
            device.release(memory)
        device.synchronize()
        gc.collect()

    use(200)
    groups, before = len(device.pipelines.groups), _resident_bytes()
    use(5000)
    launch = kernel.bind(whole(device.allocate(4096), keep), (1.0,), (1024,))
    for _ in range(10_000):
        launch()
    device.synchronize()
    assert len(device.pipelines.groups) <= groups + 1
    assert not {key for key in keep.groups if key not in device.pipelines.groups}
    assert _resident_bytes() - before < 8 << 20


def _resident_bytes() -> int:
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096
    except FileNotFoundError:
        pytest.skip("the resident size is read from /proc")


def test_a_kernel_the_driver_refuses_is_a_compile_error(device, upload, download, whole, capfd):
    bad = "@compute @workgroup_size(1) fn broken() { let x: u32 = 1.5; }"
    with pytest.raises(CompileError, match="broken") as caught, device.encoder.lock:
        device.pipelines.compile("broken", bad, "broken", Signature((), 0, False))
    assert caught.value.kernel == "broken"
    assert caught.value.source == bad
    assert "u32" in caught.value.log
    text = "@compute @workgroup_size(1) fn there() {}"
    with pytest.raises(CompileError, match="missing"), device.encoder.lock:
        device.pipelines.compile("missing", text, "missing", Signature((), 0, False))
    memory = upload(np.zeros(4, np.uint32))
    device.compile(increment()).bind(whole(memory), (), (4,))()
    np.testing.assert_array_equal(download(memory, np.empty(4, np.uint32)), [1] * 4)
    assert capfd.readouterr() == ("", "")


def test_more_buffers_than_an_adapter_binds(index):
    device = webgpu.open_device(index, max_bindings=1)
    with pytest.raises(CompileError, match="2 buffers"):
        device.compile(axpy())
    device.close()


def test_wrong_bindings_are_refused(device, upload):
    memory = upload(np.zeros(64, np.uint32))
    kernel = device.compile(increment())
    with pytest.raises(ShapeError, match="1 buffers, got 2"):
        kernel.bind([Binding(memory, 0, 4)] * 2, (), (1,))
    with pytest.raises(ShapeError, match="256"):
        kernel.bind([Binding(memory, 4, 4)], (), (1,))
    with pytest.raises(ShapeError, match="within"):
        kernel.bind([Binding(memory, 0, 4096)], (), (1,))


def test_closing_ends_everything_quietly(index, capfd):
    device = webgpu.open_device(index)
    memory = device.allocate(64)
    launch = device.compile(increment()).bind([Binding(memory, 0, 64)], (), (16,))
    launch()
    device.close()
    device.close()
    for call in (
        launch,
        device.flush,
        device.synchronize,
        lambda: device.allocate(4),
        lambda: device.compile(increment()),
        lambda: device.read(memory, 0, memoryview(bytearray(4))),
    ):
        with pytest.raises(DeviceLost, match="closed"):
            call()
    device.release(memory)
    assert capfd.readouterr() == ("", "")


def test_a_lost_device_says_so_and_a_new_one_works(index, download, capfd):
    device = webgpu.open_device(index)
    memory = device.allocate(64)
    launch = device.compile(increment()).bind([Binding(memory, 0, 64)], (), (16,))
    device.encoder.lib.wgpuDeviceDestroy(device.encoder.device.handle)
    with pytest.raises(DeviceLost, match="new Executor"):
        _run(launch, device.synchronize)
    with pytest.raises(DeviceLost):
        device.allocate(4)
    with pytest.raises(DeviceLost):
        device.read(memory, 0, memoryview(bytearray(4)))
    device.close()
    again = webgpu.open_device(index)
    fresh = again.allocate(64)
    again.fill(fresh, 0, 64, b"\1")
    out = bytearray(64)
    again.read(fresh, 0, memoryview(out))
    assert out == b"\1" * 64
    again.close()
    assert capfd.readouterr() == ("", "")


def test_no_room_is_out_of_memory_and_the_device_goes_on(index):
    resource = pytest.importorskip("resource")  # a software adapter takes address space, which we can bound
    device = webgpu.open_device(index)
    held, before = [], resource.getrlimit(resource.RLIMIT_AS)
    # With 3 GiB a driver once crashed afterwards, when its objects went.
    resource.setrlimit(resource.RLIMIT_AS, (_address_space() + (8 << 30), before[1]))
    try:
        with pytest.raises(OutOfMemory, match="no room for a buffer of"):
            _run(*[lambda: held.append(device.allocate(device.limits.max_buffer_bytes))] * 4096)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    for memory in held:
        device.release(memory)
    memory, out = device.allocate(64), bytearray(64)
    device.fill(memory, 0, 64, b"\2")
    device.read(memory, 0, memoryview(out))
    assert out == b"\2" * 64
    device.close()


def _run(*calls):
    for call in calls:
        call()


def _address_space() -> int:
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[0]) * 4096
    except FileNotFoundError:
        pytest.skip("the address space is read from /proc")


def test_positions_scalars_of_every_sign(device, upload, download, whole):
    """A negative stride wraps in 32 bits and back."""
    b = Builder("atlas_flip")
    x, y = b.buffer("x", f32, Access.READ), b.buffer("y", f32, Access.WRITE)
    start, stride, i = b.scalar("start", index), b.scalar("stride", index), b.coordinate(0)
    b.store(y, i, b.load(x, i * stride + start))
    values = np.arange(9, dtype=np.float32)
    memories = upload(values), upload(np.zeros_like(values))
    device.compile(b.build()).bind(whole(*memories), (8, -1), (9,))()
    np.testing.assert_array_equal(download(memories[1], values), values[::-1])
