"""Twenty kernels of the kind that Numba's examples are made of, beside NumPy or plain Python.

A function under `@vectorize` or a loop over `prange` is a kernel of one point; `cuda.shared.array` is `hg.shared`.
"""

from __future__ import annotations

import pytest

import hologram as hg
from tests.kernels.examples import check
from tests.kernels.from_numba import grids, sciences, series

CASES = sciences.CASES | series.CASES | grids.CASES


@pytest.mark.parametrize("name", CASES)
def test_a_kernel(name: str, executor: hg.Executor) -> None:
    check(CASES[name], executor)


def test_there_are_twenty() -> None:
    assert len(CASES) == 20
