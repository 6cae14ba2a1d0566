"""Launches that are kept: replayed on the same memory, equal to the calls they were captured from."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import hologram as hg
from hologram.runtime.launches.captured import Captured


@hg.jit
def step(x: hg.Tensor, w: hg.Tensor) -> hg.Tensor:
    return hg.tanh(x @ w) + x * 0.5


def test_a_replay_is_the_calls_it_was_captured_from(executor: hg.Executor) -> None:
    rng = np.random.default_rng(0)
    w = executor.tensor(rng.standard_normal((48, 48)).astype(np.float32))
    state = executor.tensor(rng.standard_normal((3, 48)).astype(np.float32))
    before, wanted = state.to_numpy(), state
    for _ in range(5):
        wanted = hg.softmax(step(wanted, w) * 2.0, dim=-1) + step(wanted, w)

    def advance() -> hg.Tensor:
        y = hg.softmax(step(state, w) * 2.0, dim=-1) + step(state, w)
        executor.copy(y, state)
        return y

    captured = Captured(executor, advance)
    np.testing.assert_array_equal(state.to_numpy(), before)  # nothing ran yet
    assert captured.launches >= 4
    for turn in range(5):
        captured.replay()
        # What others compute meanwhile gets other memory.
        noise = [executor.full((3, 48), float(turn)) for _ in range(20)]
        del noise
    np.testing.assert_array_equal(captured.results.to_numpy(), wanted.to_numpy())
    np.testing.assert_array_equal(state.to_numpy(), wanted.to_numpy())


def test_what_asks_for_elements_is_refused(executor: hg.Executor) -> None:
    x = executor.ones((4,))

    def asking() -> float:
        return float((x + 1.0).to_numpy()[0])

    with pytest.raises(hg.TraceError, match="capture: asking must leave elements on the device"):
        Captured(executor, asking)
    np.testing.assert_array_equal((x + 1.0).to_numpy(), np.full(4, 2.0))  # later calls run


def test_its_memory_goes_with_it(executor: hg.Executor) -> None:
    x = executor.ones((1000,))
    allocated = executor.memory_stats()["allocated"]
    for _ in range(3):
        captured = Captured(executor, lambda: hg.exp(x + 1.0) * hg.sin(x))
        captured.replay()
        del captured
        gc.collect()
    assert executor.memory_stats()["allocated"] == allocated
