"""Threads that share a row: every number of them computes the same, and a measurement is followed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

import hologram as hg
from hologram.atlas.program import Program
from hologram.compiler.scheduling import ways
from hologram.foundation import dtypes
from hologram.machine.choices import Candidate, Problem
from hologram.machine.plan import Target
from hologram.tuning.tunable import TUNABLES
from hologram.tuning.tuner import Pace, measure
from tests.backends.metal.test_device import Executor
from tests.devices import limits

GPU = limits(software=False)
SHARED = [Candidate("rows", (("THREADS", t),), (0, 0)) for t in ways.THREADS]


@pytest.fixture(name="executor")
def _executor() -> Iterator[hg.Executor]:
    with Executor() as executor:
        yield executor


def threads(executor: hg.Executor) -> set[str]:
    """How the launches of a sum and a softmax map to threads."""
    x = executor.tensor(np.ones((4, 2100), np.float32))
    with executor.profile() as profile:
        hg.sum(x, axis=1)
        hg.softmax(x, dim=1)
    return {launch.subject.schedule for launch in profile.launches}


@pytest.mark.parametrize("way", SHARED, ids=str)
def test_every_way_computes_the_same(way: Candidate, executor: hg.Executor) -> None:
    executor.bound.choices = lambda problem: way if problem.kernel == ways.KERNEL else None
    rng = np.random.default_rng(0)
    x = rng.standard_normal((5, 2100)).astype(np.float32)
    t, wide = executor.tensor(x), x.astype(np.float64)
    np.testing.assert_allclose(hg.sum(t, axis=1).to_numpy(), wide.sum(1), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(hg.max(t, axis=1).to_numpy(), x.max(1))
    np.testing.assert_array_equal(hg.argmin(t, axis=1).to_numpy(), x.argmin(1))
    weights = np.exp(wide - wide.max(1, keepdims=True))
    shares = weights / weights.sum(1, keepdims=True)
    np.testing.assert_allclose(hg.softmax(t, dim=1).to_numpy(), shares, rtol=1e-5)
    step = hg.jit(lambda x: hg.sum(hg.softmax(x * 2, dim=1) * x, axis=1))
    doubled = np.exp(2 * wide - 2 * wide.max(1, keepdims=True))
    np.testing.assert_allclose(
        step(t).to_numpy(), (doubled / doubled.sum(1, keepdims=True) * wide).sum(1), rtol=1e-4
    )
    across = executor.tensor(np.ascontiguousarray(x.T)).permute((1, 0))
    np.testing.assert_allclose(hg.sum(across, axis=1).to_numpy(), wide.sum(1), rtol=1e-4, atol=1e-4)
    assert any(f"{way.constant('THREADS')} threads a row" in text for text in threads(executor))


def test_ways_keep_threads_busy_and_leave_a_cpu_alone() -> None:
    short, long = (Problem(ways.KERNEL, dtypes.f32, (64, n, 1), (True,)) for n in (33, 5000))
    assert [w.constant("THREADS") for w in ways.ways(short, GPU)[1:]] == [1, 8, 32, 64]
    assert max(w.constant("THREADS") for w in ways.ways(long, GPU)[1:]) == GPU.max_workgroup_threads
    assert ways.ways(long, limits(software=True)) == (ways.BY_LENGTH,)


@pytest.mark.parametrize("problem", TUNABLES[ways.KERNEL].usual, ids=str)
def test_a_trial_is_of_its_problem(problem: Problem) -> None:
    trial = TUNABLES[ways.KERNEL].trial(problem)
    (step,) = trial.plan(Target(GPU)).steps
    assert isinstance(step.kernel, Program)
    assert ways.problem(step.kernel, step.grid) == problem
    assert step.kernel.workgroup is None
    way = SHARED[3]
    (step,) = trial.plan(Target(GPU, lambda asked: way if asked == problem else None)).steps
    assert isinstance(step.kernel, Program)
    assert step.kernel.workgroup == way.constant("THREADS")
    assert step.grid[-1] == trial.inputs[0].shape[-1]


def test_a_measurement_is_followed(executor: hg.Executor) -> None:
    problem = Problem(ways.KERNEL, dtypes.f32, (4, 300, 1), (True,))
    found = measure(executor, problem, Pace(1, 1e-6))
    assert found.default == ways.BY_LENGTH
    assert set(SHARED[:7]) | {ways.BY_LENGTH} >= set(found.seconds)  # sizes up to 512 are one problem
    assert len(found.seconds) > 4
    before = threads(executor)
    with Executor() as other:
        other.bound.choices = lambda asked: replace(SHARED[2], parts=1)
        assert threads(other) != before
