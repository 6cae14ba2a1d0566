"""Buffers: in and out of every kind of memory, and what they refuse."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies

from hologram.backends.registry import discover
from hologram.foundation import dtypes
from hologram.foundation.errors import BufferFreed, InteropError, ShapeError, UnsupportedDType
from hologram.machine.limits import STREAMED_BYTES
from hologram.runtime import selector
from tests.devices import MemoryDevice, MemoryExecutor
from tests.needs import has
from tests.runtime.arrays import sample

KINDS = {
    "resident": {"visible": True, "resident": True},
    "visible": {"visible": True, "resident": False},
    "hidden": {"visible": False},
}


@pytest.fixture(params=[*KINDS, *discover()], name="executor")
def _executor(request):
    """Buffers on each kind of memory, and on each backend that is here."""
    if request.param in KINDS:
        yield MemoryExecutor(MemoryDevice(**KINDS[request.param]))
        return
    found = selector.probe(request.param)
    if not found.available:
        pytest.skip(f"{request.param}: {found.reason}")
    module, index = selector.select(request.param)
    executor = MemoryExecutor(module.open_device(index))
    yield executor
    executor.close()
    executor.device.close()


def refused(executor, dtype) -> bool:
    """Whether the device has no such dtype, as some have no f64; then it is refused by name."""
    if has(executor, dtype):
        return False
    with pytest.raises(UnsupportedDType, match=f"has no {dtype}"):
        executor.allocate(4, dtype)
    return True


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=repr)
@pytest.mark.parametrize("shape", [(3, 5), (7,), (), (0,), (2, 0, 3), (5000,)], ids=str)
def test_what_goes_in_comes_out(executor, dtype, shape):
    if refused(executor, dtype):
        return
    x = sample(dtype, shape)
    buffer = executor.allocate(shape, dtype)
    assert buffer.from_numpy(x) is buffer
    out = buffer.to_numpy()
    assert out.dtype == x.dtype
    assert out.shape == shape
    assert out.tobytes() == x.tobytes() == buffer.to_bytes()
    assert out.flags.writeable
    assert out.flags.owndata
    other = executor.allocate(shape, dtype).from_bytes(x.tobytes())
    assert other.to_bytes() == x.tobytes()
    assert np.asarray(other).tobytes() == x.tobytes()


@pytest.mark.parametrize(
    "array",
    [
        np.arange(24, dtype=np.float32).reshape(4, 6)[::2, ::-1],
        np.arange(12, dtype=np.float32).reshape(3, 4).T,
        np.frombuffer(b"x" + np.arange(12, dtype=np.float32).tobytes(), np.uint8)[1:].view(np.float32),
        np.arange(12, dtype=">f4"),
        np.broadcast_to(np.float32(3), (12,)),
        np.arange(12, dtype=np.float32).reshape(2, 6),
        [np.float32(1)] * 12,
        np.arange(12, dtype=np.float32).data,
    ],
    ids=["strided", "transposed", "misaligned", "big-endian", "broadcast", "reshaped", "list", "memoryview"],
)
def test_arrays_of_every_layout_go_in(executor, array):
    buffer = executor.allocate(12).from_numpy(array)
    np.testing.assert_array_equal(buffer.to_numpy(), np.asarray(array, np.float32).reshape(-1))


def test_what_does_not_fit_is_refused(executor):
    buffer = executor.allocate(4).fill(7)
    with pytest.raises(ShapeError, match=r"holds 4 elements .* got 5"):
        buffer.from_numpy(np.zeros(5, np.float32))
    with pytest.raises(UnsupportedDType, match=r"got float64.*astype\('float32'\)"):
        buffer.from_numpy(np.zeros(4))
    with pytest.raises(UnsupportedDType):
        buffer.from_numpy(np.zeros(4, np.int32))
    with pytest.raises(InteropError, match="cannot be read as an array"):
        buffer.from_numpy([[1.0], [2.0, 3.0]])
    with pytest.raises(InteropError, match="masked"):
        buffer.from_numpy(np.ma.zeros(4, np.float32))
    with pytest.raises(ShapeError, match="16 bytes, got 3"):
        buffer.from_bytes(b"abc")
    with pytest.raises(TypeError):
        buffer.from_bytes(5)
    with pytest.raises(ShapeError):
        buffer.copy_from(executor.allocate(5))
    with pytest.raises(UnsupportedDType):
        buffer.copy_from(executor.allocate(4, "i32"))
    np.testing.assert_array_equal(buffer.to_numpy(), [7, 7, 7, 7])


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=repr)
def test_fill_sets_every_element(executor, dtype):
    if refused(executor, dtype):
        return
    buffer = executor.allocate((3, 7), dtype).fill(1)
    np.testing.assert_array_equal(buffer.to_numpy(), np.ones((3, 7), dtype.numpy))
    executor.allocate(0, dtype).fill(1)


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("u8", 256),
        ("i8", -129),
        ("i32", 1.5),
        ("u32", -1),
        ("i64", float("nan")),
        ("bool", 2),
        ("f32", "x"),
        ("f32", [1, 2]),
    ],
)
def test_fill_refuses_what_the_dtype_cannot_hold(executor, dtype, value):
    with pytest.raises(UnsupportedDType, match="fill"):
        executor.allocate(4, dtype).fill(value)


def test_bytes_that_are_no_bools_become_bools(executor):
    assert executor.allocate(4, "bool").from_bytes(bytes([0, 1, 2, 255])).to_bytes() == bytes([0, 1, 1, 1])


def test_copies_have_memory_of_their_own_and_pickles_are_refused(executor):
    buffer = executor.allocate((2, 3)).fill(4)
    for other in (copy.copy(buffer), copy.deepcopy([buffer])[0]):
        buffer.fill(5)
        assert other.shape == (2, 3)
        assert (other.to_numpy() == 4).all()
        buffer.fill(4)
    with pytest.raises(TypeError, match="pickle its to_numpy"):
        pickle.dumps(buffer)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=strategies.data())
def test_any_strided_array_goes_in_as_numpy_reads_it(executor, data):
    dtype = data.draw(strategies.sampled_from([d for d in dtypes.ALL if has(executor, d)]))
    shape = tuple(data.draw(strategies.lists(strategies.integers(0, 6), max_size=4)))
    whole = sample(dtype, shape)
    axes = data.draw(strategies.permutations(range(len(shape))))
    steps = [data.draw(strategies.sampled_from([1, 2, 3, -1, -2])) for _ in shape]
    view = whole.transpose(axes)[tuple(slice(None, None, step) for step in steps)]
    buffer = executor.allocate(view.shape, dtype).from_numpy(view)
    out = buffer.to_numpy()
    assert out.shape == view.shape
    assert out.tobytes() == view.tobytes()


def test_fill_takes_nan_and_infinity(executor):
    assert np.isnan(executor.allocate(4).fill(float("nan")).to_numpy()).all()
    assert np.isneginf(executor.allocate(4, "bf16").fill(float("-inf")).to_numpy().astype(np.float32)).all()


def test_buffers_copy_within_and_across_executors(executor):
    a = executor.allocate(100).from_numpy(np.arange(100, dtype=np.float32))
    b = executor.allocate(100).copy_from(a)
    c = MemoryExecutor(MemoryDevice(visible=False)).allocate(100).copy_from(a)
    for buffer in (b, c, a.copy_from(a)):
        np.testing.assert_array_equal(buffer.to_numpy(), np.arange(100))
    with pytest.raises(UnsupportedDType):
        a.copy_from(np.zeros(100))


def test_a_freed_buffer_is_refused_everywhere(executor):
    buffer = executor.allocate(4).fill(1)
    other = executor.allocate(4)
    assert not buffer.freed
    buffer.free()
    buffer.free()
    assert buffer.block is None
    assert buffer.freed
    for use in (
        lambda: buffer.from_numpy(np.zeros(4, np.float32)),
        lambda: buffer.to_numpy(),
        lambda: buffer.to_numpy(copy=False),
        lambda: buffer.to_bytes(),
        lambda: buffer.from_bytes(bytes(16)),
        lambda: buffer.fill(0),
        lambda: buffer.copy_from(other),
        lambda: other.copy_from(buffer),
        lambda: buffer.ptr,
        lambda: buffer.__dlpack__(),
        lambda: np.from_dlpack(buffer),
        lambda: np.asarray(buffer),
    ):
        with pytest.raises(BufferFreed, match="freed"):
            use()
    assert "freed" in repr(buffer)


def test_closing_the_executor_frees_its_buffers(executor):
    small, large = executor.allocate(4).fill(1), executor.allocate(10_000).fill(2)
    executor.close()
    assert small.freed
    assert large.freed
    assert executor.pool.stats().reserved == 0


def test_memory_that_came_back_is_given_out_first(executor):
    for size in (4, 5_000):
        a = executor.allocate(size)
        block = a.block
        assert executor.allocate(size).block is not block
        a.free()
        assert executor.allocate(size).block is block


@pytest.mark.parametrize("size", [16, 10_000])
@pytest.mark.parametrize("end", ["free", "del", "close"])
def test_memory_under_a_live_view_is_never_used_again(size, end):
    executor = MemoryExecutor()
    buffer = executor.allocate(size).fill(1)
    address = buffer.ptr
    view = buffer.to_numpy(copy=False)
    assert view.ctypes.data == address
    assert view.flags.writeable
    part = view.reshape(2, -1)[1:]
    del view
    if end == "free":
        buffer.free()
    elif end == "close":
        executor.close()
        assert buffer.freed
    else:
        del buffer
    gc.collect()
    if end != "close":
        executor.pool.release_cached()
        for _ in range(20):
            assert executor.allocate(size).fill(9).ptr != address
    np.testing.assert_array_equal(part, np.ones_like(part))
    del part
    if end != "close":
        assert address in [b.ptr for b in [executor.allocate(size) for _ in range(3)]]
    elif size > 3072:
        assert not executor.device.live


@pytest.mark.parametrize("size", [64, 5_000])
def test_threads_and_views_never_meet_in_memory(size):
    executor = MemoryExecutor(MemoryDevice(room=64 << 20))
    spoiled = []

    def work(number: int) -> None:
        held: list[np.ndarray] = []
        for i in range(200):
            value = number * 1000 + i
            buffer = executor.allocate(size, "i32").fill(value)
            held.append(buffer.to_numpy(copy=False))
            cycle: list[object] = [buffer]
            cycle.append(cycle)  # goes in a garbage collection, in whatever thread that runs
            if len(held) > 8:
                first = held.pop(0)
                if not (first == value - 8).all():
                    spoiled.append(value)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    assert not spoiled
    assert executor.pool.stats().count == 0


def test_views_write_through_where_the_host_reaches_and_copies_are_refused_elsewhere(executor):
    buffer = executor.allocate((2, 3)).fill(1)
    if executor.device.host_view(buffer.block.memory, buffer.block.offset, buffer.nbytes) is not None:
        buffer.to_numpy(copy=False)[1, 2] = 5
        assert buffer.to_numpy()[1, 2] == 5
        assert buffer.to_numpy(copy=None).ctypes.data == buffer.ptr
        copied = buffer.to_numpy()
        copied[:] = 9
        assert buffer.to_numpy()[0, 0] == 1
    else:
        with pytest.raises(InteropError, match="copy=False"):
            buffer.to_numpy(copy=False)
        if executor.device.address(buffer.block.memory, buffer.block.offset) is None:
            with pytest.raises(InteropError, match="no address"):
                _ = buffer.ptr
        assert (buffer.to_numpy() == 1).all()


def test_the_array_protocol(executor):
    buffer = executor.allocate(3, "i32").from_numpy(np.arange(3, dtype=np.int32))
    assert np.asarray(buffer).dtype == np.int32
    assert np.asarray(buffer, np.float64).tolist() == [0, 1, 2]
    assert np.array(buffer).flags.owndata
    assert (np.add(buffer, 1) == [1, 2, 3]).all()
    with pytest.raises(InteropError):
        buffer.__array__(np.float64, copy=False)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the buffer protocol in Python needs 3.12")
def test_the_buffer_protocol():
    buffer = MemoryExecutor().allocate(3).fill(2)
    view = memoryview(buffer)
    assert view.format == "f"
    assert view.tolist() == [2, 2, 2]


def test_a_vendors_interface_is_offered_by_its_devices_alone(executor):
    name = "__cuda_array_interface__"
    buffer = executor.allocate(3)
    if executor.device.array_interface == name:
        assert getattr(buffer, name)["data"] == (buffer.ptr, False)
    else:
        assert not hasattr(buffer, name)


def test_length_and_repr(executor):
    assert len(executor.allocate((4, 5))) == 4
    with pytest.raises(TypeError):
        len(executor.allocate(()))
    assert repr(executor.allocate((4, 5))) == f"Buffer(shape=(4, 5), dtype=f32, {executor.device.info.name})"


def test_large_arrays_come_and_go_whole(executor):
    """From STREAMED_BYTES on the CPU copies what lies plainly by itself; other layouts are for NumPy."""
    count = (STREAMED_BYTES // 4 + 4099) // 3 * 3
    data = np.random.default_rng(0).integers(0, 200, count).astype(np.float32)
    buffer, other = (executor.allocate((3, count // 3)) for _ in range(2))
    for array in (data, data[::-1], data.reshape(-1, 3).T, data.astype(">f4")):
        buffer.from_numpy(array)
        for found in (buffer.to_numpy(), buffer.to_numpy(copy=None), other.copy_from(buffer).to_numpy()):
            np.testing.assert_array_equal(found.reshape(-1), array.reshape(-1))
    copied = buffer.to_numpy()
    buffer.fill(1)
    assert (copied != 1).any()
    assert (buffer.to_numpy() == 1).all()


def test_an_array_that_is_there_takes_the_elements(executor):
    buffer = executor.allocate((3, 40), "i16").from_numpy(np.arange(120, dtype=np.int16).reshape(3, 40))
    for out in (
        np.zeros((3, 40), np.int16),
        np.zeros((40, 3), np.int16).T,
        np.zeros((6, 80), np.int16)[::2, ::-2],
    ):
        assert buffer.to_numpy(out=out) is out
        np.testing.assert_array_equal(out.reshape(-1), np.arange(120))
    read_only = np.zeros((3, 40), np.int16)
    read_only.flags.writeable = False
    for out, error in (
        (np.zeros((40, 3), np.int16), ShapeError),
        (np.zeros((3, 40), np.int32), UnsupportedDType),
        (read_only, InteropError),
        ([0] * 120, TypeError),
    ):
        with pytest.raises(error, match="out"):
            buffer.to_numpy(out=out)
    with pytest.raises(InteropError, match="copy=False"):
        buffer.to_numpy(copy=False, out=np.zeros((3, 40), np.int16))
