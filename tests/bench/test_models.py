"""The models of the suite `models`: every library's words mean the same, and hologram's steps learn as torch's do."""

from __future__ import annotations

import numpy as np
import pytest

import hologram as hg
from bench.model_references import losses, scores
from bench.work import WORKS, check, make_inputs
from hologram.benchmark.models import ours
from hologram.benchmark.models.declared import MODELS, first_losses

SIZES = {"small_mlp": 20, "mlp": 8, "small_cnn": 6, "cnn": 2, "small_transformer": 4, "transformer": 1}


@pytest.mark.parametrize("name", MODELS)
def test_scores_are_those_of_numpy(executor: hg.Executor, name: str) -> None:
    model = MODELS[name]
    inputs = model.inputs(SIZES[name], np.random.default_rng(0))
    found = ours.forward(executor, model, inputs)().to_numpy()
    np.testing.assert_allclose(found, scores(model, inputs), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", MODELS)
def test_steps_lose_as_much_as_torchs(executor: hg.Executor, name: str) -> None:
    pytest.importorskip("torch")
    model = MODELS[name]
    inputs = model.inputs(SIZES[name], np.random.default_rng(0))
    wanted = losses(model, inputs)
    assert wanted[-1] < wanted[0]
    np.testing.assert_allclose(first_losses(ours.trained(executor, model, inputs)), wanted, rtol=1e-3)


def test_losses_that_are_not_torchs_are_refused() -> None:
    pytest.importorskip("torch")
    work, size = "small_mlp_step", 20
    inputs = make_inputs(work, size)
    wanted = WORKS[work].reference(inputs)
    assert check(work, inputs, wanted.astype(np.float32)) is None
    assert "off by" in (check(work, inputs, (wanted * 1.01).astype(np.float32)) or "")
