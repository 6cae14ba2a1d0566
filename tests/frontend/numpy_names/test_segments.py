"""Reductions by segment, slices that begin where tensors say, and `x.at[...]`, against NumPy, eager and traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hologram as hg

RNG = np.random.default_rng(5)
DATA = RNG.standard_normal((7, 3)).astype(np.float32)
IDS = np.array([2, 0, 2, -1, 4, 0, 9])


def folded(
    fold: Callable[..., Any], start: float, data: np.ndarray, ids: np.ndarray, count: int
) -> np.ndarray:
    made = np.full((count, *data.shape[1:]), start)
    for row, k in zip(data, ids, strict=True):
        if 0 <= k < count:
            made[k] = fold(made[k], row)
    return made


SEGMENTS: dict[str, tuple[Any, Callable[..., Any], float]] = {
    "sum": (hg.segment_sum, np.add, 0.0),
    "prod": (hg.segment_prod, np.multiply, 1.0),
    "max": (hg.segment_max, np.maximum, -np.inf),
    "min": (hg.segment_min, np.minimum, np.inf),
}


@pytest.mark.parametrize("name", SEGMENTS)
@pytest.mark.parametrize("data", [DATA, DATA[:, 0]], ids=["matrix", "vector"])
def test_segments(executor: hg.Executor, name: str, data: np.ndarray) -> None:
    function, fold, start = SEGMENTS[name]
    x, ids = executor.tensor(data), executor.tensor(IDS)
    for count in (5, 3):
        want = folded(fold, start, data.astype(np.float64), IDS, count)
        np.testing.assert_allclose(function(x, ids, count).to_numpy(), want, rtol=1e-5)
        traced = hg.jit(lambda x, ids, count=count: function(x, ids, count))(x, ids)
        np.testing.assert_allclose(traced.to_numpy(), want, rtol=1e-5)
    assert function(x, executor.tensor(np.abs(IDS))).shape[0] == 10
    nothing = function(x[:0], ids[:0], 2).to_numpy()
    np.testing.assert_array_equal(nothing, np.full((2, *data.shape[1:]), start, np.float32))


def test_segments_of_integers(executor: hg.Executor) -> None:
    x = executor.tensor(np.array([5, -3, 2], np.int32))
    ids = executor.tensor(np.array([0, 0, 2]))
    assert hg.segment_max(x, ids, 3).tolist() == [5, -(2**31), 2]
    assert hg.segment_min(x, ids, 3).tolist() == [-3, 2**31 - 1, 2]
    assert hg.segment_sum(x, ids, 3).dtype == hg.i32


def test_segment_mean_and_its_derivative(executor: hg.Executor) -> None:
    x, ids = executor.tensor(DATA), executor.tensor(IDS)
    got = hg.segment_mean(x, ids, 5).to_numpy()
    np.testing.assert_allclose(got[2], DATA[[0, 2]].mean(axis=0), rtol=1e-5)
    assert np.all(np.isnan(got[3]))
    gradient = hg.grad(lambda x: hg.sum(hg.segment_mean(x, ids, 3)[2]))(x).to_numpy()
    want = np.zeros((7, 3))
    want[[0, 2]] = 0.5
    np.testing.assert_allclose(gradient, want)


def test_segments_refuse(executor: hg.Executor) -> None:
    with pytest.raises(hg.ShapeError, match="segment_sum: an integer for each of the rows is needed"):
        hg.segment_sum(executor.tensor(DATA), executor.tensor(IDS[:3]))
    with pytest.raises(hg.ShapeError, match="segment_max: num_segments must be at least 0, got -1"):
        hg.segment_max(executor.tensor(DATA), executor.tensor(IDS), -1)
    none = hg.segment_sum(executor.tensor(DATA[:2]), executor.tensor(np.array([-3, -2])))
    assert none.shape == (0, *DATA.shape[1:])
    with pytest.raises(hg.TraceError):
        hg.jit(lambda x, ids: hg.segment_sum(x, ids))(executor.tensor(DATA), executor.tensor(IDS))


def test_scatter_mean(executor: hg.Executor) -> None:
    x, source = (
        executor.tensor(np.array([1.0, 2, 3], np.float32)),
        executor.tensor(np.array([5.0, 7, 9], np.float32)),
    )
    index = executor.tensor(np.array([0, 0, 2]))
    assert hg.scatter_mean(x, index, source, dim=0).tolist() == [pytest.approx(13 / 3), 2.0, 6.0]
    assert hg.scatter_mean(x, index, source, dim=0, include_self=False).tolist() == [6.0, 2.0, 9.0]


@pytest.mark.parametrize("starts", [(1, 2), (0, 0), (5, 9), (-2, -1), (3, 0)])
def test_dynamic_slices(executor: hg.Executor, starts: tuple[int, int]) -> None:
    array = RNG.standard_normal((4, 5)).astype(np.float32)
    x, patch = executor.tensor(array), executor.tensor(np.full((2, 3), 7, np.float32))
    begins = [
        min(max(s + n if s < 0 else s, 0), n - m) for s, n, m in zip(starts, (4, 5), (2, 3), strict=True)
    ]
    place = tuple(slice(b, b + m) for b, m in zip(begins, (2, 3), strict=True))
    changed = array.copy()
    changed[place] = 7
    given: list[Any] = [
        starts,
        executor.tensor(np.array(starts)),
        [executor.tensor(np.array(s)) for s in starts],
    ]
    for at in given:
        np.testing.assert_array_equal(hg.dynamic_slice(x, at, (2, 3)).to_numpy(), array[place])
        np.testing.assert_array_equal(hg.dynamic_update_slice(x, patch, at).to_numpy(), changed)
    traced = hg.jit(
        lambda x, patch, at: (hg.dynamic_slice(x, at, (2, 3)), hg.dynamic_update_slice(x, patch, at))
    )
    part, whole = traced(x, patch, given[1])
    np.testing.assert_array_equal(part.to_numpy(), array[place])
    np.testing.assert_array_equal(whole.to_numpy(), changed)
    with pytest.raises(hg.ShapeError, match="dynamic_slice: a start for each of 2 axes"):
        hg.dynamic_slice(x, starts, (2, 6))


FOLDS: dict[str, Any] = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "min": np.minimum, "max": np.maximum,
}  # fmt: skip
PLACES: dict[str, Any] = {
    "integer": 1,
    "slice": slice(0, 3, 2),
    "ellipsis": (..., 1),
    "repeated": np.array([0, 2, 0, 0]),
    "pairs": (np.array([0, 1, 1, 0]), np.array([3, 2, 2, 3])),
    "mixed": (slice(None), np.array([1, 1])),
    "mask": np.arange(12).reshape(3, 4) % 5 == 0,
    "nothing": np.zeros(0, np.int64),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", FOLDS)
def test_updates(executor: hg.Executor, name: str, place: str) -> None:
    array = RNG.standard_normal((3, 4)).astype(np.float32)
    index, fold = PLACES[place], FOLDS[name]
    values = RNG.standard_normal(array[index].shape).astype(np.float32)
    want = array.astype(np.float64)
    fold.at(want, index, values)
    x = executor.tensor(array)
    on_device = tuple(executor.tensor(i) if isinstance(i, np.ndarray) else i for i in index) if isinstance(
        index, tuple) else executor.tensor(index) if isinstance(index, np.ndarray) else index  # fmt: skip
    for at in (index, on_device):
        got = getattr(x.at[at], name)(executor.tensor(values))
        np.testing.assert_allclose(got.to_numpy(), want, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(x.to_numpy(), array)  # which is as it was
    got = getattr(x.at[index], name)(2.0)
    one = array.astype(np.float64)
    fold.at(one, index, 2.0)
    np.testing.assert_allclose(got.to_numpy(), one, rtol=1e-5)


@pytest.mark.parametrize("place", [p for p in PLACES if p not in ("mask", "nothing")])
def test_updates_traced_and_differentiated(executor: hg.Executor, place: str) -> None:
    array = RNG.standard_normal((3, 4)).astype(np.float32)
    index = PLACES[place]
    values = np.ones(array[index].shape, np.float32)
    x, v = executor.tensor(array), executor.tensor(values)
    want = array.copy()
    np.add.at(want, index, values)
    np.testing.assert_allclose(hg.jit(lambda x, v: x.at[index].add(v))(x, v).to_numpy(), want, rtol=1e-6)
    gradient = hg.grad(lambda v: hg.sum(x.at[index].add(v) * x))(v)
    np.testing.assert_allclose(gradient.to_numpy(), array[index], rtol=1e-6)


def test_set_get_apply(executor: hg.Executor) -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    x = executor.tensor(array)
    want = array.copy()
    want[[0, 2]] = 5
    np.testing.assert_array_equal(x.at[[0, 2]].set(5).to_numpy(), want)
    np.testing.assert_array_equal(x.at[1].get().to_numpy(), array[1])
    want = array.copy()
    want[:, 1] = array[:, 1] ** 2
    np.testing.assert_array_equal(x.at[:, 1].power(2).to_numpy(), want)
    np.testing.assert_array_equal(x.at[:, 1].apply(lambda t: t * t).to_numpy(), want)
    want[:, 1] = array[:, 1] / 4
    np.testing.assert_array_equal(x.at[:, 1].divide(4.0).to_numpy(), want)
    with pytest.raises(IndexError):
        x.at[hg.asarray([5], device=executor)].add(1.0)


def test_traced_updates_leave_out_what_is_out_of_range(executor: hg.Executor) -> None:
    x, index = executor.tensor(np.zeros(3, np.float32)), executor.tensor(np.array([1, 7, 1]))
    assert hg.jit(lambda x, i: x.at[i].add(1.0))(x, index).tolist() == [0.0, 2.0, 0.0]
