"""The models of the suite `models`: every library's words mean the same, and hologram's steps learn as torch's do."""

from __future__ import annotations

import numpy as np
import pytest

import hologram as hg
from hologram.benchmark.contenders.ours import functions
from hologram.benchmark.models.declared import CHECKED_STEPS, MODELS
from hologram.benchmark.works import WORKS

SIZES = {"small_mlp": 20, "mlp": 8, "small_cnn": 6, "cnn": 2, "small_transformer": 4, "transformer": 1}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("part", ["forward", "step"])
def test_scores_and_losses_are_those_of_numpy(executor: hg.Executor, name: str, part: str) -> None:
    WORKS[f"{name}_{part}"].job(functions(executor), SIZES[name]).check()


@pytest.mark.parametrize("name", MODELS)
def test_steps_lose_as_much_as_torchs(executor: hg.Executor, name: str) -> None:
    pytest.importorskip("torch")
    from hologram.benchmark.contenders import with_torch

    work, size = WORKS[f"{name}_step"], SIZES[name]
    step = with_torch.trained(MODELS[name], work.inputs(size))
    wanted = [float(step()) for _ in range(CHECKED_STEPS)]
    assert len(set(wanted)) == CHECKED_STEPS
    np.testing.assert_allclose(work.job(functions(executor), size).result(), wanted, rtol=1e-3)


def test_losses_that_are_not_right_are_refused() -> None:
    work, size = WORKS["small_mlp_step"], 20
    inputs = work.inputs(size)
    wanted = work.reference(inputs)
    assert work.problem(size, inputs, wanted.astype(np.float32)) == ""
    assert "off by" in work.problem(size, inputs, (wanted * 1.01).astype(np.float32))
