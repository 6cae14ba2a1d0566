"""Transfers, copies and fills of the WebGPU backend, at every alignment."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from hologram.foundation.errors import BufferFreed, OutOfMemory, ShapeError

PATTERN = np.random.default_rng(7).integers(0, 256, 4096, dtype=np.uint8)
EDGES = (0, 1, 3, 4, 255, 256, 1021)


@pytest.mark.parametrize("offset", EDGES)
@pytest.mark.parametrize("nbytes", [0, 1, 2, 3, 4, 5, 7, 8, 31, 256, 1000])
def test_write_and_read_touch_their_bytes_only(device, upload, download, offset, nbytes):
    expected = PATTERN[:2048].copy()
    memory = upload(expected)
    data = PATTERN[2048 : 2048 + nbytes]
    device.write(memory, offset, memoryview(data))
    expected[offset : offset + nbytes] = data
    np.testing.assert_array_equal(download(memory, expected), expected)
    part = np.zeros(nbytes, np.uint8)
    device.read(memory, offset, memoryview(part))
    np.testing.assert_array_equal(part, data)


@pytest.mark.parametrize(
    ("source_offset", "target_offset"), list(itertools.product((0, 1, 2, 3, 260, 513), repeat=2))
)
@pytest.mark.parametrize("nbytes", [1, 2, 3, 4, 6, 64, 777])
def test_copy_moves_any_bytes(device, upload, download, source_offset, target_offset, nbytes):
    expected = PATTERN[2048:].copy()
    source, target = upload(PATTERN[:2048]), upload(expected)
    device.copy(source, source_offset, target, target_offset, nbytes)
    expected[target_offset : target_offset + nbytes] = PATTERN[source_offset : source_offset + nbytes]
    np.testing.assert_array_equal(download(target, expected), expected)


@pytest.mark.parametrize(
    ("source_offset", "target_offset"), [(0, 4), (4, 0), (0, 1024), (3, 1025), (1025, 3), (7, 7)]
)
def test_copy_within_one_memory_is_memmove(device, upload, download, source_offset, target_offset):
    expected = PATTERN[:2048].copy()
    memory = upload(expected)
    device.copy(memory, source_offset, memory, target_offset, 1000)
    expected[target_offset : target_offset + 1000] = PATTERN[source_offset : source_offset + 1000]
    np.testing.assert_array_equal(download(memory, expected), expected)


@pytest.mark.parametrize("pattern", [b"\0", b"\x80", b"\1\2", b"\1\2\3\4", b"\0\0\0\0", bytes(range(1, 9))])
@pytest.mark.parametrize(
    ("offset", "nbytes"), [(0, 2048), (0, 0), (8, 16), (1, 1), (3, 9), (258, 1001), (4, 12)]
)
def test_fill_repeats_the_pattern(device, upload, download, pattern, offset, nbytes):
    expected = PATTERN[:2048].copy()
    memory = upload(expected)
    device.fill(memory, offset, nbytes, pattern)
    expected[offset : offset + nbytes] = np.resize(np.frombuffer(pattern, np.uint8), nbytes)
    np.testing.assert_array_equal(download(memory, expected), expected)


def test_transfers_larger_than_a_piece(device, upload, download, monkeypatch):
    monkeypatch.setattr(device.transfers, "piece_bytes", 1024)
    expected = np.resize(PATTERN, 100_000)
    memory = upload(expected)
    np.testing.assert_array_equal(download(memory, expected), expected)


def test_many_writes_in_a_row_keep_their_data(device, upload, download):
    memory = upload(np.zeros(300, np.uint32))
    for k in range(300):
        device.write(memory, 4 * k, memoryview(np.array([k], np.uint32)))
    np.testing.assert_array_equal(download(memory, np.empty(300, np.uint32)), np.arange(300, dtype=np.uint32))


def test_a_write_while_busy_does_not_overtake_later_ones(device, upload, download, monkeypatch):
    memory = upload(np.zeros(16, np.uint8))
    with monkeypatch.context() as patch:
        patch.setattr(device.encoder, "idle", lambda: False)
        device.write(memory, 0, memoryview(b"\1" * 16))
        device.write(memory, 3, memoryview(b"\2" * 3))
    device.write(memory, 8, memoryview(b"\3" * 4))
    expected = np.frombuffer(b"\1\1\1\2\2\2\1\1\3\3\3\3\1\1\1\1", np.uint8)
    np.testing.assert_array_equal(download(memory, expected.copy()), expected)


def test_allocation_beyond_the_adapter_is_out_of_memory(device):
    most = device.limits.max_buffer_bytes
    with pytest.raises(OutOfMemory, match=str(most)):
        device.allocate(most + 1)


def test_ranges_outside_a_memory_are_refused(device, upload):
    memory = upload(np.zeros(8, np.uint8))
    for call in (
        lambda: device.read(memory, 200, memoryview(bytearray(100))),
        lambda: device.write(memory, -1, memoryview(b"ab")),
        lambda: device.fill(memory, 0, 1000, b"\1"),
        lambda: device.copy(memory, 0, memory, 128, 1000),
    ):
        with pytest.raises(ShapeError, match="do not lie in"):
            call()


def test_released_memory_is_refused(device):
    memory = device.allocate(64)
    device.release(memory)
    device.release(memory)
    with pytest.raises(BufferFreed):
        device.read(memory, 0, memoryview(bytearray(4)))
