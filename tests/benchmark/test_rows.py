"""The rows and the models: everyone computes the same, and who computes something else has no time."""

from __future__ import annotations

import numpy as np
import pytest

import hologram as hg
from hologram.benchmark import jobs, pipelines
from hologram.benchmark.models import numpy_gradients, with_torch
from hologram.benchmark.models.declared import MODELS, first_losses
from hologram.benchmark.operations import Operations
from hologram.benchmark.pipelines import QUICK, Pipeline
from hologram.benchmark.report.records import HOST, Kind
from hologram.benchmark.rows import ROWS, Row


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.operation)
def test_rows_are_right_on_every_backend_and_in_numpy(row: Row, executor: hg.Executor) -> None:
    inputs = row.inputs("10K")
    with jobs.operation(executor, row, inputs) as job:
        job.call()
        found = job.result()
    assert row.problem(inputs, found) == ""
    if row.numpy is not None:
        with jobs.numpy_operation(row, inputs) as job:
            job.call()
            assert row.problem(inputs, job.result()) == ""


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.operation)
def test_wrong_results_are_noticed(row: Row) -> None:
    inputs = row.inputs("1K")
    shape = row.result(tuple(a.shape for a in inputs))
    assert "off by" in row.problem(inputs, np.full(shape, 1e6, np.float32))
    assert "shape" in row.problem(inputs, np.zeros((*shape, 1), np.float32))


def test_what_moves_and_what_is_computed() -> None:
    by_name = {row.operation: row for row in ROWS}
    assert by_name["add"].bytes("1K") == 3 * 4 * 1024
    assert by_name["sum"].bytes("1K") == 4 * 1024 + 4
    assert by_name["matmul"].flops("1M") == 2 * 1024**3
    assert by_name["add"].flops("1M") == 0


def test_calls_that_do_not_fit_are_left_out(executor: hg.Executor) -> None:
    rows = tuple(row for row in ROWS if row.operation == "matmul")
    measured = Operations("hologram", "here", rows, lambda: executor)
    (first,) = measured.measure("1K", 0.05)
    assert first.turns
    (later,) = measured.measure("100M", 1e-6)  # 2 * 10240**3 operations
    assert not later.turns
    assert "--seconds" in later.why


@pytest.mark.parametrize("pipeline", QUICK, ids=lambda p: p.name)
@pytest.mark.parametrize("jit", [True, False], ids=["jit", "eager"])
def test_models_compute_what_numpy_does(pipeline: Pipeline, jit: bool, executor: hg.Executor) -> None:
    way = pipelines.of_hologram("here", lambda: executor, jit)
    for one in way.measure(Pipeline(pipeline.name, 4), 0.01):
        assert one.why == ""
        assert one.seconds
        assert (one.key.adapter, one.key.size) == ("here", "4")


def test_wrong_models_have_no_time() -> None:
    way = pipelines.Way(
        "nobody",
        HOST,
        lambda model, inputs: lambda: np.zeros((4, 10)),
        lambda model, inputs: lambda: np.zeros(()),
    )
    for kind in (Kind.INFERENCE, Kind.TRAINING):
        one = way.measure_one(kind, Pipeline("small_mlp", 4), 0.01)
        assert not one.turns
        assert "wrong result" in one.why


@pytest.mark.parametrize("name", [p.name for p in QUICK])
def test_numpys_gradients_are_torchs(name: str) -> None:
    model = MODELS[name]
    inputs = model.inputs(16, np.random.default_rng(0))
    ours = first_losses(numpy_gradients.trained(model, inputs, np.float64))
    np.testing.assert_allclose(ours, first_losses(with_torch.trained(model, inputs)), rtol=1e-3)
