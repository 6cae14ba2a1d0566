"""The rows of `hologram bench` under pytest-benchmark: `pytest bench --benchmark-only`, on every backend and in NumPy.

Its options compare and draw: `--benchmark-autosave --benchmark-compare`, `--benchmark-histogram`. `-k "exp and cpu"`
chooses.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import hologram as hg
from hologram.benchmark import jobs, machine, pipelines
from hologram.benchmark.pipelines import QUICK, Pipeline
from hologram.benchmark.report.records import Adapter, Kind
from hologram.benchmark.rows import ROWS, Row

SIZES = ("1K", "100K", "1M")
ADAPTERS = machine.adapters()
NUMPY = "numpy"


@pytest.fixture(scope="module", params=[NUMPY, *ADAPTERS], ids=lambda p: p if p == NUMPY else p.name)
def executor(request: pytest.FixtureRequest) -> Iterator[hg.Executor | None]:
    """An adapter's; None for NumPy."""
    if isinstance(request.param, Adapter):
        with hg.Executor(request.param.backend, request.param.index) as opened:
            yield opened
    else:
        yield None


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.operation)
@pytest.mark.parametrize("size", SIZES)
def test_operation(row: Row, size: str, executor: hg.Executor | None, benchmark: Any) -> None:
    benchmark.group = f"{row.operation} {size}"
    inputs = row.inputs(size)
    if executor is None and row.numpy is None:
        pytest.skip("NumPy has no such function")
    made = jobs.operation(executor, row, inputs) if executor else jobs.numpy_operation(row, inputs)
    with made as job:
        benchmark(job.call)
        assert row.problem(inputs, job.result()) == ""


@pytest.mark.parametrize("pipeline", QUICK, ids=lambda p: p.name)
@pytest.mark.parametrize("kind", [Kind.INFERENCE, Kind.TRAINING], ids=lambda kind: kind.value)
def test_model(pipeline: Pipeline, kind: Kind, executor: hg.Executor | None, benchmark: Any) -> None:
    benchmark.group = f"{pipeline.name} {kind.value}"
    opened = executor
    way = pipelines.of_hologram("here", lambda: opened, jit=True) if opened else pipelines.of_numpy()
    with way.job(kind, pipeline) as job:
        benchmark(job.call)
        assert pipelines.problem(kind, pipeline, job) == ""
