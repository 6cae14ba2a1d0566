"""Exchange with NumPy, torch and any DLPack library: zero copies where memory is the host's, one elsewhere."""

from __future__ import annotations

import gc
import sys
from typing import Any

import numpy as np
import pytest

from hologram.foundation import dtypes
from hologram.foundation.errors import HologramError, InteropError, UnsupportedDType
from hologram.machine.device import DeviceInfo
from hologram.runtime.interchange import dlpack
from hologram.runtime.interchange.adoption import from_dlpack
from tests.devices import AdoptingDevice, MemoryDevice, MemoryExecutor, limits
from tests.runtime.arrays import sample

torch = pytest.importorskip("torch")

IS_COPIED = 1 << 1  # DLPACK_FLAG_BITMASK_IS_COPIED of the standard
NUMPY_TAKES = [d for d in dtypes.ALL if not d.is_foreign]


@pytest.fixture(name="executor")
def _executor():
    return MemoryExecutor(AdoptingDevice())


@pytest.mark.parametrize("dtype", NUMPY_TAKES, ids=repr)
@pytest.mark.parametrize("shape", [(3, 5), (), (0, 2)], ids=str)
def test_numpy_reads_a_buffer_in_place(executor, dtype, shape):
    x = sample(dtype, shape)
    buffer = executor.allocate(shape, dtype).from_numpy(x)
    y = np.from_dlpack(buffer)
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y, x)
    if x.size:
        assert y.ctypes.data == buffer.ptr
        y[...] = 0
        assert not buffer.to_numpy().any()
        assert np.from_dlpack(buffer, copy=True).ctypes.data != buffer.ptr


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=repr)
def test_torch_reads_a_buffer_in_place(executor, dtype):
    x = sample(dtype)
    buffer = executor.allocate(x.shape, dtype).from_numpy(x)
    y = torch.from_dlpack(buffer)
    assert dtypes.dtype(y.dtype) is dtype
    assert y.data_ptr() == buffer.ptr
    assert y.tolist() == x.tolist()
    y.zero_()
    assert not buffer.to_numpy().any()


def test_both_kinds_of_capsule_are_made(executor):
    buffer = executor.allocate(4).fill(1)
    assert '"dltensor"' in repr(buffer.__dlpack__())
    assert '"dltensor_versioned"' in repr(buffer.__dlpack__(max_version=(1, 0)))
    assert buffer.__dlpack_device__() == (1, 0)


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_capsules_nobody_takes_give_the_memory_back(executor, version):
    buffer = executor.allocate(10_000).fill(1)
    capsule = buffer.__dlpack__(max_version=version)
    buffer.free()
    gc.collect()
    assert executor.pool.stats().count == 1
    del capsule
    assert executor.pool.stats().count == 0


def test_a_consumer_keeps_the_memory(executor):
    buffer = executor.allocate(10_000).fill(3)
    address = buffer.ptr
    tensor = torch.from_dlpack(buffer)
    buffer.free()
    executor.pool.release_cached()
    assert executor.allocate(10_000).fill(9).ptr != address
    assert bool((tensor == 3).all())
    del tensor
    assert executor.allocate(10_000).ptr == address


def test_ten_thousand_exports_leave_nothing_behind(executor):
    buffer = executor.allocate(10_000).fill(1)

    def export(times: int) -> int:
        for _ in range(times):
            np.from_dlpack(buffer)
            torch.from_dlpack(buffer)
            buffer.__dlpack__()
            buffer.to_numpy(copy=False)
        gc.collect()
        return len(gc.get_objects()) + sys.getrefcount(buffer.lease)

    before = export(100)
    assert export(10_000) <= before + 50
    buffer.free()
    assert executor.pool.stats().count == 0


def test_a_device_the_buffer_is_not_on_is_refused(executor):
    with pytest.raises(InteropError, match="DLPack device"):
        executor.allocate(4).__dlpack__(dl_device=(2, 0))
    with pytest.raises(BufferError):
        executor.allocate(4).__dlpack__(dl_device=(2, 0))


def test_hidden_memory_goes_out_with_one_copy():
    executor = MemoryExecutor(MemoryDevice(visible=False))
    buffer = executor.allocate((2, 3), "bf16").fill(2)
    before = executor.device.copies
    tensor = torch.from_dlpack(buffer)
    assert executor.device.copies == before + 1
    assert tensor.tolist() == [[2.0] * 3] * 2
    _, versioned = dlpack.inside(buffer.__dlpack__(max_version=(1, 0)))
    assert versioned is not None
    assert versioned.flags == IS_COPIED
    with pytest.raises(InteropError, match="copy=False"):
        buffer.__dlpack__(max_version=(1, 0), copy=False)


def once(capsule: Any) -> Any:
    """A producer of one capsule."""
    members = {"__dlpack__": lambda self, **_: capsule, "__dlpack_device__": lambda self: (1, 0)}
    return type("Once", (), members)()


def test_strided_views_go_out_in_place(executor):
    buffer = executor.allocate(24, "bf16").from_numpy(sample(dtypes.bf16, (24,)))
    array = dlpack.host_array(once(dlpack.export(buffer, (3, 2), (4, 1), 10)))
    tensor = torch.arange(24).as_strided((3, 2), (4, 1), 10)
    assert array.tolist() == tensor.tolist()
    assert array.ctypes.data == buffer.ptr + 20


def test_backward_views_go_out_as_a_copy(executor):
    """Torch ends the process on a negative stride."""
    buffer = executor.allocate(24, "f32").from_numpy(np.arange(24, dtype=np.float32))
    for shape, strides, offset in (((3, 2), (-4, 1), 10), ((2, 3), (1, -1), 5), ((4,), (-6,), 18)):
        capsule = dlpack.export(buffer, shape, strides, offset, max_version=(1, 0))
        _, versioned = dlpack.inside(capsule)
        assert versioned is not None
        assert versioned.flags == IS_COPIED
        want = dlpack.strided(np.arange(24, dtype=np.float32), shape, strides, offset)
        np.testing.assert_array_equal(torch.from_dlpack(once(capsule)), want)
        with pytest.raises(InteropError, match="no stride may be negative"):
            dlpack.export(buffer, shape, strides, offset, copy=False)
    single = torch.from_dlpack(once(dlpack.export(buffer, (1, 2), (-4, 1), 10, copy=False)))
    assert single.data_ptr() == buffer.ptr + 40


def test_memory_of_a_device_goes_out_as_its_address():
    class Vendor(MemoryDevice):
        """Knows addresses and says so: nothing reads the memory, so the capsule can be looked at."""

        dlpack_device = (2, 3)
        array_interface = "__cuda_array_interface__"

        def __init__(self) -> None:
            super().__init__(visible=False)
            self.info = DeviceInfo("vendor", 3, "a GPU", "", limits())

        def address(self, memory: np.ndarray, offset: int) -> int:
            return memory.ctypes.data + offset

    buffer = MemoryExecutor(Vendor()).allocate((5_000, 2), "bf16")
    assert buffer.__dlpack_device__() == (2, 3)
    tensor, _ = dlpack.inside(buffer.__dlpack__(max_version=(1, 0)))
    assert (tensor.device_type, tensor.device_id, tensor.code, tensor.bits) == (2, 3, 4, 16)
    interface = getattr(buffer, "__cuda_array_interface__")  # noqa: B009  (no attribute that checkers know)
    assert tensor.data == buffer.ptr == interface["data"][0]
    assert interface["shape"] == (5_000, 2)
    with pytest.raises(InteropError, match="neither copied nor backward"):
        buffer.__dlpack__(copy=True)
    with pytest.raises(InteropError, match="neither copied nor backward"):
        dlpack.export(buffer, (2,), (-1,), 1)


def test_memory_without_the_interface_of_a_vendor_has_not_the_attribute(executor):
    buffer = executor.allocate(3)
    assert not hasattr(buffer, "__cuda_array_interface__")
    with pytest.raises(AttributeError, match="'Buffer' object has no attribute 'siez'"):
        _ = buffer.siez


@pytest.mark.parametrize("dtype", NUMPY_TAKES, ids=repr)
def test_arrays_come_in_in_place(executor, dtype):
    x = sample(dtype)
    imported = from_dlpack(executor, x)
    assert imported.buffer.ptr == x.ctypes.data
    assert (imported.shape, imported.layout.strides, imported.layout.offset) == ((3, 5), (5, 1), 0)
    imported.buffer.fill(1)
    assert (x == 1).all()


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=repr)
def test_tensors_come_in_in_place(executor, dtype):
    x = torch.from_dlpack(executor.allocate((3, 5), dtype).from_numpy(sample(dtype))).clone()
    imported = from_dlpack(executor, x, copy=False)
    assert imported.buffer.dtype is dtype
    assert imported.buffer.ptr == x.data_ptr()
    assert imported.buffer.to_numpy().tolist() == x.tolist()


def test_strided_arrays_come_in_in_place(executor):
    base = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
    view = base[::-1, 1:, ::2].transpose(2, 0, 1)
    imported = from_dlpack(executor, view, copy=False)
    seen = dlpack.strided(
        imported.buffer.to_numpy(copy=False), imported.shape, imported.layout.strides, imported.layout.offset
    )
    np.testing.assert_array_equal(seen, view)
    assert np.shares_memory(seen, base)


def test_imported_memory_outlives_its_owner_and_goes_at_the_end(executor):
    x = torch.full((20_000,), 5.0)
    imported = from_dlpack(executor, x)
    del x
    gc.collect()
    assert (imported.buffer.to_numpy() == 5).all()
    held = executor.pool.stats().reserved
    imported.buffer.free()
    executor.pool.release_cached()
    assert executor.pool.stats().reserved == held - 80_000
    assert not any(n == 80_000 for n in executor.device.live.values())


def _misaligned() -> np.ndarray:
    return np.zeros(17, np.uint8)[1:].view(np.float32)


def _read_only() -> np.ndarray:
    array = np.ones(4, np.float32)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (_misaligned, "aligned"),
        (_read_only, "read-only"),
        (lambda: np.zeros((0, 4), np.float32), "empty"),
        (lambda: np.zeros(4, [("a", "f4"), ("b", "u1")])["a"], "aligned|whole number"),
    ],
)
def test_what_cannot_be_shared_is_copied_once_or_refused(executor, make, reason):
    x = make()
    with pytest.raises(InteropError, match=reason):
        from_dlpack(executor, x, copy=False)
    imported = from_dlpack(executor, x)
    np.testing.assert_array_equal(imported.buffer.to_numpy(), x)
    assert not np.shares_memory(imported.buffer.to_numpy(copy=False), x)


def test_a_device_that_cannot_adopt_copies():
    executor = MemoryExecutor(MemoryDevice(visible=False))
    x = torch.arange(12, dtype=torch.int16).reshape(3, 4).T
    before = executor.device.copies
    imported = from_dlpack(executor, x)
    assert executor.device.copies == before + 1
    np.testing.assert_array_equal(imported.buffer.to_numpy(), x.numpy())
    with pytest.raises(InteropError, match="cannot use the host's memory"):
        from_dlpack(executor, x, copy=False)


def test_an_own_buffer_comes_back_as_it_is(executor):
    buffer = executor.allocate((4, 5))
    assert from_dlpack(executor, buffer).buffer is buffer
    assert from_dlpack(executor, buffer, copy=True).buffer is not buffer


@pytest.mark.parametrize(
    ("source", "error"),
    [
        (np.array(["a"]), UnsupportedDType),
        (torch.zeros(3, requires_grad=True), InteropError),
        (torch.zeros(3, dtype=torch.complex32), HologramError),
        (object(), UnsupportedDType),
    ],
    ids=["text", "gradient", "halves", "object"],
)
def test_what_has_no_place_is_refused(executor, source, error):
    with pytest.raises(error):
        from_dlpack(executor, source)
