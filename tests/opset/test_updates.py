"""Updates of few places by many: shared out over all lanes without atomics, however often a place repeats."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.atlas.evaluate import evaluate
from hologram.atlas.program import Program
from hologram.foundation import dtypes
from hologram.foundation.dtypes import NUMBERS, DType
from hologram.machine.layout import Layout
from hologram.machine.plan import Plan, Target
from hologram.opset.indexing import scatter_add
from hologram.opset.scattering import FOLDS, scatter_reduce
from hologram.opset.tiles import updates
from tests.devices import limits
from tests.needs import needs

MANY = 70_000  # more than a software adapter's thread may take loop turns for, one an update
WAYS = {"add": np.add, **FOLDS}


def exact(dtype: DType) -> DType:
    """A dtype of NumPy's own that holds the sums: bf16 and f16 are compared as f32."""
    return dtypes.f32 if dtype.is_float and dtype.bits < 32 else dtype


def numbers(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...], way: str) -> np.ndarray:
    """Such that sums and products of any grouping are exact, integers' by wrapping."""
    low, high = {"prod": (1, 2), "add": (0, 3)}.get(way, (1, 100))
    found: np.ndarray = rng.integers(low, high + 1, shape)
    if way == "prod":
        found = np.where(rng.random(shape) < 8 / prod(shape), 2, 1)
    return found.astype(exact(dtype).numpy)


def expected(x: np.ndarray, index: np.ndarray, source: np.ndarray, dim: int, way: str) -> np.ndarray:
    out: np.ndarray = np.array(x)
    places: list[Any] = [*np.indices(index.shape)]
    size = x.shape[dim]
    wrapped: np.ndarray = np.where(index < 0, index + size, index)
    inside = (wrapped >= 0) & (wrapped < size)
    places[dim] = wrapped
    WAYS[way].at(out, tuple(p[inside] for p in places), source[inside])
    return out


def combined(executor: hg.Executor, x, index, source, dim: int, way: str, dtype: DType) -> np.ndarray:
    given, updates_ = (executor.tensor(a).astype(dtype) for a in (x, source))
    positions = executor.tensor(index)
    if way == "add":
        out = scatter_add(given, positions, updates_, dim=dim)
    else:
        out = scatter_reduce(given, positions, updates_, dim=dim, reduce=way)
    assert out.dtype == dtype
    return out.astype(exact(dtype)).to_numpy()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", NUMBERS, ids=repr)
def test_one_place_many_times(executor, dtype, way):
    needs(executor, dtype)
    rng = np.random.default_rng(1)
    x, source = numbers(rng, dtype, (2,), way), numbers(rng, dtype, (MANY,), way)
    if dtype.bits == 16 and dtype.is_float and way == "add":
        source[rng.random(MANY) > 100 / MANY] = 0  # the sum stays exact
    if way in ("min", "max"):
        source[-1] = {"min": 0, "max": 101}[way]  # which nobody may miss
    index = np.ones(MANY, np.int32)
    np.testing.assert_array_equal(
        combined(executor, x, index, source, 0, way, dtype), expected(x, index, source, 0, way)
    )


@pytest.mark.parametrize("way", ["add", "max"])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_places_along_each_axis(executor, dim, way):
    rng = np.random.default_rng(2)
    shape, picked = [5, 4, 6], [3, 2, 3]
    picked[dim] = 25_000
    x, source = numbers(rng, dtypes.i64, tuple(shape), way), numbers(rng, dtypes.i64, tuple(picked), way)
    index = rng.integers(-shape[dim] - 2, shape[dim] + 2, picked)  # from the end, and outside
    axis = dim % 3
    np.testing.assert_array_equal(
        combined(executor, x, index, source, dim, way, dtypes.i64), expected(x, index, source, axis, way)
    )


def test_a_nan_reaches_its_place_and_no_other(executor):
    source = np.zeros(MANY, np.float32)
    source[[MANY // 2, MANY - 1]] = np.nan, np.inf
    index = np.arange(MANY) % 3
    for way in WAYS:
        with np.errstate(invalid="ignore"):
            want = expected(np.ones(4, np.float32), index, source, 0, way)
        got = combined(executor, np.ones(4, np.float32), index, source, 0, way, dtypes.f32)
        np.testing.assert_array_equal(got, want)


def test_the_derivative_of_take_adds_up_every_use(executor):
    index = executor.tensor(np.zeros(MANY, np.int64))
    x = executor.tensor(np.arange(3, dtype=np.float32))
    slope = hg.grad(lambda x: hg.sum(hg.index_select(x, index, axis=0)))(x)
    np.testing.assert_array_equal(slope.to_numpy(), [MANY, 0, 0])


# The rounds themselves, on the definition of Atlas.


def run(plan: Plan, *operands: np.ndarray) -> None:
    memory = [*operands, *(np.zeros(s.size, s.dtype.numpy) for s in plan.scratch)]
    for step in plan.steps:
        program = step.kernel
        assert isinstance(program, Program)
        bound = {b.name: memory[k] for b, k in zip(program.buffers, step.operands, strict=True)}
        evaluate(
            program, bound, dict(zip((s.name for s in program.scalars), step.scalars, strict=True)), step.grid
        )


GPU = limits(software=False, shared_bytes=0)  # no merge sort, which is no program


@pytest.mark.parametrize("n", [65, 128, 129, 5000])
@pytest.mark.parametrize("places", [1, 3, 200])
def test_rounds(n, places):
    rng = np.random.default_rng(n + places)
    for way in ("add", "max"):
        x, source = numbers(rng, dtypes.i64, (places,), way), numbers(rng, dtypes.i64, (n,), way)
        index = rng.integers(-places, places + 1, n)
        if places == 3:
            index[index < 2] = 0
        operation, rest = (scatter_add, {}) if way == "add" else (scatter_reduce, {"reduce": way})
        layouts = tuple(
            Layout.contiguous(d, a.shape)
            for d, a in ((dtypes.i64, x), (dtypes.i64, index), (dtypes.i64, source))
        )
        plan = operation.plan(layouts, layouts[:1], {"dim": 0, **rest}, Target(GPU))
        assert len(plan.steps) > 3, "not by one lane"
        out = np.empty_like(x)
        run(plan, x, index, source, out)
        np.testing.assert_array_equal(out, expected(x, index, source, 0, way))


def test_a_lane_takes_its_updates_in_turn_where_that_is_less_work():
    def in_turn(shape: tuple[int, ...], **changes) -> bool:
        return updates.takes_turns(Layout.contiguous(dtypes.i32, shape), 0, limits(**changes))

    assert in_turn((64,), software=False)
    assert not in_turn((65,), software=False)
    assert in_turn((8192, 4096), software=False)
    assert not in_turn((8193, 4096), software=False)
    assert in_turn((8192,))
    assert not in_turn((8193,))
    assert in_turn((10**6,), serial_workgroups=True)


@pytest.mark.parametrize("way", WAYS)
def test_a_cpu_takes_the_updates_of_one_lane_in_parts(way, monkeypatch):
    """As many as the shapes say, so the bits are the same on any number of threads."""
    monkeypatch.setattr(updates, "LEAST_OF_A_PART", 8192)
    rng = np.random.default_rng(3)
    index, x = rng.integers(-3, 5, 20_001), numbers(rng, dtypes.i64, (3,), way)
    source = numbers(rng, dtypes.i64, index.shape, way)
    operation, rest = (scatter_add, {}) if way == "add" else (scatter_reduce, {"reduce": way})
    layouts = tuple(Layout.contiguous(dtypes.i64, a.shape) for a in (x, index, source))
    plans = [
        operation.plan(
            layouts, layouts[:1], {"dim": 0, **rest}, Target(limits(serial_workgroups=True, parallelism=k))
        )
        for k in (1, 2, 64)
    ]
    assert plans[0] == plans[1] == plans[2]
    assert max(step.grid[0] for step in plans[0].steps if step.kernel.name.startswith("atlas_scatter")) == 2
    out = np.empty_like(x)
    run(plans[0], x, index, source, out)
    np.testing.assert_array_equal(out, expected(x, index, source, 0, way))


def test_sums_in_parts_keep_the_sign_of_zero_and_values_beside_gaps(executor):
    index = np.zeros((40_000, 2), np.int64)
    source = np.full((2, 40_000), 2, np.float32).T  # the other way round in memory
    x = np.array([[-0.0, 5.0, 7.0], [-0.0, 2.0, 3.0]], np.float32)
    got = combined(executor, x, index, source, 0, "add", dtypes.f32)
    np.testing.assert_array_equal(got, [[80_000, 80_005, 7], [0, 2, 3]])
    assert np.signbit(got[1, 0])
