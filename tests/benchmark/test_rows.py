"""The rows and the models: everyone computes the same, and who computes something else has no time."""

from __future__ import annotations

import numpy as np
import pytest

import hologram as hg
from hologram.benchmark import operations
from hologram.benchmark.contenders import with_torch
from hologram.benchmark.contenders.ours import Ours, functions
from hologram.benchmark.contenders.with_numpy import NumPy
from hologram.benchmark.jobs import Job
from hologram.benchmark.models import numpy_gradients
from hologram.benchmark.models.declared import CHECKED_STEPS, MODELS, Arrays
from hologram.benchmark.operations import QUICK, Models, Operations
from hologram.benchmark.report.records import HOST
from hologram.benchmark.works import ROWS, Work, model_job


@pytest.mark.parametrize("row", ROWS.values(), ids=lambda row: row.name)
def test_rows_are_right_on_every_backend_and_in_numpy(row: Work, executor: hg.Executor) -> None:
    row.job(Ours(executor), row.sizes["10K"]).check()
    if row.name != "gelu":  # NumPy has no erf
        row.job(NumPy(), row.sizes["10K"]).check()


@pytest.mark.parametrize("row", ROWS.values(), ids=lambda row: row.name)
def test_wrong_results_are_noticed(row: Work) -> None:
    size = row.sizes["1K"]
    inputs = row.inputs(size)
    shape = row.result(inputs)
    assert "off by" in row.problem(size, inputs, np.full(shape, 1e6, np.float32))
    assert "shape" in row.problem(size, inputs, np.zeros((*shape, 1), np.float32))
    if shape:  # of which only the first elements are compared
        assert "shape" in row.problem(size, inputs, np.zeros((shape[0] + 1, *shape[1:]), np.float32))


def test_what_moves_and_what_is_computed() -> None:
    assert ROWS["add"].bytes(1024) == 3 * 4 * 1024
    assert ROWS["sum"].bytes(1024) == 4 * 1024 + 4
    assert ROWS["matmul"].flops(ROWS["matmul"].sizes["1M"]) == 2 * 1024**3
    assert ROWS["add"].flops(1 << 20) == 0


def test_calls_that_do_not_fit_are_left_out(executor: hg.Executor) -> None:
    measured = Operations("hologram", "here", [ROWS["matmul"]], lambda: Ours(executor))
    (first,) = measured.measure("1K", 0.05)
    assert first.turns
    (later,) = measured.measure("100M", 1e-6)  # 2 * 10240**3 operations
    assert not later.turns
    assert "--seconds" in later.why


@pytest.mark.parametrize("name", QUICK)
@pytest.mark.parametrize("jit", [True, False], ids=["jit", "eager"])
def test_models_compute_what_numpy_does(name: str, jit: bool, executor: hg.Executor) -> None:
    who = Models("hologram", "here", lambda: functions(executor, jit))
    for one in who.measure(name, 4, 0.01):
        assert one.why == ""
        assert one.seconds
        assert (one.key.adapter, one.key.size) == ("here", "4")


class Nobody:
    """Who computes something else."""

    device = "none"

    def prepare(self, work: Work, inputs: Arrays) -> Job:
        return model_job(work, inputs, lambda *_: lambda: np.zeros((4, 10)), lambda *_: lambda: np.zeros(()))


def test_wrong_models_have_no_time() -> None:
    for one in Models("nobody", HOST, Nobody).measure("small_mlp", 4, 0.01):
        assert not one.turns
        assert "wrong result" in one.why


@pytest.mark.parametrize("name", QUICK)
def test_numpys_gradients_are_torchs(name: str) -> None:
    model = MODELS[name]
    inputs = model.inputs(16, np.random.default_rng(0))
    ours, theirs = numpy_gradients.trained(model, inputs, np.float64), with_torch.trained(model, inputs)
    pairs = [(float(ours()), float(theirs())) for _ in range(CHECKED_STEPS + 2)]
    np.testing.assert_allclose(*zip(*pairs, strict=True), rtol=1e-3)
    assert pairs[-1] < pairs[0]


def test_launches_are_as_many_as_their_times_are_divided_by(executor: hg.Executor) -> None:
    for job, dispatches in operations.dependent(executor).values():
        job.check()
        assert dispatches >= operations.LAUNCHES


def test_numbers_come_back_by_every_way(executor: hg.Executor) -> None:
    array = np.random.default_rng(0).standard_normal(100, dtype=np.float32)
    for name, way in operations.moved(executor, array).items():
        if (
            name == "to_numpy(copy=False)" and executor.backend == "webgpu"
        ):  # whose memory no host may look into
            with pytest.raises(hg.InteropError, match="copy=False is impossible"):
                way()
        else:
            np.testing.assert_array_equal(np.asarray(way()), array)
