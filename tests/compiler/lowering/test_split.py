"""Splitting rows: the steps of a split compute what the program does, judged by the evaluator."""

from __future__ import annotations

import numpy as np
import pytest

from hologram.atlas.builder import Builder
from hologram.atlas.evaluate import evaluate
from hologram.atlas.functions import exp, reduce_add, reduce_max, reduce_min, select
from hologram.atlas.program import Access, Program
from hologram.compiler.scheduling.split import split_rows
from hologram.foundation.dtypes import DType, bool_, f16, f32, f64, i8, index, u32
from hologram.machine.limits import Limits
from hologram.machine.plan import Step


def softmax(dtype: DType) -> Program:
    b = Builder("atlas_softmax", rank=2, reduced=1)
    x, y = b.buffer("x", dtype, Access.READ), b.buffer("y", dtype, Access.WRITE)
    at = b.coordinate(0) * b.scalar("stride", index) + b.coordinate(1)
    v = b.load(x, at).to(f32)
    e = exp(v - reduce_max(v))
    b.store(y, at, (e / reduce_add(e)).to(dtype))
    return b.build()


def moments() -> Program:
    """Several reductions a phase, three axes, uniform stores, a bool and the row's extents."""
    b = Builder("atlas_moments", rank=3, reduced=2)
    x, y = b.buffer("x", f32, Access.READ), b.buffer("y", f32, Access.WRITE)
    some = b.buffer("some", bool_, Access.WRITE)
    i, j, k = (b.coordinate(axis) for axis in range(3))
    place = j * b.extent(2) + k
    v = b.load(x, i * b.extent(1) * b.extent(2) + place)
    mean = reduce_add(v) / (b.extent(1) * b.extent(2)).to(f32)
    least = reduce_min(v)
    b.store(y, i * 3, mean)
    b.store(y, i * 3 + 1, reduce_add((v - mean) * (v - mean)))
    b.store(y, i * 3 + 2, reduce_min(select(v == least, place.to(u32), 2**31)).to(f32))
    b.store(some, i, reduce_max(v > 2.5))
    return b.build()


def total(dtype: DType) -> Program:
    b = Builder("atlas_sum", rank=1, reduced=1)
    x, y = b.buffer("x", dtype, Access.READ), b.buffer("y", dtype, Access.WRITE)
    b.store(y, b.constant(0, index), reduce_add(b.load(x, b.coordinate(0))))
    return b.build()


def run_split(
    program: Program, arrays: list[np.ndarray], scalars: tuple, grid: tuple, limits: Limits, parts: int
) -> int:
    split = split_rows(Step(program, tuple(range(len(arrays))), scalars, grid), limits, parts)
    memory = [*arrays, *(np.zeros(s.size, s.dtype.numpy) for s in split.scratch)]
    for step in split.steps:
        kernel = step.kernel
        assert isinstance(kernel, Program)
        buffers = {b.name: memory[k] for b, k in zip(kernel.buffers, step.operands, strict=True)}
        evaluate(
            kernel, buffers, dict(zip((s.name for s in kernel.scalars), step.scalars, strict=True)), step.grid
        )
    return len(split.steps)


def compare(
    program: Program,
    arrays: list[np.ndarray],
    scalars: tuple,
    grid: tuple,
    limits: Limits,
    parts: int,
    rtol: float,
    atol: float = 0,
) -> int:
    whole = [a.copy() for a in arrays]
    evaluate(
        program,
        {b.name: a for b, a in zip(program.buffers, whole, strict=True)},
        dict(zip((s.name for s in program.scalars), scalars, strict=True)),
        grid,
    )
    steps = run_split(program, arrays, scalars, grid, limits, parts)
    for got, want in zip(arrays, whole, strict=True):
        np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=rtol, atol=atol)
    return steps


@pytest.mark.parametrize("parts", [1, 2, 7])
@pytest.mark.parametrize("dtype", [f32, f16])
def test_softmax(dtype: DType, parts: int, limits: Limits) -> None:
    x = np.random.default_rng(0).normal(size=3 * 1000).astype(dtype.numpy)
    compare(
        softmax(dtype),
        [x, np.zeros_like(x)],
        (1000,),
        (3, 1000),
        limits,
        parts,
        rtol=2e-3 if dtype == f16 else 2e-6,
    )


@pytest.mark.parametrize("grid", [(5, 3, 200), (2, 300, 4), (1, 1, 1)])
def test_several_reductions_over_several_axes(grid: tuple[int, int, int], limits: Limits) -> None:
    x = np.random.default_rng(1).normal(size=grid).astype(np.float32).reshape(-1)
    arrays = [x, np.zeros(3 * grid[0], np.float32), np.zeros(grid[0], bool)]
    compare(moments(), arrays, (), grid, limits, 4, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [f32, f64, i8])
def test_a_sum_takes_two_launches_where_the_row_comes_out_even(dtype: DType, limits: Limits) -> None:
    x = np.random.default_rng(2).integers(-100, 100, 4096).astype(dtype.numpy)
    assert compare(total(dtype), [x, np.zeros(1, dtype.numpy)], (), (4096,), limits, 8, rtol=0) == 2
