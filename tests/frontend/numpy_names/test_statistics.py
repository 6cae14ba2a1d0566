"""Quantiles, histograms and reductions with NumPy's arguments: methods, weights, rules, which elements count."""

import numpy as np
import pytest

import hologram as hg
from hologram.frontend.numpy_names.histograms import RULES
from hologram.frontend.numpy_names.quantiles import METHODS
from tests.frontend.numpy_names.alike import FLAT, TABLE, WHOLE, alike, same

DRAWN = np.random.default_rng(12)

SHARES = np.array([[0.0, 0.125], [0.5, 1.0]], np.float32)


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
    for dtype in ("f4", "f8"):  # arrays, of dtypes that the device may lack
        host = np.full((4, 9), 7, dtype)
        for condition in (mask, TABLE > 0):
            assert hg.add(x, 1, out=host, where=condition) is host
            np.testing.assert_array_equal(host, np.where(TABLE > 0, TABLE + 1, 7))
        assert hg.cbrt(TABLE[0] * 0 + 8, out=host, where=TABLE[:, :1] * 0 == 0) is host
        np.testing.assert_allclose(host, 2, rtol=1e-6)
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
        (lambda: hg.add(x, 1, out=np.zeros((4, 9), "i4"), where=mask), TypeError, "Cannot cast"),
        (lambda: hg.add(x, 1, out=np.zeros(9, "f4"), where=mask), ValueError, "add: out must have shape"),
        (lambda: hg.add(x, 1, out=(out, out)), ValueError, "add: out must be one tensor or array"),
        (lambda: hg.cbrt(x, out=(out, out)), ValueError, "cbrt: out must be one tensor or array"),
    ):
        with pytest.raises(error, match=said):
            call()
