"""Reductions in every form the schedule may choose: along rows, crosswise, split, and of every dtype."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from hologram.atlas import functions as atlas
from hologram.atlas.builder import Builder, Value
from hologram.atlas.program import Access, Program
from hologram.backends.cpu.kernel import ProgramKernel
from hologram.compiler.analysis.accesses import paths, references
from hologram.compiler.analysis.phases import may_store_early
from hologram.compiler.analysis.ranges import I64, Lanes
from hologram.compiler.scheduling.loops import facts, schedule
from hologram.foundation import dtypes
from hologram.foundation.dtypes import COMPUTED, DType
from hologram.machine.kernel import Binding
from tests.backends.cpu.llvm.launching import bind, device, place, reduction, run, samples


def form(
    program: Program, grid: tuple[int, ...], scalars: dict[str, int], elements: int, threads: int = 4
) -> str:
    """The form the schedule chooses."""
    buffers = [(1 << 20 << k, elements * b.dtype.itemsize, b) for k, b in enumerate(program.buffers)]
    lanes = Lanes.of(program, [scalars[s.name] for s in program.scalars], grid, I64)
    found = references(paths(program), lanes)
    return schedule(facts(program), found, lanes, grid, buffers, threads).variant.form


def test_forms() -> None:
    """What the other tests here rely on."""
    program = reduction(atlas.reduce_add, dtypes.f32)
    assert form(program, (300, 200), {"row": 200, "column": 1}, 60_000) == "row"
    assert form(program, (300, 200), {"row": 1, "column": 300}, 60_000) == "columns"
    assert form(program, (2, 1 << 20), {"row": 1 << 20, "column": 1}, 1 << 21) == "split"
    assert form(program, (2, 1 << 20), {"row": 1 << 20, "column": 1}, 1 << 21, threads=1) == "row"


@pytest.mark.parametrize("crosswise", [False, True], ids=["row", "columns"])
@pytest.mark.parametrize("dtype", COMPUTED, ids=str)
def test_dtypes(dtype: DType, crosswise: bool) -> None:
    shape = (37, 531)
    a = samples(dtype, shape[0] * shape[1]).reshape(shape)
    if dtype.is_float:
        a = np.where(np.isfinite(a.astype(np.float64)), a, 1).astype(dtype.numpy)
        a[3, 5] = np.nan
    stored = np.ascontiguousarray(a.T) if crosswise else a
    steps = (1, shape[0]) if crosswise else (shape[1], 1)
    for function, expected in (
        (atlas.reduce_add, np.sum),
        (atlas.reduce_min, np.min),
        (atlas.reduce_max, np.max),
    ):
        ours = run(
            device(), reduction(function, dtype), [stored, np.zeros(shape[0], dtype.numpy)], shape, steps
        )[1]
        if dtype.kind == "bool":
            reference = {np.sum: np.any, np.min: np.all, np.max: np.any}[expected](a, axis=1)
            np.testing.assert_array_equal(ours, reference)
        elif dtype.is_float:
            wanted = expected(a.astype(np.float64), axis=1).astype(dtype.numpy).astype(np.float64)
            scale = np.abs(a.astype(np.float64)).sum(1) if expected is np.sum else 0.0
            assert np.isnan(ours[3])
            error = np.abs(np.delete(ours.astype(np.float64) - wanted, 3))
            assert (
                error
                <= np.delete(np.broadcast_to(scale, 37), 3) * 2 ** {32: -22, 64: -50, 16: -8}[dtype.bits]
            ).all()
        else:
            wanted = (
                np.add.reduce(a, axis=1, dtype=dtype.numpy) if expected is np.sum else expected(a, axis=1)
            )
            np.testing.assert_array_equal(ours, wanted)


@pytest.mark.parametrize("size", [1, 2047, 2049, 65_537, 3_000_001])
def test_one_row(size: int) -> None:
    """A full reduction, on one thread or all, within a few ULP however long."""
    a = np.random.default_rng(size).random(size, np.float32)
    out = np.zeros(1, np.float32)
    ours = run(device(), reduction(atlas.reduce_add, dtypes.f32), [a, out], (1, size), (size, 1))[1][0]
    exact = a.astype(np.float64).sum()
    assert abs(ours - exact) <= 4 * np.spacing(np.float32(exact))
    ours = run(device(), reduction(atlas.reduce_max, dtypes.f32), [a, out], (1, size), (size, 1))[1][0]
    assert ours == a.max()


def test_product() -> None:
    a = np.random.default_rng(0).uniform(0.9, 1.1, (5, 1000))
    ours = run(device(), reduction(atlas.reduce_mul, dtypes.f64), [a, np.zeros(5)], (5, 1000), (1000, 1))[1]
    np.testing.assert_allclose(ours, a.prod(1), rtol=1e-13)


@pytest.mark.parametrize("crosswise", [False, True], ids=["row", "columns"])
@pytest.mark.parametrize(
    "function", [atlas.reduce_add, atlas.reduce_mul, atlas.reduce_max], ids=["add", "mul", "max"]
)
def test_empty_rows(function: Callable[[Value], Value], crosswise: bool) -> None:
    """A row without elements gives what changes nothing."""
    steps = (1, 40) if crosswise else (0, 1)
    ours = run(
        device(),
        reduction(function, dtypes.f32),
        [np.zeros(0, np.float32), np.full(40, 7, np.float32)],
        (40, 0),
        steps,
    )
    expected = {atlas.reduce_add: 0.0, atlas.reduce_mul: 1.0, atlas.reduce_max: -np.inf}[function]
    np.testing.assert_array_equal(ours[1], np.full(40, expected, np.float32))


def normalise(name: str = "atlas_normalise") -> Program:
    """`(x - max) / (sum |x| + 1)` along rows: three phases, with an element-wise end."""
    b = Builder(name, rank=2, reduced=1)
    x, out = b.buffer("x", dtypes.f32, Access.READ), b.buffer("out", dtypes.f32, Access.WRITE)
    row, column = b.scalar("row", dtypes.index), b.scalar("column", dtypes.index)
    at = b.coordinate(0) * row + b.coordinate(1) * column
    value = b.load(x, at)
    shifted = value - atlas.reduce_max(value)
    b.store(out, at, shifted / (atlas.reduce_add(atlas.absolute(shifted)) + 1.0))
    return b.build()


def normalised(a: np.ndarray) -> np.ndarray:
    shifted = a.astype(np.float64) - a.max(1, keepdims=True)
    return shifted / (np.abs(shifted).sum(1, keepdims=True) + 1)


@pytest.mark.parametrize(
    ("shape", "crosswise"), [((50, 333), False), ((50, 333), True), ((2, 200_000), False), ((3, 5), False)]
)
@pytest.mark.parametrize("in_place", [False, True])
def test_phases(shape: tuple[int, int], crosswise: bool, in_place: bool) -> None:
    a = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    steps = (1, shape[0]) if crosswise else (shape[1], 1)
    cpu = device()
    source = place(cpu, a.T if crosswise else a)
    target = source if in_place else place(cpu, np.zeros_like(a))
    bind(cpu, normalise(), [source, target], shape, steps)()
    ours = target.bytes[: a.nbytes].view(np.float32).reshape(shape[::-1] if crosswise else shape)
    np.testing.assert_allclose(ours.T if crosswise else ours, normalised(a), rtol=3e-6, atol=1e-9)


def test_two_reduced_axes() -> None:
    """A sum over axes 0 and 2 of three."""
    b = Builder("atlas_sum", rank=3, reduced=2)
    x, out = b.buffer("x", dtypes.f32, Access.READ), b.buffer("out", dtypes.f32, Access.WRITE)
    j, i, k = (b.coordinate(axis) for axis in range(3))
    b.store(out, j, atlas.reduce_add(b.load(x, (i * b.extent(0) + j) * b.extent(2) + k)))
    a = np.random.default_rng(0).random((7, 4, 9), np.float32)
    ours = run(device(), b.build(), [a, np.zeros(4, np.float32)], (4, 7, 9))[1]
    np.testing.assert_allclose(ours, a.sum((0, 2)), rtol=1e-6)


def test_uniform_load_of_written_memory() -> None:
    """A row that reads its own first element and writes in place is not torn apart."""
    b = Builder("atlas_shift", rank=2, reduced=1)
    x = b.buffer("x", dtypes.f32, Access.READ)
    out = b.buffer("out", dtypes.f32, Access.WRITE)
    first = b.load(x, b.coordinate(0) * b.extent(1))
    at = b.coordinate(0) * b.extent(1) + b.coordinate(1)
    value = b.load(x, at)
    b.store(out, at, value - first + atlas.reduce_max(value) * 0.0)
    a = np.random.default_rng(0).random((1, 300_000), np.float32) + 1
    cpu = device()
    memory = place(cpu, a)
    bind(cpu, b.build(), [memory, memory], a.shape)()
    np.testing.assert_array_equal(memory.bytes.view(np.float32)[: a.size], (a - a[0, 0])[0])


@pytest.mark.parametrize("shape", [(70, 300), (2, 300_000)], ids=["columns", "split"])
def test_sums_are_added_in_place(shape: tuple[int, int]) -> None:
    """What is written once a row may be what the row reads: it is swept as if it were not."""
    rows = shape[0]
    b = Builder("atlas_accumulate", rank=2, reduced=1)
    x = b.buffer("x", dtypes.f32, Access.READ)
    total, twice = (b.buffer(name, dtypes.f32, Access.READ_WRITE) for name in ("total", "twice"))
    row = b.coordinate(0)
    at = row + b.coordinate(1) * b.extent(0) if rows > 2 else row * b.extent(1) + b.coordinate(1)
    value, before = b.load(x, at), b.load(total, row)
    b.store(total, row, before * 0.5 + atlas.reduce_add(value))
    b.store(twice, row, before)
    a = np.random.default_rng(0).random(shape, np.float32)
    start = np.arange(rows, dtype=np.float32)
    program, cpu = b.build(), device()
    memories = [place(cpu, v) for v in (a.T if rows > 2 else a, start, start)]
    bound = [Binding(m, 0, m.nbytes) for m in memories]
    kernel = cpu.compile(program)
    assert ("columns" if rows > 2 else "split") in kernel.schedule(
        [(m.address, m.nbytes) for m in memories], (), shape
    )
    kernel.bind(bound, (), shape)()
    found = memories[1].bytes[: start.nbytes].view(np.float32)
    np.testing.assert_allclose(found, start * 0.5 + a.sum(1, dtype=np.float64), rtol=1e-6)
    np.testing.assert_array_equal(memories[2].bytes[: start.nbytes].view(np.float32), start)


@pytest.mark.parametrize("shape", [(70, 300), (9, 300), (1, 5)], ids=["columns", "row", "one"])
@pytest.mark.parametrize("in_place", [False, True])
def test_what_is_summed_is_stored_in_the_same_sweep(shape: tuple[int, int], in_place: bool) -> None:
    """But for memory that is read: then elements are stored once all of the row was."""
    rows = shape[0]
    b = Builder("atlas_doubled_and_summed", rank=2, reduced=1)
    x = b.buffer("x", dtypes.f32, Access.READ)
    doubled, total = (b.buffer(name, dtypes.f32, Access.WRITE) for name in ("doubled", "total"))
    row = b.coordinate(0)
    at = row + b.coordinate(1) * b.extent(0) if rows > 9 else row * b.extent(1) + b.coordinate(1)
    value = b.load(x, at) * 2.0
    b.store(doubled, at, value)
    b.store(total, row, atlas.reduce_add(value))
    a = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    program, cpu = b.build(), device()
    first = place(cpu, a.T if rows > 9 else a)
    second = first if in_place else place(cpu, np.full_like(a, np.nan))
    memories = [first, second, place(cpu, np.full(rows, np.nan, np.float32))]
    bound = [Binding(m, 0, m.nbytes) for m in memories]
    spans = [(m.address, m.nbytes) for m in memories]
    kernel = cpu.compile(program)
    assert isinstance(kernel, ProgramKernel)
    assert kernel.scheduled(spans, (), shape).variant.early is not in_place
    kernel.bind(bound, (), shape)()
    found = second.bytes[: a.nbytes].view(np.float32)
    np.testing.assert_array_equal(found, (a.T if rows > 9 else a).reshape(-1) * 2)
    sums = memories[2].bytes[: rows * 4].view(np.float32)
    np.testing.assert_allclose(sums, a.sum(1, dtype=np.float64) * 2, rtol=1e-5, atol=1e-5)


def test_what_is_read_after_a_sum_is_stored_late() -> None:
    assert not may_store_early(normalise())  # needs its sums before it has anything to store
    b = Builder("atlas_two_sums", rank=2, reduced=1)
    x, out = b.buffer("x", dtypes.f32, Access.READ), b.buffer("out", dtypes.f32, Access.WRITE)
    total = b.buffer("total", dtypes.f32, Access.WRITE)
    at = b.coordinate(0) * b.extent(1) + b.coordinate(1)
    value = b.load(x, at)
    b.store(out, at, value * 2.0)
    spread = value - atlas.reduce_add(value)
    b.store(total, b.coordinate(0), atlas.reduce_add(spread * spread))
    assert not may_store_early(b.build())  # the second sum reads x again
