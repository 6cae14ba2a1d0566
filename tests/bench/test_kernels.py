"""The suite `kernels`: the gallery's kernels compute their works, and Numba's do where it is."""

from __future__ import annotations

import importlib
from importlib.util import find_spec

import pytest

import hologram as hg
from bench import contenders
from bench.contenders.with_kernels import MAKERS, Kernels
from bench.suites.kernels import SIZES
from hologram.benchmark.kernels.declared import KERNELS
from hologram.benchmark.works import WORKS

SMALL = 48


def test_every_kernel_has_a_row() -> None:
    assert SIZES.keys() == KERNELS.keys() == MAKERS.keys()


@pytest.mark.parametrize("name", KERNELS)
def test_ours_compute_their_works(name: str, executor: hg.Executor) -> None:
    job = WORKS[name].job(Kernels(executor), SMALL)
    job.check()
    job.check()  # what a call leaves behind does not count


@pytest.mark.parametrize("name", [name for name in KERNELS if name != "where_from"])  # it has no derivatives
def test_numbas_compute_them(name: str) -> None:
    if find_spec("numba") is None:
        pytest.skip("numba is not installed")
    numba = importlib.import_module(contenders.MODULES["numba"]).open_contender("numba", "cpu")
    WORKS[name].job(numba, SMALL).check()
