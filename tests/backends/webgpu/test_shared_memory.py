"""Parameters of one kernel in one GPU buffer: WebGPU forbids it, the backend rewrites the kernel."""

from __future__ import annotations

import numpy as np

from hologram.atlas.builder import Builder
from hologram.atlas.program import Access, Program
from hologram.backends.webgpu.aliasing import mixed_access, shared_parameters
from hologram.compiler.lowering.aliasing import merge
from hologram.foundation.dtypes import f32, i32
from hologram.machine.kernel import Binding


def add() -> Program:
    """z = x + 2 y."""
    b = Builder("atlas_add_f32")
    x, y = b.buffer("x", f32, Access.READ), b.buffer("y", f32, Access.READ)
    z, i = b.buffer("z", f32, Access.WRITE), b.coordinate(0)
    b.store(z, i, b.load(x, i) + b.load(y, i) * 2.0)
    return b.build()


def truncate() -> Program:
    b = Builder("atlas_cast_f32_i32")
    x, y, i = b.buffer("x", f32, Access.READ), b.buffer("y", i32, Access.WRITE), b.coordinate(0)
    b.store(y, i, b.load(x, i).to(i32))
    return b.build()


X = np.arange(300, dtype=np.float32)
Y = np.full(300, 3, np.float32)


def test_in_place(device, upload, download, whole):
    x, y = upload(X), upload(Y)
    device.compile(add()).bind(whole(x, y, x), (), (300,))()
    np.testing.assert_array_equal(download(x, X), X + 6)
    device.compile(add()).bind(whole(y, y, y), (), (300,))()
    np.testing.assert_array_equal(download(y, Y), Y * 3)


def test_both_inputs_in_one_buffer_are_read_only(device, upload, download, whole):
    x, z = upload(X), upload(Y)
    device.compile(add()).bind(whole(x, x, z), (), (300,))()
    np.testing.assert_array_equal(download(z, X), 3 * X)


def test_ranges_of_one_buffer(device, upload, download):
    size = 1280  # 300 elements and padding to 256 bytes
    memory = upload(np.concatenate([np.resize(X, 320), np.resize(Y, 320), np.zeros(320, np.float32)]))
    parts = [Binding(memory, k * size, 1200) for k in range(3)]
    device.compile(add()).bind(parts, (), (300,))()
    got = download(memory, np.empty(960, np.float32))
    np.testing.assert_array_equal(got[640:940], X + 6)
    np.testing.assert_array_equal(got[940:], 0)


def test_cast_in_place(device, upload, download, whole):
    x = upload(X + np.float32(0.75))
    device.compile(truncate()).bind(whole(x, x), (), (300,))()
    np.testing.assert_array_equal(download(x, X.astype(np.int32)), X.astype(np.int32))


def test_rewrites():
    a, b = object(), object()
    program = add()
    same = [Binding(a, 0, 64), Binding(b, 0, 64), Binding(a, 0, 64)]
    assert shared_parameters(program, same) == (0, 1, 0)
    merged = merge(program, (0, 1, 0))
    assert [(p.name, p.access) for p in merged.buffers] == [("x", Access.READ_WRITE), ("y", Access.READ)]
    apart = [Binding(a, 0, 64), Binding(b, 0, 64), Binding(a, 256, 64)]
    assert shared_parameters(program, apart) == (0, 1, 2)
    assert mixed_access(program, apart, (0, 1, 2))
    assert not mixed_access(program, same, (0, 1, 0))
    assert not mixed_access(program, [apart[0], apart[0], apart[1]], (0, 1, 2))
