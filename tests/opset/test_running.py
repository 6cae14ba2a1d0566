"""Running folds along rows that are longer than what one lane may go along."""

from __future__ import annotations

import numpy as np
import pytest

import hologram as hg
from tests.needs import needs

LENGTH = 70_001  # a software adapter ends loops after 65,536 turns


@pytest.mark.parametrize("missing", [False, True])
def test_extremes_of_long_rows(executor: hg.Executor, missing: bool) -> None:
    x = np.random.default_rng(0).integers(-1000, 1000, LENGTH).astype(np.float32)
    if missing:
        x[LENGTH // 2] = np.nan
    for operation, running in ((hg.cummax, np.maximum), (hg.cummin, np.minimum)):
        values, positions = (t.to_numpy() for t in operation(executor.tensor(x), axis=0))
        wanted = running.accumulate(x)
        np.testing.assert_array_equal(values, wanted)
        new = (x == wanted) | np.isnan(x)  # the last of equal ones counts
        places = np.maximum.accumulate(np.where(new, np.arange(LENGTH), 0))
        np.testing.assert_array_equal(positions, places)


def test_sums_of_exponentials_of_long_rows(executor: hg.Executor) -> None:
    x = np.random.default_rng(0).normal(size=LENGTH).astype(np.float32)
    got = hg.logcumsumexp(executor.tensor(x), axis=0).to_numpy()
    np.testing.assert_allclose(got, np.logaddexp.accumulate(x.astype(np.float64)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["f32", "f16", "f64", "c64"])
def test_sums_of_exponentials_of_what_is_not_finite(executor: hg.Executor, dtype: str) -> None:
    needs(executor, dtype)
    x = np.random.default_rng(0).normal(size=(3, 5000))
    x[:, :40] = -np.inf
    x[1, 3000], x[2, 3000], x[2, 4000] = np.inf, np.nan, np.inf
    with np.errstate(invalid="ignore"):
        want = np.logaddexp.accumulate(x, axis=1)
    for axis in (0, 1):
        given = executor.tensor(x.T.copy() if axis == 0 else x).astype(dtype)
        got = hg.logcumsumexp(given, axis=axis).to_numpy()
        np.testing.assert_allclose(np.real(got.T if axis == 0 else got), want, rtol=5e-3, atol=5e-3)


def test_derivatives_of_long_sums_of_exponentials(executor: hg.Executor) -> None:
    x = executor.tensor(np.random.default_rng(0).normal(size=5000).astype(np.float32))
    shares = hg.grad(lambda t: hg.logcumsumexp(t)[-1])(x).to_numpy()
    np.testing.assert_allclose(shares, hg.softmax(x).to_numpy(), rtol=1e-4)
