"""Launches on buffers larger than a binding may be, with that limit lowered so that small data shows it."""

from __future__ import annotations

import numpy as np
import pytest

from hologram.atlas.builder import Builder
from hologram.atlas.functions import reduce_add
from hologram.atlas.program import Access, Program
from hologram.backends import webgpu
from hologram.foundation.dtypes import f16, f32, i32, index, u8, u32
from hologram.foundation.errors import ShapeError
from hologram.opset import OPERATIONS
from hologram.runtime.engine import Engine

LIMIT = 4096


@pytest.fixture(scope="module")
def shared_device(index):
    device = webgpu.open_device(index, max_binding_bytes=LIMIT)
    yield device
    device.close()


@pytest.mark.parametrize("n", [1024, 1025, 5000, 65_536 + 7])
def test_contiguous_elements(device, upload, download, whole, n):
    b = Builder("atlas_scaled")
    x, y = b.buffer("x", f32, Access.READ), b.buffer("y", f16, Access.WRITE)
    i = b.coordinate(0)
    b.store(y, i, (b.load(x, i) * b.scalar("a", f32)).to(f16))
    values = (np.arange(n) % 1000).astype(np.float32)
    memories = upload(values), upload(np.zeros(n, np.float16))
    device.compile(b.build()).bind(whole(*memories), (2.0,), (n,))()
    np.testing.assert_array_equal(
        download(memories[1], np.empty(n, np.float16)), (values * 2).astype(np.float16)
    )


def test_in_place(device, upload, download, whole):
    b = Builder("atlas_double")
    x, y, i = b.buffer("x", u8, Access.READ), b.buffer("y", u8, Access.WRITE), b.coordinate(0)
    b.store(y, i, (b.load(x, i).to(u32) * 2).to(u8))
    values = np.arange(30_001, dtype=np.uint8)
    memory = upload(values)
    device.compile(b.build()).bind(whole(memory, memory), (), (values.size,))()
    np.testing.assert_array_equal(download(memory, values), values + values)


def test_coordinates_and_extents_are_those_of_the_whole_grid(device, upload, download, whole):
    b = Builder("atlas_countdown")
    y, i = b.buffer("y", u32, Access.WRITE), b.coordinate(0)
    b.store(y, i, b.extent(0).to(u32) - i.to(u32))
    memory = upload(np.zeros(5000, np.uint32))
    device.compile(b.build()).bind(whole(memory), (), (5000,))()
    np.testing.assert_array_equal(download(memory, np.empty(5000, np.uint32)), np.arange(5000, 0, -1))


def strided() -> Program:
    """y[i, j] = x[offset + i * rows + j * columns] + bias[j]."""
    b = Builder("atlas_strided", rank=2)
    x, bias, y = (
        b.buffer("x", f32, Access.READ),
        b.buffer("bias", f32, Access.READ),
        b.buffer("y", f32, Access.WRITE),
    )
    rows, columns, offset = (b.scalar(s, index) for s in ("rows", "columns", "offset"))
    i, j = b.coordinate(0), b.coordinate(1)
    b.store(y, i * b.extent(1) + j, b.load(x, i * rows + j * columns + offset) + b.load(bias, j))
    return b.build()


@pytest.mark.parametrize(
    ("rows", "columns", "offset"), [(40, 1, 0), (-40, 1, 40 * 299), (40, -1, 39), (80, 2, 1)]
)
def test_strides_and_broadcasting(device, upload, download, whole, rows, columns, offset):
    x = np.arange(24_001, dtype=np.float32)
    bias = np.arange(40, dtype=np.float32) / 64
    memories = upload(x), upload(bias), upload(np.zeros(12_000, np.float32))
    device.compile(strided()).bind(whole(*memories), (rows, columns, offset), (300, 40))()
    i, j = np.mgrid[:300, :40]
    expected = x[i * rows + j * columns + offset] + bias[j]
    np.testing.assert_array_equal(download(memories[2], np.empty((300, 40), np.float32)), expected)


def test_a_gather_whose_table_fits(device, upload, download, whole):
    b = Builder("atlas_gather")
    table, at, y = (
        b.buffer("table", f32, Access.READ),
        b.buffer("at", i32, Access.READ),
        b.buffer("y", f32, Access.WRITE),
    )
    i = b.coordinate(0)
    b.store(y, i, b.load(table, b.load(at, i).to(index)))
    values, positions = np.arange(1000, dtype=np.float32), (np.arange(6000) * 7 % 1000).astype(np.int32)
    memories = upload(values), upload(positions), upload(np.zeros(6000, np.float32))
    device.compile(b.build()).bind(whole(*memories), (), (6000,))()
    np.testing.assert_array_equal(download(memories[2], np.empty(6000, np.float32)), values[positions])
    large = upload(np.zeros(5000, np.float32))
    with pytest.raises(ShapeError, match=f"table takes 20000 bytes, this adapter binds at most {LIMIT}"):
        device.compile(b.build()).bind(whole(large, *memories[1:]), (), (6000,))


def test_loops_and_lanes(device, upload, download, whole):
    """y[lane] = sum of x[lane * 4 + k] for k below 4, over a grid of two axes."""
    b = Builder("atlas_sums_of_four", rank=2)
    x, y = b.buffer("x", u32, Access.READ), b.buffer("y", u32, Access.WRITE)
    lane = b.coordinate(0) * b.extent(1) + b.coordinate(1)
    (total,) = b.loop(0, 4, lambda k, s: [s + b.load(x, lane * 4 + k)], first=[b.constant(0, u32)])
    b.store(y, lane, total)
    values = np.arange(12_000, dtype=np.uint32)
    memories = upload(values), upload(np.zeros(3000, np.uint32))
    device.compile(b.build()).bind(whole(*memories), (), (100, 30))()
    expected = values.reshape(-1, 4).sum(1, dtype=np.uint32)
    np.testing.assert_array_equal(download(memories[1], np.empty(3000, np.uint32)), expected)


def test_rows(device, upload, download, whole):
    b = Builder("atlas_row_sum", rank=2, reduced=1)
    x, y = b.buffer("x", f32, Access.READ), b.buffer("y", f32, Access.WRITE)
    b.store(y, b.coordinate(0), reduce_add(b.load(x, b.coordinate(0) * b.extent(1) + b.coordinate(1))))
    values = np.arange(20_000, dtype=np.float32).reshape(200, 100) % 17
    memories = upload(values), upload(np.zeros(200, np.float32))
    device.compile(b.build()).bind(whole(*memories), (), (200, 100))()
    np.testing.assert_array_equal(download(memories[1], np.empty(200, np.float32)), values.sum(1))


def test_a_first_axis_of_one_is_skipped(device, upload, download, whole):
    """As a long sum is split: y[i, j] = sum of x[i * size + j * part + k] over k."""
    b = Builder("atlas_parts", rank=3, reduced=1)
    x, y = b.buffer("x", f32, Access.READ), b.buffer("y", f32, Access.WRITE)
    i, j, k = (b.coordinate(axis) for axis in range(3))
    part = b.scalar("part", index)
    b.store(y, i * b.extent(1) + j, reduce_add(b.load(x, i * b.scalar("size", index) + (j * part + k))))
    values = np.arange(20_000, dtype=np.float32) % 19
    memories = upload(values), upload(np.zeros(40, np.float32))
    device.compile(b.build()).bind(whole(*memories), (500, 0), (1, 40, 500))()
    np.testing.assert_array_equal(
        download(memories[1], np.empty(40, np.float32)), values.reshape(40, 500).sum(1)
    )


def test_a_row_that_fits_no_page_is_refused(device, upload, whole):
    b = Builder("atlas_total", rank=1, reduced=1)
    x, y = b.buffer("x", f32, Access.READ), b.buffer("y", f32, Access.WRITE)
    b.store(y, b.constant(0, index), reduce_add(b.load(x, b.coordinate(0))))
    memories = upload(np.zeros(2000, np.float32)), upload(np.zeros(1, np.float32))
    with pytest.raises(ShapeError, match="x takes 8000 bytes"):
        device.compile(b.build()).bind(whole(*memories), (), (2000,))


def test_fill_and_copy_are_paged_too(device, upload, download):
    memory = upload(np.zeros(20_001, np.uint8))
    device.fill(memory, 3, 19_990, b"\1\2\3\4\5\6\7\x08")
    device.copy(memory, 5, memory, 6, 19_000)
    expected = np.zeros(20_001, np.uint8)
    expected[3:19_993] = np.resize(np.arange(1, 9), 19_990)
    expected[6:19_006] = expected[5:19_005].copy()
    np.testing.assert_array_equal(download(memory, expected), expected)


def test_numbers_of_paged_launches_are_told_apart() -> None:
    """Bound anew for each number: 0.0 and -0.0 are two."""
    engine = Engine(webgpu.open_device(0, max_binding_bytes=4096))
    x, out = engine.allocate((5000,)).from_numpy(np.ones(5000, np.float32)), engine.allocate((5000,))
    for number in (0.0, -0.0, 0.0, -0.0, 2.0, 3.0):
        engine.execute(OPERATIONS["multiply"], [x, number], [out], {})
        found = out.to_numpy()
        np.testing.assert_array_equal(found, number)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(number))
    engine.close()
