"""Arguments and names of NumPy's: the same call of hg and of NumPy gives the same."""

import warnings
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.frontend.numpy_names.histograms import RULES
from hologram.frontend.numpy_names.padding import ALLOWED
from hologram.frontend.numpy_names.quantiles import METHODS
from tests.accuracy import flushed
from tests.needs import needs

DRAWN = np.random.default_rng(11)
FLAT = DRAWN.standard_normal(40).astype(np.float32)
TABLE = DRAWN.standard_normal((4, 9)).astype(np.float32)
WHOLE = DRAWN.integers(-9, 10, (4, 9)).astype(np.int32)
CUBE = DRAWN.standard_normal((2, 3, 4)).astype(np.float32)
SHARES = np.array([[0.0, 0.125], [0.5, 1.0]], np.float32)


def moved(x, executor):
    """Arguments with tensors in the place of arrays."""
    if isinstance(x, np.ndarray):
        return executor.tensor(x)
    if isinstance(x, (list, tuple)) and any(isinstance(y, (np.ndarray, list, tuple)) for y in x):
        return type(x)(moved(y, executor) for y in x)
    return x


def same(got, want, rtol=3e-6):
    if isinstance(want, (tuple, list)):
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            same(g, w, rtol)
        return
    got = got.to_numpy() if isinstance(got, hg.Tensor) else np.asarray(got)
    want = np.asarray(want)
    assert got.shape == want.shape
    kinds = {"f": "f", "c": "c"}
    assert kinds.get(got.dtype.kind, got.dtype) == kinds.get(want.dtype.kind, want.dtype)
    np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol)


def alike(executor, name, *args, rtol=3e-6, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = getattr(np, name)(*args, **settings)
    with hg.use_executor(executor):
        found = {n: moved(s, executor) for n, s in settings.items()}
        same(getattr(hg, name)(*moved(args, executor), **found), want, rtol)


@pytest.mark.parametrize("mode", [m for m in ALLOWED if m != "empty"])
@pytest.mark.parametrize("x", [TABLE, WHOLE], ids=["f32", "i32"])
def test_pad(executor, mode, x):
    alike(executor, "pad", x, 3, mode)
    alike(executor, "pad", x, ((9, 4), (0, 11)), mode)
    each = ((1, 2), (3, 4))
    known = {"constant_values": each, "end_values": each, "stat_length": (2, 3), "reflect_type": "odd"}
    setting = ALLOWED[mode]
    if setting is not None:
        alike(executor, "pad", x, ((9, 4), (2, 11)), mode, **{setting: known[setting]})


def test_bad_pads(executor):
    x = executor.tensor(FLAT)
    bad: tuple[tuple[dict[str, Any], str], ...] = (
        ({"pad_width": 1.5}, "pad: pad_width must be integers"),
        ({"pad_width": 1, "mode": "edge", "stat_length": 2}, "pad: mode 'edge' takes no setting"),
        ({"pad_width": 1, "mode": "mean", "stat_length": 0}, "pad: stat_length must be at least 1"),
        ({"pad_width": 1, "mode": "reflect", "reflect_type": "even more"}, "pad: reflect_type must be"),
        ({"pad_width": ((1, 2), (3, 4))}, "pad: pad_width must be a number, a pair or 1 pairs"),
    )
    for given, error in bad:
        with pytest.raises((TypeError, ValueError), match=error):
            hg.pad(x, **given)
    with pytest.raises(TypeError, match="pad: either pad_width or padding"):
        hg.pad(x, 1, padding=1)


@pytest.mark.parametrize("method", METHODS)
def test_quantiles(executor, method):
    gaps = TABLE.copy()
    gaps[0, :3] = gaps[1] = gaps[2, 4] = np.nan
    for x in (TABLE, WHOLE):
        alike(executor, "quantile", x, 0.3, 1, method=method)
        alike(executor, "quantile", x, SHARES, method=method)
        alike(executor, "percentile", x, 77.0, (0, 1), method=method, keepdims=True)
    alike(executor, "nanquantile", gaps, SHARES, 1, method=method)
    alike(executor, "nanpercentile", gaps, 10.0, 0, method=method)


def test_weighed_quantiles(executor):
    weights = np.abs(TABLE[::-1])
    gaps = TABLE.copy()
    gaps[0, :3] = np.nan
    for w, axis in ((weights, 1), (weights, None), (weights[0], 1), (weights[:, 0] * [0, 1, 1, 0], 0)):
        w = w.astype(np.float32)
        alike(executor, "quantile", TABLE, SHARES, axis, method="inverted_cdf", weights=w)
        if w.shape == gaps.shape:
            alike(executor, "nanquantile", gaps, 0.4, axis, method="inverted_cdf", weights=w)
    x = executor.tensor(TABLE)
    with pytest.raises(ValueError, match="quantile: weights need the method 'inverted_cdf'"):
        hg.quantile(x, 0.5, weights=x)
    with pytest.raises(ValueError, match="quantile: weights must not be negative"):
        hg.quantile(x, 0.5, method="inverted_cdf", weights=x)


@pytest.mark.parametrize("rule", RULES)
def test_rules_of_histograms(executor, rule):
    whole = np.round(FLAT * 3).astype(np.int32)
    for x in (FLAT, whole):
        alike(executor, "histogram", x, rule)
    alike(executor, "histogram_bin_edges", FLAT, rule, (-1, 2))


def test_histograms_of_several(executor):
    points, weights = DRAWN.standard_normal((40, 3)).astype(np.float32), np.abs(FLAT)
    edges = np.array([-3.0, 0.0, 1.0, 3.0], np.float32)
    x, y = points[:, 0].copy(), points[:, 1].copy()
    alike(executor, "histogramdd", points, (2, 3, 4), density=True)
    alike(executor, "histogramdd", points, 3, weights=weights)
    alike(executor, "histogram2d", x, y, [4, edges], [[-2, 2], None])
    alike(executor, "histogram2d", x, y, edges)
    alike(executor, "histogram", FLAT, weights=np.arange(40, dtype=np.int32))
    alike(executor, "histogram", FLAT, weights=(FLAT + 1j).astype(np.complex64))


def test_complex_order(executor):
    parts = [0.0, 1.0, -1.0, np.nan, np.inf, -0.0]
    z = np.array([complex(a, b) for a in parts for b in parts], np.complex64)
    x = executor.tensor(DRAWN.permutation(z))
    want = np.sort(z)
    for got in (hg.sort(x), x[hg.argsort(x)], hg.flip(hg.sort(x, descending=True))):
        np.testing.assert_array_equal(got.to_numpy(), want)
    known = DRAWN.permutation(z[~np.isnan(z)])
    alike(executor, "unique", np.concatenate([known, known[:5]]), return_counts=True, return_inverse=True)
    for side in ("left", "right"):
        alike(executor, "searchsorted", want, z, side=side)
    alike(executor, "isin", z, known[:4])
    alike(executor, "intersect1d", known, known[3:7], return_indices=True)
    with pytest.raises(hg.UnsupportedDType, match="searchsorted: complex numbers"):
        hg.searchsorted(x, x, nan_last=False)


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "any", "all", "mean", "var", "std"])
@pytest.mark.parametrize("missing", [False, True], ids=["", "nan"])
def test_which_elements_count(executor, name, missing):
    x, mask = TABLE.copy(), DRAWN.random((4, 9)) < 0.6
    mask[:, 0] = mask[0] = True
    if missing:
        if name in ("any", "all"):
            return
        x[1, 1], name = np.nan, "nan" + name
    begins = {"initial": 0.5} if name.endswith(("max", "min")) else {}
    for axis in (None, 1):
        alike(executor, name, x, axis, where=mask, **begins)
    alike(executor, name, x, 0, where=mask[:, :1], **begins)
    if begins or name in ("sum", "prod"):
        alike(executor, name, x, 0, initial=2.0)
        alike(executor, name, x[:0], 0, initial=2.0)


def test_where_results_go(executor):
    x, mask = executor.tensor(TABLE), executor.tensor(TABLE) > 0
    out = executor.zeros((4, 9))
    assert hg.add(x, 1, out=out, where=mask) is out
    np.testing.assert_array_equal(out.to_numpy(), np.where(TABLE > 0, TABLE + 1, 0))
    assert np.multiply(x, 2, out=out, where=TABLE > 0) is out
    np.testing.assert_array_equal(out.to_numpy(), np.where(TABLE > 0, TABLE * 2, 0))
    host = np.zeros(9, np.float32)
    assert hg.max(x, axis=0, out=host) is host
    np.testing.assert_array_equal(host, TABLE.max(0))
    same(np.sum(x, where=mask), np.sum(TABLE, where=TABLE > 0))
    same(np.add.reduce(x, axis=1, initial=3), np.add.reduce(TABLE, axis=1, initial=3))
    same(hg.jit(lambda t: hg.mean(t, axis=0, where=t > 0))(x), np.mean(TABLE, axis=0, where=TABLE > 0))
    slope = hg.grad(lambda t: hg.sum(t * t, where=mask))(x)
    np.testing.assert_allclose(slope.to_numpy(), np.where(TABLE > 0, 2 * TABLE, 0))
    for call, error, said in (
        (lambda: hg.exp(x, where=mask), TypeError, "exp has no argument 'where'"),
        (lambda: hg.max(x, where=mask), ValueError, "max: where needs an initial number"),
        (lambda: hg.sum(x, axis=0, out=out), ValueError, "sum: out must have shape"),
        (lambda: hg.add(x, 1, out=executor.zeros((4, 9), "i32")), TypeError, "add: out is i32"),
    ):
        with pytest.raises(error, match=said):
            call()


@pytest.mark.parametrize("ends", [(0, 10, 7), (-7, -1, 10), (-3.5, 2, 9), (0, 2, 99)])
@pytest.mark.parametrize("dtype", ["int8", "int64", "float32", "bool"])
def test_linspace(executor, ends, dtype):
    for endpoint in (True, False):
        alike(executor, "linspace", *ends, endpoint=endpoint, dtype=dtype)


def test_ranges(executor):
    alike(executor, "linspace", TABLE[0], TABLE[1], 5, axis=-1)
    alike(executor, "linspace", TABLE[0], TABLE[1], 5, False, True)
    alike(executor, "logspace", 0, 3, 4, dtype="int32")
    alike(executor, "logspace", TABLE[0], TABLE[1], 3, base=2.0, rtol=2e-5)
    for ends in ((-1, -1000), (1, 1j), (2.0, 0.5)):
        alike(executor, "geomspace", *ends, 5, rtol=1e-5)
    alike(executor, "geomspace", np.abs(TABLE[0]), np.abs(TABLE[1]), 4, rtol=2e-5)
    assert hg.linspace(executor, 0.0, 1.0, 3).tolist() == [0.0, 0.5, 1.0]


GRID = np.array([1, 5, 3])
CALLS = [
    *((n, (FLAT,)) for n in ("cbrt", "degrees", "radians", "fabs", "sinc", "modf", "spacing", "unwrap")),
    *((n, (np.array([1, np.inf, -np.inf, np.nan], np.float32),)) for n in ("isposinf", "isneginf", "cbrt")),
    *((n, (np.array([1, 2j, 0], np.complex64),)) for n in ("isreal", "iscomplex", "conjugate")),
    ("bitwise_count", (np.array([0, 7, -128, 127], np.int8),)),
    ("bitwise_count", (np.array([2**63, 2**64 - 1], np.uint64),)),
    ("heaviside", (np.array([-1, 0, 2, np.nan], np.float32), 0.5)),
    ("logaddexp2", (FLAT, FLAT[::-1].copy())),
    ("float_power", (np.array([2, 4], np.int32), -1)),
    ("ldexp", (FLAT, np.arange(40, dtype=np.int32) - 20)),
    ("ldexp", (np.array([1e-38], np.float32), np.array([250], np.int32))),
    ("ldexp", (np.array([0, 1, -1e-44, np.inf], np.float32), np.array([60000, 400, 277, -9], np.int32))),
    ("ldexp", (np.array([0.0015, 1.5, 3e38, 7e-42], np.float32), np.array([-135, -149, -270, -2], np.int32))),
    ("polyval", (FLAT[:4], TABLE)),
    ("vecmat", (CUBE[0, 0, :3], CUBE)),
    ("matvec", (CUBE, CUBE[0, 0])),
    ("indices", ((2, 3),)),
    ("tril_indices", (4, 1, 3)),
    ("triu_indices", (4, -1)),
    ("diag_indices", (3,)),
    ("unravel_index", (GRID, (2, 3))),
    ("ravel_multi_index", ((GRID % 2, GRID % 3), (2, 3))),
    ("ix_", (GRID, np.array([True, False, True]))),
    ("lexsort", ((WHOLE[0], WHOLE[1]),)),
    ("compress", (np.array([True, False, True, True]), TABLE, 0)),
    ("extract", (TABLE > 0, TABLE)),
    ("select", ([TABLE > 1, TABLE > 0], [TABLE, -TABLE])),
    ("choose", (np.array([0, 1, 0]), [GRID, -GRID])),
    ("choose", (np.array([0, 5, -3]), [GRID, -GRID], None, "wrap")),
    ("choose", (np.array([0, 5, -3]), [GRID, -GRID], None, "clip")),
    ("piecewise", (FLAT, [FLAT < 0, FLAT > 1], [np.negative, 7, np.square])),
    ("piecewise", (TABLE, [TABLE < 0], [3])),
    ("piecewise", (FLAT, np.stack([FLAT < 0, FLAT < 1]), [3, 4, np.sin])),
    ("digitize", (np.array([5, 7, 0], np.uint64), np.array([6, 6, 2, 1, 0], np.uint64), True)),
    ("gradient", (TABLE, None, (-1, 0))),
    ("nanvar", (np.array([[1, np.nan, 3], [2, 4, 5]], np.float32), 0, None, 2)),
    ("nanstd", (np.array([[1, np.nan, 3], [2, 4, 5]], np.float32), 0, None, 1)),
    ("append", (TABLE, TABLE[:1], 0)),
    ("delete", (TABLE, [0, -1], 1)),
    ("delete", (FLAT, slice(None, None, 3))),
    ("insert", (FLAT, [2, 5], [1.0, 2.0])),
    ("insert", (TABLE, 1, FLAT[:4], 1)),
    ("resize", (GRID, (2, 4))),
    ("trim_zeros", (np.array([0, 0, 1, 0, 2, 0]),)),
    ("rollaxis", (CUBE, 2)),
    ("dsplit", (CUBE, 2)),
    ("block", ([[TABLE, TABLE], [TABLE * 2, TABLE]],)),
    ("vander", (GRID, 4)),
    ("vander", (GRID, 0)),
    ("vander", (np.array([100, -7], np.int8), 4)),
    ("vander", (np.array([np.inf, 0], np.float32), 3)),
    ("setxor1d", (GRID, np.array([5, 7]))),
    ("array_equiv", (TABLE[:1], TABLE[0])),
    ("sort", (TABLE, None)),
    ("argsort", (TABLE, 0, "stable")),
    ("where", (TABLE > 0,)),
    ("squeeze", (CUBE[:1],)),
    ("cross", (CUBE[0], CUBE[1], 0, 0, 0)),
    ("average", (TABLE, 1, FLAT[:9], True)),
    ("diff", (FLAT, 1, -1, 0, 1)),
    ("ravel", (TABLE, "F")),
    ("full", ((2, 3), GRID)),
]


@pytest.mark.parametrize(("name", "args"), CALLS, ids=[f"{n}-{k}" for k, (n, _) in enumerate(CALLS)])
def test_calls(executor, name, args):
    settings = {}
    if name == "diff":  # operands come before attributes here
        args, settings = args[:1], {"n": 1, "prepend": 0, "append": 1}
    if name in ("sort", "argsort"):
        args, settings = args[:1], {"axis": args[1]} | ({"kind": args[2]} if len(args) > 2 else {})
    if name in ("gradient", "nanvar", "nanstd"):
        args, settings = args[:1], {"axis": args[-1]} if name == "gradient" else {"axis": 0, "ddof": args[-1]}
    if name == "choose" and len(args) > 2:
        args, settings = args[:2], {"mode": args[3]}
    if name == "unwrap":
        args = (args[0] * 5,)
    if not executor.limits.keeps("denormals"):
        args = flushed(args)
    alike(executor, name, *args, rtol=1e-5, **settings)


def test_what_numpy_refuses(executor):
    x = executor.tensor(TABLE)
    for refused in (
        lambda names, x: names.compress([True] * 5, x, axis=0),
        lambda names, x: names.vsplit(x[0], 3),
        lambda names, x: names.sum(x, axis=2),
    ):
        with pytest.raises(Exception) as theirs:
            refused(np, TABLE)
        with pytest.raises(theirs.type):
            refused(hg, x)
    assert hg.compress([True, False, True, True, False], x, axis=0).shape == (3, 9)


@pytest.mark.parametrize("mode", ["wrap", "clip", ("clip", "wrap")])
def test_coordinates_out_of_range(executor, mode):
    places = (np.array([-1, 2, 5]), np.array([3, -4, 1]))
    alike(executor, "ravel_multi_index", places, (2, 3), mode=mode)
    with pytest.raises(ValueError, match="mode must be 'raise', 'wrap' or 'clip', got 'round'"):
        hg.choose(executor.tensor([0]), [1], mode="round")
    with pytest.raises(
        ValueError, match="a function for each of 2 conditions, or one more, is needed, got 1"
    ):
        hg.piecewise(executor.tensor(FLAT), [FLAT < 0, FLAT > 1], [1])


def test_methods_of_arrays(executor):
    x, z = executor.tensor(CUBE), executor.tensor(np.array([1 + 2j], np.complex64))
    same(x.swapaxes(0, 2), CUBE.swapaxes(0, 2))
    same(x.diagonal(1, 1, 2), CUBE.diagonal(1, 1, 2))
    same(x.trace(0, 1, 2), CUBE.trace(0, 1, 2))
    same((x > 0).nonzero(), (CUBE > 0).nonzero())
    same(z.conjugate(), np.array([1 - 2j], np.complex64))
    assert x.itemsize == 4
    z.view("float32")[0] = 5.0  # the same memory
    assert z.tolist() == [5 + 2j]
    same(x.view(np.complex64), CUBE.view(np.complex64))
    with pytest.raises(hg.UnsupportedDType, match=r"view: f32 of shape \(2, 3, 4\) cannot be seen as i32"):
        x.view("int32")
    assert hg.arange(executor.tensor(3)).tolist() == [0, 1, 2]
    for repetitions in ((2, 1, 1, 1), (1, 1, 1)):
        tiled = hg.tile(x, repetitions)
        tiled[...] = 0
        assert tiled.shape[-3:] == x.shape
        assert x.any()
    y = executor.zeros((3, 2))
    hg.put_along_axis(y, executor.tensor(np.array([[1], [0], [1]])), 5.0, 1)
    assert y.tolist() == [[0, 5], [5, 0], [0, 5]]


@pytest.mark.parametrize("dtype", ["f32", "i64", "c64"])
@pytest.mark.parametrize("name", ["concatenate", "stack"])
def test_joined_as_another_dtype(executor, name, dtype):
    needs(executor, dtype)
    given = [WHOLE, WHOLE[::-1].copy()]
    alike(executor, name, given, axis=1, dtype=hg.dtypes.dtype(dtype).numpy)
    out = executor.empty((8, 9), "i32")
    assert hg.concat([executor.tensor(x) for x in given], out=out) is out
    np.testing.assert_array_equal(out.to_numpy(), np.concatenate(given))
    tables = [executor.tensor(TABLE)] * 2
    with pytest.raises(TypeError, match=rf"{name[:6]}.*: dtype i32 cannot hold f32"):
        getattr(hg, name)(tables, dtype="i32")


@pytest.mark.parametrize("mode", ["raise", "wrap", "clip"])
def test_take_out_of_range(executor, mode):
    places = np.array([[-1, 3, 0], [2, -4, 1]]) if mode == "raise" else np.array([[-9, 4, 0], [70, -1, 3]])
    alike(executor, "take", TABLE, places, axis=0, mode=mode)
    alike(executor, "take", TABLE, places, axis=None, mode=mode)
    with pytest.raises(IndexError):
        hg.take(executor.tensor(TABLE), executor.tensor(np.array([4])), axis=0, mode="raise")
    with pytest.raises(ValueError, match="take: mode must be one of fill, raise, wrap, clip, got 'mirror'"):
        hg.take(executor.tensor(TABLE), executor.tensor(places), mode="mirror")
    with pytest.raises(hg.ShapeError, match=r"take: an axis with elements .* got shape \(0, 3\)"):
        hg.take(executor.zeros((0, 3)), executor.tensor(places), axis=0, mode="clip")


@pytest.mark.parametrize(
    ("shift", "axis"),
    [((1, 2), (0, 1)), (3, (0, 1)), ((3, 1), 1), ((1, -2), (0, 0)), ((4, 50), None), ((), ()), (2, (1, -1))],
)
def test_roll_of_several(executor, shift, axis):
    alike(executor, "roll", TABLE, shift, axis)
    with pytest.raises(hg.ShapeError, match="roll: a shift for every axis is needed"):
        hg.roll(executor.tensor(TABLE), shift=(1, 2, 3), axis=(0, 1))


@pytest.mark.parametrize("decimals", [-1, -2, -3, 0, 2])
def test_round_of_integers(executor, decimals):
    """Halves go to even tens, hundreds; a method, and NumPy's function."""
    x = np.array([15, 25, 35, -15, -25, 149, 150, 250, -450, 1500, 2500, 99999], np.int32)
    alike(executor, "round", x, decimals)
    t = executor.tensor(x)
    np.testing.assert_array_equal(t.round(decimals).to_numpy(), np.round(x, decimals))
    np.testing.assert_array_equal(np.round(t, decimals).to_numpy(), np.round(x, decimals))
    assert hg.round(executor.tensor(np.array([120, -128], np.int8)), -3).tolist() == [0, 0]


def test_angles_in_degrees(executor):
    z = np.array([1, -1, 1j, -1j, 1 - 1j, 0], np.complex64)
    alike(executor, "angle", z, deg=True)
    alike(executor, "angle", TABLE, True)
    slope = hg.grad(lambda x: hg.sum(hg.angle(hg.complex(x, hg.ones_like(x)), deg=True)))
    got = slope(executor.tensor(np.array([0.5, -2.0], np.float32))).to_numpy()
    np.testing.assert_allclose(got, -180 / np.pi / (1 + np.array([0.25, 4.0])), rtol=1e-5)


def test_frexp(executor):
    hard = np.array([0.0, -0.0, 1, -3.7, 2.0**-120, 3e38, np.inf, -np.inf, np.nan], np.float32)
    parts, powers = hg.frexp(executor.tensor(hard))
    want, exponents = np.frexp(hard)
    np.testing.assert_array_equal(parts.to_numpy(), want)
    np.testing.assert_array_equal(powers.to_numpy()[:6], exponents[:6])
    assert powers.dtype is hg.i32
    assert hg.frexp(executor.tensor(WHOLE))[0].dtype is hg.f32
    with pytest.raises(hg.UnsupportedDType, match="frexp: real numbers are needed, got c64"):
        hg.frexp(executor.tensor(np.ones(2, np.complex64)))


def test_real_if_close(executor):
    for imaginary, tol in ((1e-7, 100), (1e-2, 100), (1e-2, 0.1), (0.0, 100), (np.nan, 100)):
        alike(executor, "real_if_close", np.array([1, 2 + 1j * imaginary], np.complex64), tol)
    alike(executor, "real_if_close", TABLE)


def test_fromfunction(executor):
    alike(executor, "fromfunction", lambda i, j: i * 3 + j, (4, 5), dtype=np.float32)
    with hg.use_executor(executor):
        assert hg.fromfunction(lambda i, by: i * by, (3,), dtype="i32", by=2).tolist() == [0, 2, 4]


@pytest.mark.parametrize("name", ["hanning", "hamming", "blackman", "bartlett", "kaiser"])
def test_windows(executor, name):
    more, least = ((8.6,), 1.5e-6) if name == "kaiser" else ((), 3e-7)
    for m in (-1, 0, 1, 2, 3, 12, 1001):
        with hg.use_executor(executor):
            found = getattr(hg, name)(m, *more)
        assert found.executor is executor
        np.testing.assert_allclose(found.to_numpy(), getattr(np, name)(m, *more), rtol=0, atol=least)
    with pytest.raises(hg.UnsupportedDType, match=f"{name}: a float dtype is needed, got i32"):
        getattr(hg, name)(4, *more, dtype="i32", device=executor)


def test_equations_of_tensors(executor):
    a = (np.eye(24) + 0.1 * np.arange(576).reshape(24, 24) % 1).reshape(2, 3, 4, 6, 4).astype(np.float32)
    b = np.arange(24, dtype=np.float32).reshape(2, 3, 4) / 24
    same(hg.linalg.tensorsolve(*moved((a, b), executor)), np.linalg.tensorsolve(a, b), 1e-4)
    square = np.moveaxis(a, 3, 0)
    axes = (0, 4)
    same(
        hg.linalg.tensorsolve(*moved((square, b), executor), axes=axes),
        np.linalg.tensorsolve(square, b, axes=axes), 1e-4,
    )  # fmt: skip
    same(hg.linalg.tensorinv(moved(a, executor), 3), np.linalg.tensorinv(a, 3), 1e-4)
    same(np.linalg.tensorinv(moved(b.reshape(2, 12)[:, :2] + np.eye(2, dtype=np.float32), executor), 1),
         np.linalg.tensorinv(b.reshape(2, 12)[:, :2] + np.eye(2), 1), 1e-4)  # fmt: skip
    with pytest.raises(hg.LinAlgError, match="as many unknowns as equations"):
        hg.linalg.tensorsolve(*moved((TABLE, FLAT[:4]), executor))
    with pytest.raises(hg.LinAlgError, match=r"the first 1 axes .* got shape \(4, 9\)"):
        hg.linalg.tensorinv(moved(TABLE, executor), 1)
    with pytest.raises(ValueError, match="ind must be at least 1, got 0"):
        hg.linalg.tensorinv(moved(TABLE, executor), 0)


@pytest.mark.parametrize("norm", [None, "backward", "ortho", "forward"])
def test_transforms_by_place(executor, norm):
    """n, axis and norm by place, two axes, and NumPy's functions of tensors."""
    x, whole = moved(CUBE, executor), CUBE.astype(np.complex64)
    for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
        y = whole if name in ("irfft", "hfft") else CUBE
        want = getattr(np.fft, name)(y, 6, 1, norm)
        same(getattr(hg.fft, name)(moved(y, executor), 6, 1, norm), want, 1e-5)
        same(getattr(np.fft, name)(moved(y, executor), 6, axis=1, norm=norm), want, 1e-5)
    for name in ("fft2", "ifft2", "rfft2", "irfft2"):
        y = whole if name == "irfft2" else CUBE
        same(getattr(hg.fft, name)(moved(y, executor), norm=norm), getattr(np.fft, name)(y, norm=norm), 1e-5)
        want = getattr(np.fft, name)(y, (4, 6), (0, 2), norm)
        same(getattr(hg.fft, name)(moved(y, executor), (4, 6), (0, 2), norm), want, 1e-5)
        same(getattr(np.fft, name)(moved(y, executor)), getattr(np.fft, name)(y), 1e-5)
    assert x.shape == CUBE.shape
    with pytest.raises(ValueError, match="fft: norm must be one of"):
        hg.fft.fft2(x, norm="none")
