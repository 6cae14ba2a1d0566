"""The rows of `hologram bench` under pytest-benchmark: `pytest bench --benchmark-only`, on every backend and in NumPy.

Its options compare and draw: `--benchmark-autosave --benchmark-compare`, `--benchmark-histogram`. `-k "exp and cpu"`
chooses.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import hologram as hg
from hologram.benchmark import machine
from hologram.benchmark.contenders.ours import Ours, functions
from hologram.benchmark.contenders.with_numpy import NumPy
from hologram.benchmark.operations import KINDS, QUICK
from hologram.benchmark.report.records import Adapter
from hologram.benchmark.works import ROWS, WORKS, Work

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


@pytest.mark.parametrize("row", ROWS.values(), ids=lambda row: row.name)
@pytest.mark.parametrize("size", SIZES)
def test_operation(row: Work, size: str, executor: hg.Executor | None, benchmark: Any) -> None:
    benchmark.group = f"{row.name} {size}"
    if executor is None and row.name == "gelu":
        pytest.skip("NumPy has no such function")
    job = row.job(Ours(executor) if executor else NumPy(), row.sizes[size])
    benchmark(job.call)
    job.check()


@pytest.mark.parametrize("name", QUICK)
@pytest.mark.parametrize("part", KINDS.values())
def test_model(name: str, part: str, executor: hg.Executor | None, benchmark: Any) -> None:
    benchmark.group = f"{name} {part}"
    who = functions(executor) if executor else NumPy(all_models=True)
    job = WORKS[f"{name}_{part}"].job(who, QUICK[name])
    benchmark(job.call)
    job.check()
