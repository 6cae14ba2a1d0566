"""The functions that the suites jit and jit-webgpu compile are those that the references compute."""

from __future__ import annotations

import numpy as np
import pytest

import hologram as hg
from bench.contenders import ours_jit
from bench.replay import KERNELS, replay
from bench.suites import Goal
from bench.work import check, make_inputs
from hologram.benchmark.timing import QUICK

SIZES = {
    "chain": 4096,
    "softmax": 4096,
    "layer_norm": 4096,
    "mlp": 32,
    "attention": 64,
    "matmul": 64,
    "training_step": 100,
}


@pytest.mark.parametrize("work", ours_jit.FUNCTIONS)
def test_a_function_computes_its_work(executor: hg.Executor, work: str) -> None:
    inputs = make_inputs(work, SIZES[work])
    found = ours_jit.FUNCTIONS[work](*map(executor.tensor, inputs.values()))
    assert check(work, inputs, ours_jit.flat(found)) is None


@pytest.mark.parametrize("work", [*ours_jit.FUNCTIONS, "adam"])
def test_a_compiled_function_computes_its_work(backend: str, executor: hg.Executor, work: str) -> None:
    inputs = make_inputs(work, SIZES.get(work, 64))
    contender = ours_jit.open_contender(backend)
    with contender.executor:
        job = contender.prepare(work, inputs)
        for _ in range(3):
            job.call()
        assert check(work, inputs, job.result()) is None
        assert job.dispatches is not None
        assert job.dispatches() >= 1


def test_replaying_is_timed_by_the_kernel(backend: str, executor: hg.Executor) -> None:
    result = replay("jit", backend, Goal(us=1e6), QUICK)
    assert not result.missing
    assert result.dispatches == KERNELS
    assert result.met


def test_the_step_is_that_of_adam(executor: hg.Executor) -> None:
    inputs = make_inputs("adam", 64)
    state = ours_jit.adam(*([executor.tensor(row) for row in inputs[name]] for name in "pgmv"))
    found = np.stack([[tensor.to_numpy() for tensor in tensors] for tensors in state])
    assert check("adam", inputs, found) is None
