"""The suite `kernels`: the gallery's kernels compute their works. Peers' are checked whenever they are measured."""

from __future__ import annotations

import pytest

import hologram as hg
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
