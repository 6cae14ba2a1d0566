"""Launches as such: grids, strides, aliasing, threads, forks, workgroups, and life without LLVM."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest

from hologram.atlas.builder import Builder, Value
from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Access, Program
from hologram.backends import cpu as backend
from hologram.backends.cpu.interpret import InterpretedKernel
from hologram.foundation import dtypes
from hologram.foundation.dtypes import f32, i32, index
from hologram.foundation.errors import BackendUnavailable
from tests.backends.cpu.llvm.launching import bind, device, elementwise, place, run


def twice() -> Program:
    return elementwise("atlas_twice", lambda x: x + x, [f32], f32)


def strided(rank: int) -> Program:
    """A copy between two views, with every stride and offset a scalar."""
    b = Builder("atlas_copy", rank=rank)
    x, out = b.buffer("x", f32, Access.READ), b.buffer("out", f32, Access.WRITE)

    def position(name: str) -> Value:
        total = b.scalar(f"{name}_offset", dtypes.index)
        for axis in range(rank):
            total = total + b.coordinate(axis) * b.scalar(f"{name}_{axis}", dtypes.index)
        return total

    b.store(out, position("out"), b.load(x, position("x")))
    return b.build()


def test_views() -> None:
    """Transposed, reversed, broadcast and strided views, of all orders of axes."""
    a = np.random.default_rng(0).random((6, 7, 40), np.float32)
    views = [
        a,
        a.transpose(2, 0, 1),
        a[::-1, :, ::-2],
        a[:, 3:4].transpose(1, 2, 0),
        np.broadcast_to(a[:1], (5, 7, 40)),
    ]
    for view in views:
        out = np.zeros(view.shape, np.float32)
        offset = (view.__array_interface__["data"][0] - a.__array_interface__["data"][0]) // 4
        program = strided(3)
        numbers = {"x_offset": offset, "out_offset": 0}
        numbers |= {f"x_{k}": s // 4 for k, s in enumerate(view.strides)}
        numbers |= {f"out_{k}": s // 4 for k, s in enumerate(out.strides)}
        ours = run(device(), program, [a, out], view.shape, [numbers[s.name] for s in program.scalars])[1]
        np.testing.assert_array_equal(ours, view)


def test_zero_dimensional() -> None:
    b = Builder("atlas_one", rank=0)
    out = b.buffer("out", f32, Access.WRITE)
    b.store(out, b.constant(0, dtypes.index), 3.5)
    assert run(device(), b.build(), [np.zeros(1, np.float32)], ())[0][0] == 3.5


@pytest.mark.parametrize("size", [0, 1, 3, 17, 1025, 70_001, 1_000_003])
def test_sizes(size: int) -> None:
    a = np.arange(size, dtype=np.float32)
    np.testing.assert_array_equal(run(device(), twice(), [a, np.zeros_like(a)], [size])[1], a + a)


def test_in_place() -> None:
    """One memory bound twice, on one thread and on all."""
    for size in (100, 500_000):
        cpu = device()
        memory = place(cpu, np.arange(size, dtype=np.float32))
        bind(cpu, twice(), [memory, memory], [size])()
        np.testing.assert_array_equal(
            memory.bytes.view(np.float32)[:size], np.arange(size, dtype=np.float32) * 2
        )


def test_scalars() -> None:
    """Every dtype of scalar arrives as written."""
    for dtype in dtypes.COMPUTED:
        b = Builder("atlas_fill")
        b.store(b.buffer("out", dtype, Access.WRITE), b.coordinate(0), b.scalar("value", dtype))
        value = {"bool": True, "float": -1.5, "int": -7, "uint": 250}[dtype.kind]
        ours = run(device(), b.build(), [np.zeros(5, dtype.numpy)], [5], [value])[0]
        np.testing.assert_array_equal(ours, np.full(5, value, dtype.numpy))


def test_many_threads_share_the_pool() -> None:
    """Launches from several threads at once, large enough to be shared, are all right."""
    cpu = device()
    size, wrong = 300_000, []

    def work(seed: int) -> None:
        a = np.random.default_rng(seed).random(size, np.float32)
        source, target = place(cpu, a), place(cpu, np.zeros_like(a))
        launch = bind(cpu, twice(), [source, target], [size])
        for _ in range(100):
            cpu.fill(target, 0, target.nbytes, b"\0")
            launch()
            if not np.array_equal(target.bytes.view(np.float32)[:size], a + a):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


_MORE_THREADS = """
import numpy as np
from tests.backends.cpu.test_launch import twice
from tests.backends.cpu.llvm.launching import bind, device, place
cpu = device()
assert cpu.limits.parallelism == 9, cpu.limits.parallelism
a = np.arange(400_000, dtype=np.float32)
source, target = place(cpu, a), place(cpu, a)
launch = bind(cpu, twice(), [source, target], [a.size])
for _ in range(300):
    launch()
assert np.array_equal(target.bytes.view(np.float32)[: a.size], a + a)
print("right")
"""


def test_more_threads_than_cores() -> None:
    """Nine threads on however few cores: right, and the process ends."""
    environment = os.environ | {"HOLOGRAM_CPU_THREADS": "9"}
    done = subprocess.run(
        [sys.executable, "-c", _MORE_THREADS],
        capture_output=True,
        text=True,
        env=environment,
        timeout=100,
        check=False,
    )
    assert done.stdout.strip() == "right", done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_fork() -> None:
    """A forked child launches what was bound before, and binds anew."""
    cpu = device()
    a = np.arange(400_000, dtype=np.float32)
    source, target = place(cpu, a), place(cpu, a)
    launch = bind(cpu, twice(), [source, target], [a.size])
    launch()
    child = os.fork()
    if child == 0:
        launch()
        again = place(cpu, np.zeros_like(a))
        bind(cpu, twice(), [source, again], [a.size])()
        right = all(np.array_equal(m.bytes.view(np.float32)[: a.size], a + a) for m in (target, again))
        os._exit(0 if right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    launch()


def tiled_product(tile: int) -> Program:
    """The naive tiled matrix product: shared memory, barriers inside a loop that carries the sum."""
    b = Builder("atlas_gemm_f32", workgroup=tile * tile)
    x, y = (b.buffer(name, f32, Access.READ) for name in "xy")
    out = b.buffer("out", f32, Access.WRITE)
    n = b.scalar("n", dtypes.index)
    left, right = b.shared("left", f32, tile * tile), b.shared("right", f32, tile * tile)
    group, thread = b.position(Opcode.WORKGROUP), b.position(Opcode.THREAD)
    row = group // (n // tile) * tile + thread // tile
    column = group % (n // tile) * tile + thread % tile

    def step(k: Value, total: Value) -> list[Value]:
        b.shared_store(left, thread, b.load(x, row * n + k * tile + thread % tile))
        b.shared_store(right, thread, b.load(y, (k * tile + thread // tile) * n + column))
        b.barrier()

        def inner(j: Value, sum_: Value) -> list[Value]:
            return [
                sum_
                + b.shared_load(left, thread // tile * tile + j)
                * b.shared_load(right, j * tile + thread % tile)
            ]

        (total,) = b.loop(0, tile, inner, first=[total])
        b.barrier()
        return [total]

    (total,) = b.loop(0, n // tile, step, first=[b.constant(0.0, f32)])
    b.store(out, row * n + column, total)
    return b.build()


def test_barriers_inside_a_loop() -> None:
    n = 48
    a, c = (np.random.default_rng(k).random((n, n), np.float32) for k in (1, 2))
    ours = run(device(), tiled_product(8), [a, c, np.zeros_like(a)], [n * n], [n])[2]
    np.testing.assert_allclose(ours, a @ c, rtol=1e-5)


def test_values_that_change_places_in_a_loop_around_barriers() -> None:
    """Some made by the turn's last piece, some by an earlier one, some carried on as another."""
    b = Builder("atlas_places", workgroup=16)
    x, out = b.buffer("x", f32, Access.READ), b.buffer("out", f32, Access.WRITE)
    shared = b.shared("held", f32, 16)
    i, thread = b.position(Opcode.LANE), b.position(Opcode.THREAD)

    def turn(k: Value, first: Value, second: Value, third: Value) -> list[Value]:
        early = first + third
        b.shared_store(shared, thread, second)
        b.barrier()
        late = b.shared_load(shared, 15 - thread) + first
        b.barrier()
        return [second, late * 0.5, early]

    value = b.load(x, i)
    found = b.loop(0, b.scalar("turns", dtypes.index), turn, first=[value, value * 2.0, value * 3.0])
    b.store(out, i, found[0] + 10.0 * found[1] + 100.0 * found[2])
    a = np.arange(48, dtype=np.float32)
    one, two, three = (a.reshape(3, 16) * k for k in (1, 2, 3))
    for _ in range(5):
        one, two, three = two, (two[:, ::-1] + one) * 0.5, one + three
    ours = run(device(), b.build(), [a, np.zeros_like(a)], [48], [5])[1]
    np.testing.assert_allclose(ours, (one + 10 * two + 100 * three).ravel(), rtol=1e-6)


def test_barrier_in_a_branch_and_a_partial_workgroup() -> None:
    """Each workgroup reverses its lanes if a scalar asks for it; the last one is short."""
    b = Builder("atlas_reverse", workgroup=32)
    x, out = b.buffer("x", f32, Access.READ), b.buffer("out", f32, Access.WRITE)
    shared = b.shared("held", f32, 32)
    i, thread = b.position(Opcode.LANE), b.position(Opcode.THREAD)
    value = b.load(x, i)

    def turned() -> list[Value]:
        b.shared_store(shared, thread, value)
        b.barrier()
        return [b.shared_load(shared, 31 - thread)]

    (result,) = b.if_(b.scalar("turn", dtypes.bool_), turned, lambda: [value])
    b.store(out, i, result)
    a = np.arange(80, dtype=np.float32)
    same = run(device(), b.build(), [a, np.zeros_like(a)], [80], [False])[1]
    np.testing.assert_array_equal(same, a)
    turned_ = run(device(), b.build(), [a, np.zeros_like(a)], [80], [True])[1]
    np.testing.assert_array_equal(turned_[:64], a[:64].reshape(2, 32)[:, ::-1].ravel())


def test_memory() -> None:
    cpu = device()
    memory = cpu.allocate(1000)
    assert memory.address % 64 == 0
    cpu.fill(memory, 0, 1000, b"\x01\x02\x03\x04")
    view = cpu.host_view(memory, 4, 8)
    assert bytes(view) == b"\x01\x02\x03\x04" * 2
    view[0] = 9
    out = bytearray(8)
    cpu.read(memory, 4, memoryview(out))
    assert out[0] == 9
    other = cpu.allocate(8)
    cpu.copy(memory, 4, other, 0, 8)
    assert bytes(cpu.host_view(other, 0, 8)) == bytes(out)
    assert cpu.allocate(16 << 20).address % (2 << 20) == 0


def test_only_one_device() -> None:
    with pytest.raises(BackendUnavailable, match="number 0, got 1"):
        backend.open_device(1)


def test_importing_loads_no_llvm() -> None:
    check = "import sys, hologram.backends.cpu as c; c.probe(); c.open_device(0); sys.exit('llvmlite' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], timeout=60, check=False).returncode == 0


WITHOUT_LLVM = """
import sys, warnings
sys.modules["llvmlite"] = sys.modules["llvmlite.binding"] = None
import hologram as hg

with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    for _ in range(2):
        with hg.Executor("cpu") as ex:
            assert (ex.full(3, 1.5) * 2.0).to_numpy().tolist() == [3.0, 3.0, 3.0]
(only,) = [str(w.message) for w in said]
assert "llvmlite is not installed" in only, only
"""


def test_without_llvm() -> None:
    """The device works, interpreted, and says so once."""
    subprocess.run([sys.executable, "-c", WITHOUT_LLVM], timeout=60, check=True)


def test_doing_without_llvm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLOGRAM_CPU_WITHOUT", "llvm")
    cpu = device()
    assert isinstance(cpu.compile(twice()), InterpretedKernel)
    a = np.arange(100, dtype=np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(run(cpu, twice(), [a, np.zeros_like(a)], [100])[1], a + a)


@pytest.mark.parametrize("offset", [0, 1])
def test_streamed_result(offset: int) -> None:
    """A result larger than the caches, aligned and not, with a last strip that is short."""
    size = 5_000_777
    cpu = device()
    a = np.arange(size, dtype=np.float32)
    source, target = place(cpu, a), place(cpu, np.full(size + 1, -1, np.float32))
    b = Builder("atlas_twice")
    x, out = b.buffer("x", f32, Access.READ), b.buffer("out", f32, Access.WRITE)
    value = b.load(x, b.coordinate(0))
    b.store(out, b.coordinate(0) + offset, value + value)
    bind(cpu, b.build(), [source, target], [size])()
    ours = target.bytes.view(np.float32)[: size + 1]
    np.testing.assert_array_equal(ours[offset : offset + size], a + a)
    assert ours[0 if offset else size] == -1


def test_streamed_result_of_a_gather() -> None:
    """Positions that are read are no part of where results go."""
    size, cpu = 5_000_777, device()
    a = np.arange(16, dtype=np.float32)
    where = np.random.default_rng(0).integers(0, 16, size, np.int32)
    source, places, target = place(cpu, a), place(cpu, where), place(cpu, np.empty(size, np.float32))
    b = Builder("atlas_gather")
    x, at, out = (
        b.buffer("x", f32, Access.READ),
        b.buffer("at", i32, Access.READ),
        b.buffer("out", f32, Access.WRITE),
    )
    b.store(out, b.coordinate(0), b.load(x, b.load(at, b.coordinate(0)).to(index)))
    bind(cpu, b.build(), [source, places, target], [size])()
    np.testing.assert_array_equal(target.bytes.view(np.float32)[:size], a[where])


@pytest.mark.parametrize("source", [0, 1, 8, 20])
@pytest.mark.parametrize("target", [0, 3, 16])
@pytest.mark.parametrize("nbytes", [64, 1000, 70001])
def test_streamed_copies_write_their_bytes_and_no_others(source: int, target: int, nbytes: int) -> None:
    opened, data = device(), np.random.default_rng(0).integers(0, 255, 70100, np.uint8)
    opened.streamed_bytes = 64
    a, b = opened.allocate(data.size), opened.allocate(data.size)
    opened.write(a, 0, data.data)
    opened.fill(b, 0, data.size, b"\x55")
    opened.copy(a, source, b, target, nbytes)
    expected = np.full(data.size, 0x55, np.uint8)
    expected[target : target + nbytes] = data[source : source + nbytes]
    out = np.zeros(data.size, np.uint8)
    opened.read(b, 0, out.data)
    np.testing.assert_array_equal(out, expected)
    opened.copy(b, source, b, target, nbytes)  # over itself
    expected[target : target + nbytes] = expected[source : source + nbytes].copy()
    np.testing.assert_array_equal(b.bytes[: data.size], expected)


@pytest.mark.parametrize(
    "pattern", [b"\x07", b"\x01\x02", b"\x01\x02\x03\x84", b"\x01\x02\x03\x04\x05\x06\x07\xf8"]
)
def test_streamed_fills_repeat_their_pattern(pattern: bytes) -> None:
    opened = device()
    opened.streamed_bytes = 64
    memory = opened.allocate(5000)
    opened.fill(memory, 0, 5000, b"\x55")
    opened.fill(memory, 16, 4000, pattern)
    expected = b"\x55" * 16 + pattern * (4000 // len(pattern)) + b"\x55" * 984
    assert memory.bytes[:5000].tobytes() == expected
