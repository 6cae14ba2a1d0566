"""Shapes without execution: every operation says, from layouts alone, what it gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.machine.layout import Layout
from hologram.opset import OPERATIONS
from hologram.opset.forms.operation import Operation
from tests.test_ops import call, results_of, upload

pytestmark = pytest.mark.sampled(3)


def layouts_of(operand: Any) -> Any:
    if isinstance(operand, tuple):
        return tuple(map(layouts_of, operand))
    if isinstance(operand, np.ndarray):
        return Layout.contiguous(hg.dtypes.dtype(operand.dtype), operand.shape)
    return operand


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=lambda o: o.name)
def test_inferred_as_computed(operation: Operation, executor: hg.Executor) -> None:
    """In one dtype of each kind: how they combine depends on nothing else."""
    for dtype in {d.kind: d for d in operation.dtypes if d in executor.limits.dtypes}.values():
        seen: set[Any] = set()
        for sample in operation.samples(np.random.default_rng(0), dtype):
            inputs, attributes = operation.bind(sample.operands, sample.attributes)
            inferred = operation.infer(tuple(map(layouts_of, inputs)), attributes)
            wanted = [(x.dtype, x.shape) for x in inferred]
            if str(wanted) in seen:
                continue
            seen.add(str(wanted))
            got = results_of(call(operation, executor, upload(executor, sample.operands), sample))
            assert [(x.dtype, x.shape) for x in got] == wanted


def test_nothing_runs(executor: hg.Executor) -> None:
    x = Layout.contiguous(hg.f32, (1 << 20, 1 << 20))  # more than there is memory for
    before = executor.memory_stats()["count"]
    together: Any = (x, x, x)
    (stacked,) = OPERATIONS["stack"].infer((together,), {"axis": 1})
    assert stacked.shape == (1 << 20, 3, 1 << 20)
    (loss,) = OPERATIONS["mse_loss"].infer((x, x), {"reduction": "mean"})
    assert (loss.shape, loss.dtype) == ((), hg.f32)
    with pytest.raises(hg.ShapeError, match="mse_loss: prediction and target must have one shape"):
        OPERATIONS["mse_loss"].infer((x, 1.0), {"reduction": "mean"})
    assert executor.memory_stats()["count"] == before
