"""Calls that NumPy's users write and that once meant something else here: in place, broadcast, counted, typed."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.foundation import dtypes
from tests.needs import needs

RNG = np.random.default_rng(7)
NAN = float("nan")
NUMPY: Any = np
HOLOGRAM: Any = hg


def _equal(got: Any, wanted: Any, exact: bool = True) -> None:
    np.testing.assert_allclose(np.asarray(got), wanted, rtol=1e-6 * (not exact), atol=0)
    assert np.shape(got) == np.shape(wanted)


# In place.


@pytest.mark.parametrize("axis", [-1, 0])
def test_methods_that_sort_do_so_in_place(executor: hg.Executor, axis: int) -> None:
    a = RNG.normal(size=(4, 5)).astype(np.float32)
    whole = executor.tensor(a)
    view = whole[:, ::2]
    assert view.sort(axis) is None
    a[:, ::2].sort(axis)
    _equal(whole, a)
    assert whole.partition(2) is None
    _equal(np.sort(whole.to_numpy()), np.sort(a))
    _equal(whole[:, 2], np.partition(a, 2)[:, 2])
    _equal(whole.argpartition(1)[:, 1], np.argsort(whole.to_numpy())[:, 1])
    _equal(hg.jit(lambda x: (lambda y: (y.sort(), y)[1])(x + 0))(executor.tensor(a)), np.sort(a))
    with pytest.raises(hg.TraceError, match="an argument is written to"):
        hg.jit(lambda x: x.sort())(whole)
    with pytest.raises(TypeError, match="no fields"):
        whole.sort(0, "stable", "name")
    with pytest.raises(TypeError, match="sort: axis must be an integer in place"):
        whole.sort(None)  # type: ignore[arg-type]


def test_kinds_and_no_axis_by_place(executor: hg.Executor) -> None:
    a = RNG.normal(size=(4, 5)).astype(np.float32)
    x = executor.tensor(a)
    for kind in (None, "quicksort", "m", "heapsort", "stable"):
        _equal(hg.sort(x, 0, kind), np.sort(a, 0))
    _equal(hg.sort(x, None), np.sort(a, None))
    _equal(hg.argsort(x, None, "stable"), np.argsort(a, None))
    for sort in (hg.sort, hg.argsort, lambda x, axis, kind: x.sort(axis, kind)):
        for kind in (True, 5, "foo"):
            with pytest.raises(TypeError, match=r"sort: kind must be .*write descending=True"):
                sort(x, 0, kind)


def test_nan_to_num_in_place(executor: hg.Executor) -> None:
    a = np.array([NAN, 1.0, np.inf], np.float32)
    x = executor.tensor(a)
    assert hg.nan_to_num(x).tolist() != x.tolist()
    assert hg.nan_to_num(x, copy=False, nan=2.0) is x
    _equal(x, np.nan_to_num(a, nan=2.0))
    with hg.use_executor(executor):
        assert hg.nan_to_num(a, False) is a
    _equal(a, [0.0, 1.0, np.finfo(np.float32).max])


# Broadcast.


@pytest.mark.parametrize(
    ("shape", "positions", "axis"),
    [((4, 5, 3), (2, 1, 3), 0), ((4, 5, 3), (1, 2, 1), 1), ((1, 5), (3, 2), -1), ((4, 5), (7,), None),
     ((2, 3), (0, 3), 0)],
)  # fmt: skip
def test_positions_along_an_axis_are_broadcast(
    executor: hg.Executor, shape: tuple[int, ...], positions: tuple[int, ...], axis: int | None
) -> None:
    a = RNG.normal(size=shape).astype(np.float32)
    i = RNG.integers(0, a.size if axis is None else shape[axis], positions)
    x, at = executor.tensor(a), executor.tensor(i)
    wanted = np.take_along_axis(a, i, axis)
    _equal(hg.take_along_axis(x, at, axis=axis), wanted)
    _equal(NUMPY.take_along_axis(x, at, axis=axis), wanted)
    _equal(hg.jit(lambda x, at: hg.take_along_axis(x, at, axis=axis))(x, at), wanted)
    slope = hg.grad(lambda x: hg.sum(hg.take_along_axis(x, at, axis=axis)))(x)
    flat, places = np.zeros(a.size, np.float32), np.arange(a.size).reshape(shape)
    np.add.at(flat, np.take_along_axis(places, i, axis).reshape(-1), 1)
    _equal(slope, flat.reshape(shape))
    if shape[0] > 1:
        np.put_along_axis(a, i, 9.0, axis)
        hg.put_along_axis(x, at, 9.0, axis)
        _equal(x, a)
    with pytest.raises(hg.ShapeError, match="as many axes"):
        hg.take_along_axis(x, at[None, ..., None], axis=0)


# Sets, averages, powers.


def test_sets_that_are_unique_already_keep_their_order(executor: hg.Executor) -> None:
    a, b = np.array([3, 1, 2, 3]), np.array([1])
    _equal(hg.setdiff1d(executor.tensor(a), executor.tensor(b), True), np.setdiff1d(a, b, True))
    _equal(hg.setdiff1d(executor.tensor(a), executor.tensor(b)), np.setdiff1d(a, b))
    found = hg.intersect1d(
        executor.tensor(np.array([1, 2], np.int32)), executor.tensor(np.array([2.0], np.float32))
    )
    assert (found.dtype, found.tolist()) == (dtypes.f32, [2.0])


def test_averages_give_weights_as_floats(executor: hg.Executor) -> None:
    a = np.array([[1.0, np.inf], [NAN, 4.0]], np.float32)
    for keywords in ({}, {"axis": 0}, {"axis": 1, "weights": [1, 3]}, {"weights": [[1, 2], [3, 4]]}):
        got = HOLOGRAM.average(executor.tensor(a), returned=True, **keywords)
        wanted = NUMPY.average(a, returned=True, **keywords)
        for ours, theirs in zip(got, wanted, strict=True):
            _equal(ours, theirs, exact=False)
            assert ours.dtype is dtypes.f32


@pytest.mark.parametrize("kind", [np.float32, np.int16, np.complex64, np.float16])
def test_powers_and_interpolations_are_of_double_precision(executor: hg.Executor, kind: Any) -> None:
    a = np.array([2, 9, 3], kind)
    if dtypes.f64 not in executor.limits.dtypes:
        with pytest.raises(hg.UnsupportedDType, match=r"float_power: powers are .* hg\.pow"):
            hg.float_power(executor.tensor(a), 40)
        return
    for got, wanted in (
        (hg.float_power(executor.tensor(a), 40), np.float_power(a, 40)),
        (hg.float_power(executor.tensor(a), executor.tensor(a)), np.float_power(a, a)),
        (hg.float_power(2, executor.tensor(a)), np.float_power(2, a)),
    ):
        _equal(got, wanted, exact=False)
        assert got.dtype == wanted.dtype
    if kind is not np.complex64:
        x = np.linspace(-1, 4, 7).astype(np.float32)
        got = hg.interp(
            executor.tensor(x), executor.tensor(np.array([0, 1, 3], np.float32)), executor.tensor(a)
        )
        wanted = np.interp(x, np.array([0, 1, 3], np.float32), a)
        np.testing.assert_allclose(got.to_numpy(), wanted, rtol=1e-15)
        assert got.dtype == wanted.dtype
        assert hg.cov(executor.tensor(a)).dtype == np.cov(a).dtype
        counted = hg.bincount(executor.tensor(np.array([0, 1, 1])), weights=executor.tensor(a))
        assert counted.dtype == np.float64


@pytest.mark.parametrize("kind", [np.complex64, np.complex128])
def test_logarithms_of_complex_sums_are_principal(executor: hg.Executor, kind: Any) -> None:
    needs(executor, dtypes.dtype(kind))
    a, b = ((RNG.normal(size=50) * 3 + 1j * RNG.normal(size=50) * 30).astype(kind) for _ in range(2))
    got: Any = hg.logaddexp(executor.tensor(a), executor.tensor(b)).to_numpy()
    wide = np.exp(a.astype(np.complex128)) + np.exp(b.astype(np.complex128))
    np.testing.assert_allclose(got, np.log(wide), rtol=1e-4 if kind is np.complex64 else 1e-11, atol=1e-5)
    _equal(np.abs(got.imag) <= 3.1416, np.ones(50, bool))


# Every value counts.

AT: list[tuple[str, Callable[[Any], Any], Callable[[np.ndarray, Any], Any]]] = [
    ("power", lambda part: part.power(2), lambda a, i: np.power.at(a, i, 2)),
    ("divide", lambda part: part.divide(3.0), lambda a, i: np.divide.at(a, i, 3.0)),
    ("subtract", lambda part: part.subtract(3), lambda a, i: np.subtract.at(a, i, 3)),
    ("multiply", lambda part: part.multiply(2), lambda a, i: np.multiply.at(a, i, 2)),
    ("add", lambda part: part.add(2), lambda a, i: np.add.at(a, i, 2)),
    ("apply", lambda part: part.apply(lambda v: -v), lambda a, i: np.negative.at(a, i)),
]
INDICES: list[Any] = [
    [1, 1], [0, 2, 0, 0, 1], 2, slice(0, 2), ([0, 1, 0], [1, 1, 1]), (slice(None), [0, 2, 0]), [[0, 0], [1, 0]],
]  # fmt: skip


@pytest.mark.parametrize("index", INDICES, ids=str)
@pytest.mark.parametrize(("name", "ours", "numpys"), AT, ids=[name for name, *_ in AT])
def test_every_value_counts(executor: hg.Executor, name: str, ours: Any, numpys: Any, index: Any) -> None:
    a = np.array([[2.0, 3.0, -4.0], [1.0, 0.5, 6.0], [7.0, -8.0, 9.0]], np.float32)
    x, wanted = executor.tensor(a), a.copy()
    numpys(wanted, index)
    _equal(ours(x.at[index]), wanted, exact=False)
    _equal(hg.jit(lambda x: ours(x.at[index]))(x), wanted, exact=False)
    if isinstance(index, list):
        places = executor.tensor(np.array(index))
        _equal(ours(x.at[places]), wanted, exact=False)
        _equal(hg.jit(lambda x, i: ours(x.at[i]))(x, places), wanted, exact=False)
    _equal(x, a)


def test_values_of_their_own_and_slopes(executor: hg.Executor) -> None:
    a, v = np.array([2.0, 3.0], np.float32), np.array([2.0, 3.0, 0.5], np.float32)
    x, values = executor.tensor(a), executor.tensor(v)
    wanted = a.copy()
    np.power.at(wanted, [1, 1, 0], v)
    _equal(x.at[[1, 1, 0]].power(values), wanted, exact=False)
    slope = hg.grad(lambda x: x.at[[1, 1]].power(2.0).sum())(x)  # x0 + x1 ** 4
    _equal(slope, [1.0, 4 * 27.0], exact=False)
    small = executor.tensor(np.array([5, 6], np.uint8))
    assert small.at[[0, 0]].subtract(2).tolist() == [1, 6]


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "power"])
def test_every_complex_value_counts(executor: hg.Executor, name: str) -> None:
    a, v = np.array([1 + 2j, 3 - 1j, 2j], np.complex64), np.array([2j, 3, 1 + 1j], np.complex64)
    x, values, places = executor.tensor(a), executor.tensor(v), executor.tensor(np.array([0, 0, 2]))
    wanted = a.copy()
    getattr(np, name).at(wanted, [0, 0, 2], v)
    _equal(getattr(x.at[[0, 0, 2]], name)(v), wanted, exact=False)
    traced = hg.jit(lambda x, i, v: getattr(x.at[i], name)(v))(x, places, values)
    _equal(traced, wanted, exact=False)


# Dtypes.


def test_dtypes_equal_what_names_them() -> None:
    for dtype in dtypes.ALL:
        names: list[Any] = [dtype.name, dtype.numpy_name, dtype.numpy, dtype.numpy.type]
        for name in names:
            assert dtype == name
            assert name == dtype
            assert dtype in (np.datetime64, name)
        assert [d for d in dtypes.ALL if d == dtype.numpy.type] == [dtype]
        assert {dtype: 1}[dtypes.dtype(dtype.name)] == 1
        letter: Any = {"f8e4m3fn": "f", "f8e5m2": "f", "bf16": "f"}.get(dtype.name, dtype.numpy.kind)
        assert (dtype.kind, str(dtype.kind)) == (letter, letter)
        assert dtype.kind in letter + "x"
        assert letter == dtype.kind
        assert [k for k in ("float", "int", "uint", "bool", "complex") if k == dtype.kind] == [dtype.kind]
        assert [k for k in "fiubc" if dtype.kind != k] == [k for k in "fiubc" if k != letter]
        assert pickle.loads(pickle.dumps(dtype.kind)) == dtype.kind
    x = hg.zeros(3)
    assert x.dtype in (np.float32, np.float64)
    for other in (np.float64, "float64", "nothing", None, 3, object, float, [np.float32], x.tolist()):
        assert x.dtype != other
    assert (hg.bool, hg.i64, hg.f64) == (bool, int, float)


@pytest.mark.parametrize("kind", [np.bool_, np.int32, np.uint8, np.float32])
def test_initial_numbers_have_the_results_dtype(executor: hg.Executor, kind: Any) -> None:
    a = np.array([1, 0, 1], kind)
    for name in ("sum", "prod", "max", "min"):
        for initial in (3, 2.5, True):
            got = getattr(hg, name)(executor.tensor(a), initial=initial)
            wanted = getattr(np, name)(a, initial=initial)
            assert (got.item(), got.dtype) == (wanted, wanted.dtype), (name, initial)


@pytest.mark.parametrize("name", ["mean", "var", "std", "nanmean", "nanvar", "nanstd", "cov", "corrcoef"])
def test_dtypes_of_whole_numbers_are_refused_where_floats_come_out(executor: hg.Executor, name: str) -> None:
    x = executor.tensor(np.array([1.5, 2.5], np.float32))
    with pytest.raises(hg.UnsupportedDType, match="dtype must be one of floats"):
        getattr(hg, name)(x, dtype=np.int64)


def test_no_differences_join_nothing(executor: hg.Executor) -> None:
    a = np.array([1.0, 4.0], np.float32)
    _equal(hg.diff(executor.tensor(a), 0, prepend=1.0), np.diff(a, 0, prepend=1.0))


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "nancumsum"])
def test_running_sums_without_an_axis_are_flat(executor: hg.Executor, name: str) -> None:
    a = np.array([[1.0, 2.0], [3.0, 0.5]], np.float32)
    ours, numpys = getattr(hg, name), getattr(np, name)
    for keywords in ({}, {"axis": 0}, {"axis": -1}):
        _equal(ours(executor.tensor(a), **keywords), numpys(a, **keywords))
        _equal(
            hg.jit(lambda x, keywords=keywords: ours(x, **keywords))(executor.tensor(a)),
            numpys(a, **keywords),
        )
    with hg.use_executor(executor):
        _equal(ours(a.tolist()), numpys(a))
