"""Bad input: the named exception with a message one can act on, on every backend, and the executor works afterwards."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.machine.layout import Layout
from tests import bad_arguments, bad_calls, bad_operands, bad_programs, bad_shapes
from tests.bad_calls import Bad, Bench

TABLES = {
    "freed": bad_calls.FREED,
    "foreign": bad_calls.FOREIGN,
    "sizes": bad_calls.SIZES,
    "dtypes": bad_calls.DTYPES,
    "shapes": bad_shapes.SHAPES,
    "arguments": bad_operands.ARGUMENTS,
    "beside arrays": bad_arguments.ARGUMENTS,
    "arrays": bad_programs.ARRAYS,
    "programs": bad_programs.PROGRAMS,
}
CASES = [pytest.param(case, id=f"{table}: {case.name}") for table, cases in TABLES.items() for case in cases]


@pytest.fixture(scope="module")
def others() -> Iterator[dict[str, hg.Executor]]:
    """A second executor for each backend."""
    opened: dict[str, hg.Executor] = {}
    yield opened
    for executor in opened.values():
        executor.close()


@pytest.fixture
def bench(executor: hg.Executor, others: dict[str, hg.Executor]) -> Bench:
    if executor.backend not in others:
        others[executor.backend] = hg.Executor(executor.backend)
    return Bench(executor, others[executor.backend])


def sound(executor: hg.Executor) -> bool:
    """Whether the executor computes right: an operation, a reduction and a program."""
    x = executor.tensor(np.arange(100, dtype=np.float32))
    out = executor.allocate(100)
    hg.ops.vector_add(executor, x, 1.0, out)
    program = executor.tensor(np.zeros(100, np.float32))
    executor.run(bad_calls.ADD, {"x": x, "out": program}, lanes=100, s=2.0)
    return (
        bool((out.to_numpy() == np.arange(1, 101)).all())
        and hg.sum(x).item() == 4950
        and bool((program.to_numpy() == np.arange(2, 102)).all())
    )


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_refused(case: Bad, bench: Bench) -> None:
    executor = bench.ex
    before = executor.memory_stats()["count"]
    with pytest.raises(case.error, match=f"(?s){case.match}") as caught:
        case.call(bench)
    del caught
    bench.kept.clear()
    assert sound(executor)
    if executor.memory_stats()["count"] > before:  # what the traceback's frames held
        gc.collect()
    assert executor.memory_stats()["count"] <= before


@pytest.mark.parametrize(("stride", "offset"), [(1, 50), (1, -1), (2, 0), (1, 1_000_000_000)])
@pytest.mark.parametrize("how", ["eager", "jit", "read", "read in place"])
def test_a_view_past_its_end_is_refused_each_time(
    executor: hg.Executor, how: str, stride: int, offset: int
) -> None:
    """Also where such a launch is known already."""
    x = executor.ones((100,))
    jitted = hg.jit(lambda a, b: a * b + 1.0)
    jitted(x, x)
    bad = hg.Tensor(x.buffer, Layout(x.dtype, (100,), (stride,), offset))
    calls: dict[str, Any] = {
        "eager": lambda: bad + x,
        "jit": lambda: jitted(bad, x),
        "read": bad.to_numpy,
        "read in place": lambda: bad.to_numpy(copy=False),
    }
    for _ in range(2):
        with pytest.raises(hg.ShapeError, match="reaches"):
            calls[how]()
