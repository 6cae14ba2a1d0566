"""Running folds along rows that are longer than what one lane may go along."""

from __future__ import annotations

import numpy as np
import pytest

import hologram as hg

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
