"""Generated WGSL: how it reads, how launches are packed and counted, and that it computes what the evaluator does."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from hologram.atlas.builder import Builder
from hologram.atlas.functions import reduce_add, reduce_max, reduce_min, select
from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Access, Program
from hologram.backends.cuda.dialect import cuda
from hologram.backends.webgpu.wgsl.dialect import wgsl
from hologram.compiler.pipeline import lower
from hologram.compiler.scheduling.schedule import MOST_COPIED, Schedule, Sweep, choose
from hologram.compiler.source.codegen import generate
from hologram.foundation.dtypes import DType, bf16, bool_, f16, f32, i8, i64, index, u8, u16, u32
from hologram.foundation.errors import ProgramError, ShapeError
from hologram.machine.limits import Limits

Run = Callable[..., None]


def axpy(dtype: DType = f32) -> Program:
    b = Builder("atlas_axpy_f32")
    x, y = b.buffer("x", dtype, Access.READ), b.buffer("y", dtype, Access.READ_WRITE)
    i = b.coordinate(0)
    b.store(y, i, b.scalar("a", dtype) * b.load(x, i) + b.load(y, i))
    return b.build()


def scaled_rows(dtype: DType = f32) -> Program:
    """Three sweeps; uniform values, vectors along the row where it is aligned."""
    b = Builder("atlas_scaled", rank=2, reduced=1)
    x, y = b.buffer("x", dtype, Access.READ), b.buffer("y", dtype, Access.WRITE)
    i, j, stride = b.coordinate(0), b.coordinate(1), b.scalar("stride", index)
    v = b.load(x, i * stride + j).to(f32)
    d = v - reduce_max(v)
    b.store(y, i * stride + j, (d + reduce_add(d)).to(dtype))
    return b.build()


def columns() -> Program:
    """Sums down the columns: neighbouring lanes read neighbouring elements."""
    b = Builder("atlas_columns", rank=2, reduced=1)
    x, y = b.buffer("x", f32, Access.READ), b.buffer("y", f32, Access.WRITE)
    b.store(y, b.coordinate(0), reduce_add(b.load(x, b.coordinate(1) * b.extent(0) + b.coordinate(0))))
    return b.build()


def least_places() -> Program:
    """Several reductions a sweep over two axes, and stores of packed elements once a row."""
    b = Builder("atlas_least", rank=3, reduced=2)
    x, y, z = (
        b.buffer("x", f32, Access.READ),
        b.buffer("y", i64, Access.WRITE),
        b.buffer("z", bool_, Access.WRITE),
    )
    i, j, k = (b.coordinate(axis) for axis in range(3))
    place = j * b.extent(2) + k
    v = b.load(x, i * b.extent(1) * b.extent(2) + place)
    b.store(y, i, reduce_min(select(v == reduce_min(v), place.to(u32), 2**31)).to(i64))
    b.store(z, i, reduce_max(v > 2.0))
    return b.build()


def numbers(n: int, dtype: DType = f32) -> np.ndarray:
    return np.random.default_rng(n).integers(-60, 60, n).astype(dtype.numpy)


# Text and launches.


def test_the_text_reads_well(limits: Limits) -> None:
    text = generate(axpy(), wgsl(immediates=True, shortfalls=frozenset()), limits).text
    assert text.startswith(
        "// atlas_axpy_f32: x, y -> y, over 1 axis; 1024 threads a workgroup, 4 elements a thread.\n"
    )
    assert "var<immediate> p: Parameters;" in text
    assert "= p.a * v" in text
    assert "%" not in text
    assert "coordinate" not in text


def test_names_that_the_language_reserves_are_changed(limits: Limits) -> None:
    b = Builder("atlas_renamed")
    out = b.buffer("target", f32, Access.WRITE)
    b.store(out, b.coordinate(0), b.scalar("loop", f32))
    source = generate(b.build(), wgsl(), limits)
    assert "target_: array" in source.text
    assert "p.loop_" in source.text
    assert [b.name for b in source.buffers] == ["target"]


def test_launch_words_are_packed_in_order(limits: Limits) -> None:
    b = Builder("atlas_scalars")
    out = b.buffer("out", f32, Access.WRITE)
    a, k, s = b.scalar("a", f32), b.scalar("k", i64), b.scalar("s", index)
    b.store(out, b.coordinate(0) + s, a + k.to(f32))
    source = generate(b.build(), wgsl(), limits)
    assert source.pack((1.5, -2, -1), (7,)) == struct.pack("<IfqI", 7, 1.5, -2, 2**32 - 1)
    with pytest.raises(ProgramError, match="extent_0, a, k, s"):
        source.pack((1.5,), (7,))


def test_groups_are_folded_and_counted(limits: Limits) -> None:
    source = generate(axpy(), wgsl(), limits)
    assert source.groups((4097,), limits) == (2, 1, 1)
    x, y, z = source.groups((2**31,), limits)
    assert z == 1
    assert x <= limits.max_workgroups
    assert 2**31 <= x * y * 4096 < 2**31 + 2**28
    with pytest.raises(ShapeError, match="lanes"):
        source.groups((2**32,), limits)
    rows = generate(scaled_rows(), wgsl(), replace(limits, software=False))
    with pytest.raises(ShapeError, match=r"at most \d+ workgroups"):  # along the second dimension as well
        rows.groups((2**32 - 2**17, 64), replace(limits, software=False, max_workgroups=4096))


def test_lanes_may_be_counted_in_64_bits(limits: Limits) -> None:
    dialect = cuda(64)
    source = generate(lower(axpy(), dialect), dialect, replace(limits, software=False))
    x, y, z = source.groups((2**34 + 1,), limits)
    assert z == 1
    assert max(x, y) <= limits.max_workgroups
    per_group = source.schedule.workgroup * source.schedule.elements
    assert 2**34 < x * y * per_group < 2**34 + 2**30
    assert source.pack((1.5,), (2**34 + 1,))[:8] == (2**34 + 1).to_bytes(8, "little")


def test_a_row_too_long_for_a_software_thread_is_refused(limits: Limits) -> None:
    # llvmpipe would stop the loop early, and say nothing.
    source = generate(scaled_rows(), wgsl(), limits)
    with pytest.raises(ShapeError, match="split"):
        source.groups((2, 2**20), limits)


def test_bound_writable_only_where_needed(limits: Limits) -> None:
    assert [b.access for b in generate(axpy(), wgsl(), limits).buffers] == [Access.READ, Access.READ_WRITE]
    source = generate(axpy(), wgsl(read_write=True), limits)
    assert {b.access for b in source.buffers} == {Access.READ_WRITE}
    assert "storage, read>" not in source.text


def test_schedules_fit_the_adapter_and_the_grid(limits: Limits) -> None:
    gpu, dialect = replace(limits, software=False), wgsl()
    assert choose(scaled_rows(), dialect, limits).threads == 1
    assert choose(scaled_rows(), dialect, gpu).threads == 256
    assert choose(scaled_rows(), dialect, gpu, (100, 64)).threads == 8
    assert choose(columns(), dialect, gpu, (10_000, 64)).threads == 1
    assert choose(axpy(), dialect, gpu) == Schedule(Sweep.ELEMENT, 256, 4)
    b = Builder("atlas_long")
    x, lane = b.buffer("x", f32, Access.READ_WRITE), b.coordinate(0)
    v = b.load(x, lane)
    for _ in range(MOST_COPIED):
        v = v * v
    b.store(x, lane, v)
    # The function of one element stands in the machine code seven times where a thread takes four.
    assert choose(b.build(), dialect, gpu) == Schedule(Sweep.ELEMENT, 256)


# Results.


@pytest.mark.parametrize("dtype", [f32, i8, u16, f16, bf16, i64], ids=str)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 1021, 5000])
def test_maps_store_no_further_than_their_grid(dtype: DType, n: int, agrees: Run) -> None:
    agrees(axpy(dtype), [numbers(n + 3, dtype), numbers(n + 3, dtype)], (3,), (n,))


def test_maps_mix_dtypes_and_several_stores(agrees: Run) -> None:
    b = Builder("atlas_mixed", rank=2)
    x, h = b.buffer("x", u8, Access.READ), b.buffer("h", f16, Access.READ)
    y, z = b.buffer("y", bool_, Access.WRITE), b.buffer("z", f32, Access.WRITE)
    far = b.buffer("far", u16, Access.WRITE)
    lane = b.position(Opcode.LANE)
    v = b.load(x, lane)
    b.store(y, lane, v > 40)
    b.store(z, lane, b.load(h, lane).to(f32) + float("inf"))
    b.store(far, b.coordinate(0) + b.coordinate(1) * b.extent(0), v.to(u16))  # transposed, packed
    n = 7 * 9
    arrays = [
        numbers(n, i8).view(np.uint8),
        numbers(n, f16),
        np.ones(n, bool),
        numbers(n),
        np.zeros(n, np.uint16),
    ]
    agrees(b.build(), arrays, (), (7, 9))


def test_branches_loops_and_shared_memory(agrees: Run) -> None:
    b = Builder("atlas_structured", workgroup=64)
    x, y = b.buffer("x", f32, Access.READ), b.buffer("y", f32, Access.WRITE)
    tile = b.shared("tile", f32, 64)
    t, i = b.position(Opcode.THREAD), b.coordinate(0)
    b.shared_store(tile, t, b.load(x, i))
    b.barrier()
    # Fibonacci's recurrence: carried values that change places.
    p, q = b.loop(0, t % 8, lambda _, p, q: (q, p + q), first=(b.constant(0.0, f32), b.constant(1.0, f32)))
    (r,) = b.if_(b.load(x, i) > 0.0, lambda: (p,), lambda: (q,))
    b.store(y, i, r + b.shared_load(tile, b.constant(63, index) - t))
    agrees(b.build(), [numbers(128), np.zeros(128, np.float32)], (), (128,))


@pytest.mark.parametrize("grid", [(1, 1), (5, 7), (70, 33), (3, 64), (2, 5001), (600, 12)])
@pytest.mark.parametrize("dtype", [f32, f16], ids=str)
def test_rows(dtype: DType, grid: tuple[int, int], agrees: Run) -> None:
    stride = grid[1] + 3  # rows of which some are aligned and some are not
    x = (numbers(grid[0] * stride) / 8).astype(dtype.numpy)
    agrees(
        scaled_rows(dtype),
        [x, np.zeros_like(x)],
        (stride,),
        grid,
        rtol=2e-3 if dtype == f16 else 1e-5,
        atol=1e-3,
    )


@pytest.mark.parametrize("grid", [(1, 1, 1), (5, 7, 3), (300, 3, 64), (7, 12, 129)])
def test_rows_over_two_axes(grid: tuple[int, int, int], agrees: Run) -> None:
    x = np.random.default_rng(6).normal(size=grid).astype(np.float32).reshape(-1)
    agrees(least_places(), [x, np.zeros(grid[0], np.int64), np.zeros(grid[0], bool)], (), grid)


def test_columns(agrees: Run) -> None:
    agrees(columns(), [numbers(300 * 40), np.zeros(300, np.float32)], (), (300, 40), rtol=1e-6)


@pytest.mark.parametrize("threads", [1, 8, 64, 256])
def test_threads_that_share_a_row_agree(
    threads: int, webgpu: object, limits: Limits, agrees: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hologram.compiler.source import generator

    monkeypatch.setattr(generator, "choose", lambda *_: Schedule(Sweep.ROW, 256, 4, threads))
    for grid in ((3, 100), (9, 1030)):
        x = numbers(grid[0] * grid[1]) / np.float32(8)
        agrees(scaled_rows(), [x, np.zeros_like(x)], (grid[1],), grid, rtol=1e-5, atol=1e-3)
    grid = (5, 6, 70)
    x = np.random.default_rng(7).normal(size=grid).astype(np.float32).reshape(-1)
    agrees(least_places(), [x, np.zeros(5, np.int64), np.zeros(5, bool)], (), grid)


def test_every_dialect_option_compiles_the_same_program(limits: Limits) -> None:
    texts = {
        generate(lower(least_places(), d), d, limits).text
        for d in (wgsl(), wgsl(immediates=True), wgsl(read_write=True))
    }
    assert len(texts) == 3
