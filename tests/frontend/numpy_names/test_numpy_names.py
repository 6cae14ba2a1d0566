"""Functions under NumPy's names against NumPy's own in double precision, on every backend, eager, traced and by np."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.foundation.dtypes import ALL

pytestmark = pytest.mark.sampled(3)

RNG = np.random.default_rng(3)
X = RNG.standard_normal((4, 5)).astype(np.float32)
V = RNG.standard_normal(7).astype(np.float32)
CUBE = RNG.standard_normal((2, 3, 4)).astype(np.float32)
HOLES = np.where(RNG.random((4, 5)) < 0.3, np.nan, X).astype(np.float32)
EDGES = np.array([[math.inf, 1, np.nan], [-math.inf, np.nan, 2]], np.float32)
NONE = np.full((2, 3), np.nan, np.float32)
EMPTY = np.zeros((0, 3), np.float32)
ONE = np.array([2.5], np.float32)
I = RNG.integers(-9, 9, (3, 4)).astype(np.int32)
RISING = np.array([0.0, 1.0, 2.5, 4.0], np.float32)
FALLING = RISING[::-1].copy()
MODES = ("full", "same", "valid")
NAN_FOLDS = ("nansum", "nanprod", "nanmax", "nanmin", "nanmean", "nanvar", "nanstd", "nanmedian")
METHODS = (
    "linear", "lower", "higher", "midpoint", "nearest", "hazen", "weibull", "median_unbiased", "normal_unbiased",
    "interpolated_inverted_cdf",
)  # fmt: skip

Z = (X + 1j * X[::-1]).astype(np.complex64)
W = (V + 1j * V[::-1]).astype(np.complex64)
ZHOLES = np.where(np.isnan(HOLES), np.complex64(complex(np.nan, 1)), Z)
ZEDGES = np.array([complex(math.inf, np.nan), complex(1, -math.inf), 2 - 3j], np.complex64)
LONG = np.where(np.arange(70_001) % 7, np.arange(70_001) / 70_000, np.nan).astype(np.float16)
STEEP = np.array([0, math.inf, 2, 2], np.float32)

Case = tuple[str, tuple[Any, ...], dict[str, Any]]


def case(name: str, *args: Any, **kwargs: Any) -> Case:
    return name, args, kwargs


CASES: list[Case] = [
    *(case("median", x, axis) for x, axis in ((X, None), (X, 0), (X, 1), (CUBE, (0, 2)), (HOLES, 1), (I, 0))),
    case("median", ONE),
    case("median", X, 1, keepdims=True),
    *(case("quantile", X, q, 1) for q in (0.0, 0.3, 0.5, 1.0)),
    *(case("quantile", X, 0.3, axis, method=m) for m in METHODS for axis in (None, 0)),
    case("quantile", X, np.array([[0.1, 0.5], [0.9, 1.0]]), 0),
    case("quantile", CUBE, np.array([0.25]), (0, 2), keepdims=True),
    case("percentile", X, 37.5),
    case("percentile", X, np.array([5.0, 50.0]), -1),
    case("nanquantile", HOLES, 0.3, 1),
    case("nanquantile", HOLES, np.array([0.1, 0.7])),
    case("nanpercentile", HOLES, 40.0, 0, keepdims=True),
    *(case(n, x, axis) for n in NAN_FOLDS for x, axis in ((HOLES, None), (HOLES, 0), (HOLES, 1), (X, (0, 1)))),
    *(case(n, EDGES, 1) for n in ("nansum", "nanmax", "nanmin", "nanmean")),
    *(case(n, NONE, 1) for n in ("nansum", "nanprod", "nanmax", "nanmin", "nanmean", "nanvar", "nanmedian")),
    *(case(n, HOLES, 1, keepdims=True) for n in NAN_FOLDS),
    *(case(n, I, 0) for n in ("nansum", "nanprod", "nanmax", "nanmin")),
    case("nanvar", HOLES, 1, ddof=1), case("nanstd", HOLES, None, ddof=2),
    *(case(n, HOLES, axis) for n in ("nanargmax", "nanargmin") for axis in (None, 0)),
    *(case(n, HOLES, axis) for n in ("nancumsum", "nancumprod") for axis in (None, 0, 1)),
    case("nan_to_num", HOLES), case("nan_to_num", EDGES, nan=7.0, posinf=1.0, neginf=-1.0), case("nan_to_num", I),
    case("average", X), case("average", X, 1, np.arange(1.0, 6, dtype=np.float32)), case("average", X, 0, np.abs(X)),
    case("quantile", X, np.zeros(0), 1), case("nanquantile", X, np.zeros(0), 0, keepdims=True),
    case("nanquantile", LONG, 0.25), case("nanmedian", LONG),
    *(case(n, ZHOLES, a) for n in ("nansum", "nanprod", "nanmean", "nanvar") for a in (0, 1)),
    *(case(n, ZHOLES, a) for n in ("nancumsum", "nancumprod") for a in (0, 1)),
    case("nanstd", ZHOLES, None, ddof=1), case("nan_to_num", ZHOLES),
    case("nan_to_num", ZEDGES, nan=7.0, posinf=1.0, neginf=-1.0),
    case("vdot", Z, Z[::-1].copy()), case("vdot", X, Z), case("inner", Z, Z),
    *(case("correlate", a, b, m) for a, b in ((W, W[:3]), (W[:2], W), (V, W[:4]), (W, V[:2])) for m in MODES),
    case("convolve", W, W[:3]), case("convolve", np.float32(2.0), V),
    case("isclose", Z, Z + 1e-6j), case("isclose", ZHOLES, ZHOLES, equal_nan=True), case("isclose", ZEDGES, ZEDGES),
    *(case(n, Z, rowvar=r) for n in ("cov", "corrcoef") for r in (True, False)),
    case("cov", Z, aweights=np.array([0.5, 2, 1, 3, 1], np.float32)), case("cov", X[:1], rowvar=False, ddof=0),
    case("gradient", Z, axis=1), case("gradient", W, RNG.random(7).cumsum(), edge_order=2),
    case("trapezoid", Z, axis=0), case("trapezoid", W, RNG.random(7).cumsum()),
    case("interp", X, RISING, Z[0, :4].copy()), case("interp", np.array([0, 0.5, 1, 2, 3], np.float32), RISING, STEEP),
    case("histogram", X.astype(np.float16), np.array([0.1, 0.1001, 1.0])),
    case("average", Z, np.int64(1), np.arange(1.0, 6, dtype=np.float32)),
    case("ptp", X), case("ptp", X, 1),
    case("cov", X), case("cov", X, rowvar=False), case("cov", V), case("cov", X, X[::-1].copy()),
    case("cov", X, bias=True),
    case("cov", X, ddof=0), case("cov", X, fweights=np.array([1, 2, 1, 3, 1])),
    case("cov", X, aweights=np.array([0.5, 2, 1, 3, 1], np.float32)),
    case("cov", X, fweights=np.array([1, 2, 1, 3, 1]), aweights=np.array([0.5, 2, 1, 3, 1], np.float32)),
    case("corrcoef", X), case("corrcoef", X, rowvar=False), case("corrcoef", V), case("corrcoef", V, V[::-1].copy()),
    *(case("histogram", V, b) for b in (1, 4, 10)), case("histogram", V, 5, (-1.0, 1.0)),
    case("histogram", X, RISING),
    case("histogram", V, 4, density=True), case("histogram", V, 4, weights=np.arange(7, dtype=np.float32)),
    case("histogram", EMPTY, 3), case("histogram", np.ones(4, np.float32), 3), case("histogram", I, 5),
    case("bincount", np.array([0, 3, 3, 1])), case("bincount", np.array([2, 1]), minlength=6),
    case("bincount", np.array([0, 2, 2]), np.array([0.5, 1, 2], np.float32)), case("bincount", np.zeros(0, np.int64)),
    *(case("digitize", x, b, right) for x in (X, RISING) for b in (RISING, FALLING) for right in (False, True)),
    case("interp", X, RISING, RISING**2), case("interp", RISING, RISING, -RISING),
    case("interp", X, RISING, RISING**2, -5.0, 9.0), case("interp", X, RISING, RISING**2, period=3.0),
    case("interp", np.array([np.nan, 0.5], np.float32), RISING, RISING), case("interp", X, ONE, ONE),
    *(case("convolve", a, b, m) for a, b in ((V, V[:3]), (V[:2], V), (V, V[:4]), (ONE, V)) for m in MODES),
    *(case("correlate", a, b, m) for a, b in ((V, V[:3]), (V[:2], V), (V, V[:4]), (V[:3], V)) for m in MODES),
    case("convolve", I[0], I[1]), case("correlate", I[0], I[1][:3], "same"),
    case("gradient", V), case("gradient", X), case("gradient", X, axis=1), case("gradient", V, 0.5),
    case("gradient", V, edge_order=2), case("gradient", RISING, RISING**2 + RISING),
    case("gradient", X, 2.0, np.arange(5.0, dtype=np.float32) ** 2),
    case("gradient", V, np.cumsum(np.arange(1.0, 8, dtype=np.float32)), edge_order=2), case("gradient", X, axis=(0,)),
    case("trapezoid", X), case("trapezoid", X, dx=0.5, axis=0), case("trapezoid", X, RISING, axis=0),
    case("trapezoid", X, np.cumsum(np.abs(X), 1)),
    case("trapezoid", EMPTY, axis=0), case("ediff1d", V), case("ediff1d", X, 9.0, np.array([1.0, 2.0], np.float32)),
    case("kron", X[:2, :2], X), case("kron", V[:2], X), case("kron", CUBE, X[:1, :2]),
    case("diag", V), case("diag", V, 2), case("diag", V, -1), case("diag", X), case("diag", X, 1),
    case("diag", X, -2),
    case("diag", np.zeros(0, np.float32)), case("diagflat", X, 1), case("diagonal", CUBE),
    case("diagonal", CUBE, 1, 2, 0),
    case("trace", CUBE), case("trace", X, 1), case("trace", I, dtype=np.int64), case("cross", X[:, :3], X[0, :3]),
    case("outer", X, V), case("inner", X, X), case("dot", X, X.T.copy()), case("dot", CUBE, V[:4]),
    case("dot", V, 2.0),
    case("dot", CUBE, RNG.standard_normal((5, 4, 2)).astype(np.float32)), case("vdot", X, X.T.copy()),
    *(case("pad", X, 2, m) for m in ("constant", "edge", "reflect", "symmetric", "wrap")),
    case("pad", np.float32(3.0), 2),
    case("pad", X, ((1, 0), (0, 9)), "reflect"), case("pad", X, (3, 1), "constant", constant_values=2.0),
    case("argwhere", I), case("argwhere", np.float32(3.0)), case("flatnonzero", I), case("argwhere", EMPTY),
    case("unique", I), case("unique", I, True, True, True), case("unique", HOLES, return_counts=True),
    case("unique", HOLES, return_counts=True, equal_nan=False), case("unique", np.zeros((0, 2), np.int64)),
    case("unique", np.array([[1, 2], [0, 5], [1, 2]]), axis=0),
    case("unique", np.array([[1, 2, 1], [0, 5, 0]]), True, True, True, 1),
    case("union1d", I[0], I[1]), case("intersect1d", I, I[0]), case("setdiff1d", I, I[0]),
    case("concatenate", [X, X]), case("concatenate", [X, X], axis=1), case("power", np.abs(X), 1.5),
    case("arctan2", X, X + 1),
    case("absolute", X), case("mod", X, 0.75), case("true_divide", X, 3.0), case("transpose", CUBE),
    case("invert", I),
    case("round", X, 2), case("round", X, -1), case("around", X, decimals=1), case("round", V), case("fix", X),
    case("rint", X),
    case("var", X, axis=1, ddof=1), case("std", X, ddof=2), case("ravel", X.T), case("swapaxes", CUBE, 0, 2),
    case("atleast_1d", np.float32(3)), case("atleast_2d", V), case("atleast_3d", V), case("atleast_3d", X),
    case("hstack", [V, V]), case("hstack", [X, X]), case("vstack", [V, V]), case("dstack", [X, X]),
    case("column_stack", [V, V]),
    case("split", V[:6], 3), case("split", X, [1, 3], 1), case("array_split", V, 3), case("hsplit", X, 5),
    case("vsplit", X, 2),
    case("fliplr", X), case("flipud", X), *(case("rot90", CUBE, k, (0, 2)) for k in range(-1, 4)),
    case("isclose", X, X + 1e-6), case("isclose", EDGES, EDGES), case("isclose", EDGES, EDGES, equal_nan=True),
    case("deg2rad", X), case("rad2deg", X), case("divmod", X, 0.75), case("identity", 3), case("tri", 3, 4, 1),
    case("tri", 3),
    case("logspace", 0.0, 2.0, 5), case("geomspace", 1.0, 64.0, 7), case("geomspace", -1.0, -8.0, 4),
    case("histogram_bin_edges", V, 3),
]  # fmt: skip
WAITING = {
    "bincount", "argwhere", "flatnonzero", "unique", "union1d", "intersect1d", "setdiff1d", "histogram",
    "histogram_bin_edges",
}  # fmt: skip
MADE = {"identity", "tri", "logspace", "geomspace"}  # of numbers alone


def wide(x: Any) -> Any:
    if isinstance(x, list):
        return [wide(y) for y in x]
    doubles = {"e": np.float64, "f": np.float64, "F": np.complex128}
    return x.astype(doubles.get(x.dtype.char, x.dtype)) if isinstance(x, (np.ndarray, np.generic)) else x


def held(executor: hg.Executor, x: Any, first: bool) -> Any:
    """The first argument as a tensor; of the others what users write: arrays, and numbers."""
    if isinstance(x, list) and all(isinstance(y, np.ndarray) for y in x):
        return [executor.tensor(y) for y in x]
    return executor.tensor(x) if first and isinstance(x, (np.ndarray, np.generic)) else x


def flat(found: Any) -> list[Any]:
    return list(found) if isinstance(found, (tuple, list)) else [found]


def agree(found: Any, wanted: Any, name: str) -> None:
    ours, theirs = flat(found), flat(wanted)
    assert len(ours) == len(theirs)
    for got, want in zip(ours, theirs, strict=True):
        want = np.asarray(want)
        assert isinstance(got, hg.Tensor)
        assert got.shape == want.shape, (got.shape, want.shape)
        if want.dtype.kind == "b":
            assert got.dtype == hg.bool_
        elif want.dtype.kind in "iu":
            assert got.dtype.is_integer
        assert got.dtype.is_complex == (want.dtype.kind == "c")
        if got.dtype.is_complex:
            got, want = hg.view_as_real(got), np.stack([np.real(want), np.imag(want)], -1)
        np.testing.assert_allclose(
            got.to_numpy().astype(np.float64), want.astype(np.float64), rtol=3e-5, atol=3e-5
        )


def ids(each: Case) -> str:
    return each[0]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("each", CASES, ids=ids)
def test_as_numpy(executor: hg.Executor, each: Case) -> None:
    name, args, kwargs = each
    with np.errstate(all="ignore"):
        wanted = getattr(np, name)(*map(wide, args), **{n: wide(x) for n, x in kwargs.items()})
    given = [held(executor, x, k == 0) for k, x in enumerate(args)]
    with hg.use_executor(executor):
        found = getattr(hg, name)(*given, **kwargs) if name != "pad" else np.pad(*given, **kwargs)
    agree(found, wanted, name)
    assert all(t.executor is executor for t in flat(found))
    if name not in MADE and any(isinstance(x, (hg.Tensor, list)) for x in given):
        agree(getattr(np, name)(*given, **kwargs), wanted, name)  # NumPy's own name, of a tensor


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("each", [c for c in CASES if c[0] not in (*WAITING, *MADE, "pad")], ids=ids)
def test_traced(each: Case) -> None:
    name, args, kwargs = each
    with hg.Executor("cpu") as executor:
        given = [held(executor, x, k == 0) for k, x in enumerate(args)]
        function: Callable[..., Any] = getattr(hg, name)
        eager = function(*given, **kwargs)
        traced = hg.jit(lambda first: function(first, *given[1:], **kwargs))(given[0])
        for got, want in zip(flat(traced), flat(eager), strict=True):
            np.testing.assert_allclose(got.to_numpy(), want.to_numpy(), rtol=2e-6, atol=1e-6)


def test_waiting_functions_refuse_a_trace(executor: hg.Executor) -> None:
    x = executor.tensor(I[0] + 9)
    for function in (hg.flatnonzero, hg.unique, hg.bincount):
        with pytest.raises(hg.TraceError):
            hg.jit(lambda x, f=function: f(x))(x)
    counted = hg.jit(lambda x: hg.bincount(x, length=20))(x)
    np.testing.assert_array_equal(counted.to_numpy(), np.bincount(I[0] + 9, minlength=20))
    values = executor.tensor(V)
    counts, _ = hg.jit(lambda x: hg.histogram(x, 4, range=(-2.0, 2.0)))(values)
    np.testing.assert_array_equal(counts.to_numpy(), np.histogram(V, 4, (-2.0, 2.0))[0])


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda t: hg.quantile(t(3), 1.5), r"quantile: shares must lie in \[0, 1\]"),
        (lambda t: hg.percentile(t(3), 101), r"percentile: shares must lie in \[0, 100\]"),
        (lambda t: hg.quantile(t(3), 0.5, method="best"), "quantile: method must be one of linear"),
        (lambda t: hg.quantile(t(0), 0.5), "quantile: a row without elements has none"),
        (lambda t: hg.histogram(t(3), 0), "histogram: at least one bin is needed, got 0"),
        (lambda t: hg.histogram(t(3), 3, (2.0, 1.0)), "the range must be finite and rise"),
        (lambda t: hg.histogram(t(3), [1.0, 3.0, 2.0]), "histogram: edges must rise throughout"),
        (lambda t: hg.histogram(t(3), t(3)[::-1]), "histogram: edges must rise throughout"),
        (lambda t: hg.cov(t(3), aweights=[1.0, -1.0, 2.0]), "cov: aweights must not be negative, got -1.0"),
        (lambda t: hg.cov(t(3), t(2)), "cov: as many observations are needed, got 3 and 2"),
        (lambda t: hg.hstack([]), "hstack: at least one array is needed"),
        (lambda t: hg.bincount(-1 - t(3).astype("i32")), "numbers must not be negative"),
        (lambda t: hg.digitize(t(3), [1.0, 3.0, 2.0]), "digitize: bins must rise or fall throughout"),
        (lambda t: hg.convolve(t(3), t(0)), "convolve: two vectors with elements are needed"),
        (lambda t: hg.convolve(t(3), t(2), "half"), "convolve: mode must be one of full"),
        (lambda t: hg.gradient(t(1)), "gradient: at least 2 elements are needed"),
        (lambda t: hg.interp(t(3), t(3), t(2)), "interp: vectors of one size"),
        (lambda t: hg.pad(t(3), padding=1, mode="mirror"), "pad: mode must be one of constant"),
        (lambda t: hg.pad(t(0), padding=1, mode="edge"), "can be padded by a constant only"),
        (lambda t: hg.nanargmax(t(3) * np.nan), "nanargmax: a row has nothing but NaN"),
        (lambda t: hg.split(t(5), 2), "5 elements cannot be split into 2 equal parts"),
        (lambda t: hg.diag(t(2).reshape(1, 1, 2)), "diag: a vector or a matrix is needed"),
        (lambda t: hg.average(t(3), 0, t(2)), "average: weights must have shape"),
        (lambda t: hg.geomspace(-1.0, 1.0), "geomspace: two numbers of one sign"),
    ],
)
def test_refused(executor: hg.Executor, call: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        call(lambda n: executor.tensor(np.arange(n, dtype=np.float32)))


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda t: hg.histogram(t(3), 2), "histogram: real numbers are needed, got c64"),
        (
            lambda t: hg.cov(t(3).real, fweights=[1.0, 1.0, 2.0]),
            "cov: fweights must be integers, got float64",
        ),
    ],
)
def test_refused_dtypes(executor: hg.Executor, call: Any, match: str) -> None:
    with pytest.raises(TypeError, match=match):
        call(lambda n: executor.tensor(np.arange(n, dtype=np.complex64)))


def test_comparisons_of_wholes(executor: hg.Executor) -> None:
    x = executor.tensor(X)
    assert hg.allclose(x, X)
    assert not hg.allclose(x, X + 1)
    assert hg.array_equal(x, X)
    assert not hg.array_equal(x, X[:1])
    assert hg.allclose(executor.tensor(Z), Z)
    assert not hg.allclose(executor.tensor(Z), Z + 1j)
    assert hg.array_equal(executor.tensor(HOLES), HOLES, equal_nan=True)
    assert not hg.array_equal(executor.tensor(HOLES), HOLES)
    assert not hg.iscomplexobj(x)
    assert hg.iscomplexobj(1j)
    assert hg.isrealobj(x)


def test_methods(executor: hg.Executor) -> None:
    x = executor.tensor(X)
    assert x.copy().buffer is not x.buffer
    np.testing.assert_array_equal(x.copy().to_numpy(), X)
    np.testing.assert_array_equal(x.mT.ravel().to_numpy(), X.T.ravel())
    assert x.ravel().buffer is x.buffer
    np.testing.assert_allclose(x.dot(x.mT).to_numpy(), X @ X.T, rtol=1e-5)
    np.testing.assert_allclose(x.round(1).to_numpy(), np.round(X, 1), rtol=1e-6)
    np.testing.assert_allclose(x.var(ddof=1).item(), X.var(ddof=1), rtol=1e-5)
    y = executor.tensor(X)
    y[1].fill(3)
    assert y[1].tolist() == [3.0] * 5
    assert hg.array([1, 2]).tolist() == [1, 2]
    made = np.empty(3, dtype=x.dtype)
    assert made.dtype == np.float32
    assert np.zeros(2, dtype=hg.bf16).dtype == hg.bf16.numpy


def test_dtypes_are_found_where_numpys_are_keys():
    for d in ALL:
        if not d.is_foreign:
            assert d in {d.numpy: 1}, d
            assert d.numpy in {d: 1}, d
    assert hg.f32 not in {np.dtype("float64"): 1, np.dtype("int32"): 2}
    assert len(set(ALL)) == len(ALL)


def test_apply_along_axis(executor: hg.Executor) -> None:
    for function in (lambda v: v.sum(), lambda v: v[::-1], lambda v: v[:2][:, None] * v[None, :2]):
        for axis in (0, 1, 2):
            got = hg.apply_along_axis(function, axis, executor.tensor(CUBE))
            np.testing.assert_allclose(got.to_numpy(), np.apply_along_axis(function, axis, CUBE), rtol=1e-5)


@pytest.mark.parametrize("kth", [3, -4, [0, 5]])
@pytest.mark.parametrize("name", ["partition", "argpartition"])
def test_an_element_that_is_not_there_is_no_partition(executor: Any, name: str, kth: Any) -> None:
    with pytest.raises(ValueError, match=f"{name}: kth must be within 3 elements, got"):
        getattr(hg, name)(executor.tensor(np.array([3, 1, 2], np.float32)), kth)
