"""Incomplete gamma functions of large numbers, and Hurwitz's zeta function far out."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import special

import hologram as hg
from hologram.opset.special import gamma
from tests.needs import needs

# a, x, the lower and the upper one, integrated in 40 digits; all numbers are exact in f32 as well.
LARGE = (
    (1e6, 1e6, 0.50013298076087259, 0.49986701923912741),
    (1e7, 1e7, 0.5000420522087237, 0.4999579477912763),
    (1e10, 1e10, 0.50000132980760134, 0.49999867019239866),
    (15000.0, 15500.0, 0.99997335385279831, 2.6646147201686758e-5),
    (16777216.0, 16775168.0, 0.30855902719750384, 0.69144097280249616),
    (16777216.0, 16785408.0, 0.97723668827286616, 0.02276331172713384),
    (1e6, 994000.0, 9.1789002623020234e-10, 0.99999999908210997),
    (1e8, 100030000.0, 0.99864891989839804, 0.0013510801016019576),
    (4e4, 41200.0, 0.99999999859809778, 1.4019022201122493e-9),
)  # fmt: skip


@pytest.mark.parametrize(("dtype", "near"), [("f64", 2e-14), ("f32", 1e-5)])
def test_large_numbers_near_each_other(executor: hg.Executor, dtype: str, near: float) -> None:
    needs(executor, dtype)
    a, x = (executor.tensor([row[k] for row in LARGE], dtype=dtype) for k in (0, 1))
    np.testing.assert_allclose(hg.igamma(a, x).to_numpy(), [row[2] for row in LARGE], rtol=near)
    np.testing.assert_allclose(hg.igammac(a, x).to_numpy(), [row[3] for row in LARGE], rtol=near)


def test_large_numbers_apart_and_their_ends(executor: hg.Executor) -> None:
    needs(executor, hg.f64)
    a = executor.tensor([1e7, 1e7, 1e7, 1e12, math.inf, 1e7, math.nan], dtype="f64")
    x = executor.tensor([1e6, 1e8, math.inf, 0.0, 1e7, math.nan, 1e7], dtype="f64")
    lower = [0, 1, 1, 0, 0, math.nan, math.nan]
    np.testing.assert_array_equal(hg.igamma(a, x).to_numpy(), lower)
    np.testing.assert_array_equal(hg.igammac(a, x).to_numpy(), [1 - each for each in lower])


def test_both_sides_of_where_the_expansion_begins_agree(executor: hg.Executor) -> None:
    needs(executor, hg.f64)
    a = np.nextafter(1e4, [0, np.inf])[:, None]
    for x in (0.7, 0.9, 0.99, 1.0, 1.01, 1.1, 1.3):
        edge = np.nextafter(1e4 * x, [0, np.inf])
        for function in (hg.igamma, hg.igammac):
            found = function(executor.tensor(a), executor.tensor(edge)).to_numpy()
            np.testing.assert_allclose(found, found[0, 0], rtol=2e-10, atol=1e-300)


def test_coefficients_of_the_expansion() -> None:
    """c_0 = 1 / mu - 1 / eta, and each next one from the one before, where eta^2 / 2 = mu - log(1 + mu)."""
    count = 40
    mu = [Fraction(0), Fraction(1)]
    for n in range(2, count + 2):
        known = sum(mu[i] * (n + 1 - i) * mu[n + 1 - i] for i in range(2, n))
        mu.append((mu[n - 1] - known) / (n + 1))
    inverse = [Fraction(1)]  # of mu, times eta
    for n in range(1, count):
        inverse.append(-sum((mu[k + 1] * inverse[n - k] for k in range(1, n + 1)), Fraction(0)))
    row = inverse[1:]
    for stirling, wanted in zip((Fraction(-1, 12), Fraction(1, 288), None), gamma.UNIFORM, strict=True):
        assert [float(c) for c in row[: len(wanted)]][::-1] == list(wanted)
        if stirling is not None:
            row = [(n + 2) * row[n + 2] + stirling * inverse[n + 1] for n in range(len(row) - 2)]


@pytest.mark.parametrize("dtype", ["f64", "f32"])
def test_zeta_far_out(executor: hg.Executor, dtype: str) -> None:
    needs(executor, dtype)
    x = executor.tensor([1e10, 1e10, 1e10, 1e30, 2.0, 2.0, 3.0, 30.0, 50.0], dtype=dtype)
    q = executor.tensor([2.0, 1.0, 0.5, 3.0, 1e9, 1e30, 1e12, 12.0, 5.0], dtype=dtype)
    wanted = [0, 1, math.inf, 0, 1.0000000005e-9, 1e-30, 5.000000000005e-25, 4.641837106e-33, 1.1261e-35]
    found = hg.zeta(x, q).to_numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-4)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_the_upper_share_of_a_small_order(executor: hg.Executor, dtype: str) -> None:
    """Where it is of the order of a: 1 - lower would have no digit of it."""
    needs(executor, dtype)
    a, x = np.meshgrid([1e-14, 1e-10, 1e-6, 1e-3, 0.1, 0.29, 0.31], [1e-20, 1e-8, 0.01, 0.1, 0.5, 1.0, 1.2])
    kind = hg.dtypes.dtype(dtype).numpy
    a, x = a.astype(kind), x.astype(kind)
    got = hg.igammac(executor.tensor(a), executor.tensor(x)).to_numpy()
    want = special.gammaincc(a.astype(np.float64), x.astype(np.float64))
    tolerance = {"f32": 4e-5, "f64": 1e-13}[dtype]
    np.testing.assert_allclose(got, want, rtol=tolerance)
