"""The functions that the suites jit and jit-webgpu compile are those that the references compute."""

from __future__ import annotations

import pytest

import hologram as hg
from bench.suites.replay import KERNELS, replayed
from hologram.benchmark.contenders.ours import functions
from hologram.benchmark.contenders.with_numpy import NumPy
from hologram.benchmark.suites import Goal
from hologram.benchmark.timing import QUICK
from hologram.benchmark.works import WORKS

SIZES = {
    "chain": 4096,
    "softmax": 4096,
    "layer_norm": 4096,
    "mlp": 32,
    "attention": 64,
    "matmul": 64,
    "training_step": 100,
    "adam": 64,
}


@pytest.mark.parametrize("work", SIZES)
@pytest.mark.parametrize("jit", [True, False], ids=["jit", "eager"])
def test_a_function_computes_its_work(executor: hg.Executor, work: str, jit: bool) -> None:
    job = WORKS[work].job(functions(executor, jit), SIZES[work])
    for _ in range(3):
        job.call()
    job.check()
    assert (job.dispatches is not None) == jit
    assert job.dispatches is None or job.dispatches() >= 1


@pytest.mark.parametrize("work", ["chain", "softmax", "layer_norm", "training_step"])
def test_a_peer_computes_the_functions(work: str) -> None:
    job = WORKS[work].job(NumPy(), SIZES[work])
    for _ in range(3):
        job.check()
    assert job.dispatches is None


def test_replaying_is_timed_by_the_kernel(backend: str, executor: hg.Executor) -> None:
    result = replayed(backend, Goal(us=1e6), QUICK)
    assert not result.missing
    assert result.dispatches == KERNELS
    assert result.met
