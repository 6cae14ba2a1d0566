"""Twenty kernels of the kind that Taichi's examples are made of, beside NumPy or plain Python.

Fields are arrays, `ti.ndrange` is the grid, `x[i] += v` is an atomic addition where places meet; nothing else changes.
"""

from __future__ import annotations

import pytest

import hologram as hg
from tests.kernels.examples import check
from tests.kernels.from_taichi import grids, numbers, particles

CASES = grids.CASES | particles.CASES | numbers.CASES


@pytest.mark.parametrize("name", CASES)
def test_a_kernel(name: str, executor: hg.Executor) -> None:
    check(CASES[name], executor)


def test_there_are_twenty() -> None:
    assert len(CASES) == 20
