"""Memory of a CUDA device: transfers of any bytes, fills, copies, and what is refused."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from hologram.backends import cuda
from hologram.backends.cuda.device import CudaDevice
from hologram.foundation.errors import BufferFreed, OutOfMemory, ShapeError

RANDOM = np.random.default_rng(5)


def random_bytes(count: int) -> np.ndarray:
    return RANDOM.integers(0, 256, count, dtype=np.uint8)


@pytest.fixture(params=[0, 1 << 20], ids=["apart", "in line"])
def way(request: pytest.FixtureRequest, device: CudaDevice) -> None:
    """Small transfers by a stream of their own as well."""
    device.transfers.staging.apart_bytes = request.param


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("offset", [0, 1, 3, 256])
@pytest.mark.parametrize("count", [1, 7, 4096])
def test_any_bytes_come_back(device: CudaDevice, upload, download, offset: int, count: int) -> None:
    expected = random_bytes(8192)
    memory = upload(expected)
    data = random_bytes(count)
    device.write(memory, offset, memoryview(data))
    expected[offset : offset + count] = data
    np.testing.assert_array_equal(download(memory, expected), expected)
    part = np.empty(count, np.uint8)
    device.read(memory, offset, memoryview(part))
    np.testing.assert_array_equal(part, data)


@pytest.mark.usefixtures("way")
def test_transfers_of_many_pieces(device: CudaDevice, upload, download) -> None:
    """Pieces of pinned memory take turns: none is filled before the device has it."""
    device.transfers.staging.piece_bytes = 1000
    data = random_bytes(12_345)
    memory = upload(data)
    np.testing.assert_array_equal(download(memory, data), data)


@pytest.mark.usefixtures("way")
def test_what_was_written_may_change_at_once(device: CudaDevice, upload, download) -> None:
    arrays = [random_bytes(5000) for _ in range(10)]
    kept = []
    for array in arrays:
        held = array.copy()
        kept.append(upload(held))
        held[:] = 0
    for array, memory in zip(arrays, kept, strict=True):
        np.testing.assert_array_equal(download(memory, array), array)


@pytest.mark.parametrize("shift", [-300, -3, 0, 5, 2000])
def test_copies_within_a_memory_may_overlap(device: CudaDevice, upload, download, shift: int) -> None:
    expected = random_bytes(8192)
    memory = upload(expected)
    device.copy(memory, 4000, memory, 4000 + shift, 1001)
    expected[4000 + shift : 5001 + shift] = expected[4000:5001].copy()
    np.testing.assert_array_equal(download(memory, expected), expected)


@pytest.mark.parametrize(
    "pattern",
    [
        b"\0",
        b"\7",
        b"\1\2",
        b"\1\1",
        b"\1\2\3\4",
        b"\1\2\1\2",
        b"\1\2\3\4\5\6\7\x08",
        b"\1\2\3\4\1\2\3\4",
        bytes(8),
    ],
)
def test_fills(device: CudaDevice, upload, download, pattern: bytes) -> None:
    expected = random_bytes(4096)
    memory = upload(expected)
    count = 37 * len(pattern)
    device.fill(memory, 16, count, pattern)
    expected[16 : 16 + count] = np.frombuffer(pattern * 37, np.uint8)
    np.testing.assert_array_equal(download(memory, expected), expected)


def test_transfers_of_nothing(device: CudaDevice, upload) -> None:
    memory = upload(random_bytes(4))
    device.write(memory, 4, memoryview(b""))
    device.read(memory, 4, memoryview(bytearray()))
    device.copy(memory, 0, memory, 0, 0)
    device.fill(memory, 0, 0, b"\0")


def test_what_lies_outside_is_refused(device: CudaDevice, upload) -> None:
    memory = upload(random_bytes(256))
    for offset, count in ((0, 257), (256, 1), (-1, 1)):
        with pytest.raises(ShapeError, match="do not lie in a memory of 256 bytes"):
            device.write(memory, offset, memoryview(bytes(count)))


def test_released_memory_is_refused(device: CudaDevice, upload) -> None:
    memory = upload(random_bytes(16))
    device.release(memory)
    device.release(memory)
    with pytest.raises(BufferFreed):
        device.read(memory, 0, memoryview(bytearray(16)))


def test_more_than_the_card_has(device: CudaDevice) -> None:
    with pytest.raises(OutOfMemory, match="were asked for"):
        device.allocate(device.limits.max_buffer_bytes + 1)


def test_more_than_is_left(device: CudaDevice) -> None:
    size = int(0.6 * device.limits.max_buffer_bytes)
    first = device.allocate(size)
    with pytest.raises(OutOfMemory, match="cuMemAllocFromPoolAsync answers CUDA_ERROR_OUT_OF_MEMORY"):
        device.allocate(size)
    device.release(first)
    device.synchronize()
    device.release(device.allocate(size))


def test_addresses_are_the_devices(device: CudaDevice, upload) -> None:
    memory = upload(random_bytes(512))
    assert device.address(memory, 256) == device.address(memory, 0) + 256
    assert device.dlpack_device == (2, 0)
    assert device.array_interface == "__cuda_array_interface__"


def test_memory_that_is_lent_is_read_and_given_back(device: CudaDevice, upload, download) -> None:
    data = random_bytes(4096)
    own, holder = upload(data), [1]
    lent = device.adopt_address(own.address + 256, 1000, holder)
    assert lent.address == own.address + 256
    np.testing.assert_array_equal(download(lent, data[:1000]), data[256:1256])
    device.release(lent)
    assert lent.pointer is None
    device.synchronize()
    assert sys.getrefcount(holder) == 2  # the name here, and the argument
    np.testing.assert_array_equal(download(own, data), data)


@pytest.mark.parametrize("stream", [None, 0, 1, 2, "own"])
def test_streams_are_ordered_with_ours(device: CudaDevice, stream: int | str | None) -> None:
    other = device.queue_handle if stream == "own" else stream
    device.follow(other)
    device.lead(other)
    device.synchronize()


@pytest.mark.skipif(len(cuda.probe().devices) < 2, reason="the machine has no two cards")
def test_a_card_receives_from_the_one_beside_it() -> None:
    first, second = (cuda.open_device(number) for number in range(2))
    data, out = random_bytes(5000), np.zeros(4000, np.uint8)
    source, target = first.allocate(5000), second.allocate(5000)
    first.write(source, 0, memoryview(data))
    assert second.receive(first, source, 8, target, 0, 4000)
    first.write(source, 0, memoryview(np.zeros(5000, np.uint8)))  # behind the copy
    second.read(target, 0, memoryview(out))
    np.testing.assert_array_equal(out, data[8:4008])
    first.close()
    second.close()


def test_a_device_receives_from_another_of_its_driver(device: CudaDevice, upload, download) -> None:
    data = random_bytes(5000)
    source, target = upload(data), device.allocate(5000)
    assert device.receive(device, source, 8, target, 0, 4000)
    np.testing.assert_array_equal(download(target, data[:4000]), data[8:4008])
