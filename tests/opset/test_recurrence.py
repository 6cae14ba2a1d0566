"""Recurrent layers as one plan, there and back: on every backend what NumPy says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.foundation.errors import ShapeError, UnsupportedDType
from hologram.machine.layout import Layout
from hologram.machine.plan import Target
from hologram.opset.forms.operation import Operation
from hologram.opset.neural import recurrent_whole
from hologram.opset.neural.recurrence import recurrence_gradients, recurrences
from tests.devices import limits


@pytest.fixture(params=["one kernel", "steps"])
def way(
    request: pytest.FixtureRequest, executor: hg.Executor, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """Both ways that a CPU has, elsewhere there are steps alone; and steps of kernels that see few buffers."""
    if request.param == "steps":
        target = executor.target
        few = replace(target.limits, max_bindings=7)
        monkeypatch.setattr(recurrent_whole, "MOST_WEIGHTS", 0)
        monkeypatch.setattr(executor, "target", replace(target, limits=few))
    executor.structures.clear()
    yield request.param
    executor.structures.clear()


BOUND = {"f32": 2e-5, "f64": 1e-12}


@pytest.mark.parametrize("dtype", [hg.float32, hg.float64], ids=str)
@pytest.mark.parametrize("operation", [*recurrences.values(), *recurrence_gradients.values()], ids=str)
def test_samples(operation: Operation, dtype: Any, way: str, executor: hg.Executor) -> None:
    if dtype not in executor.limits.dtypes:
        with pytest.raises(UnsupportedDType):
            executor.tensor(np.zeros(3, dtype.numpy))
        return
    count = 0
    for sample in operation.samples(np.random.default_rng(7), dtype):
        given = [x if x is None else executor.tensor(x) for x in sample.operands]
        # Whatever the strides of what lies in memory otherwise.
        given[1] = executor.tensor(np.ascontiguousarray(sample.operands[1].T)).mT
        exact = [x if x is None or x.dtype == np.int32 else x.astype(np.float64) for x in sample.operands]
        if not sample.operands[0].shape[0] and operation in recurrences.values():
            found = operation(*given, **sample.attributes)
            np.testing.assert_array_equal(found[1].to_numpy(), sample.operands[2])
            continue
        found, wanted = (
            operation(*given, **sample.attributes),
            operation.reference(*exact, **sample.attributes),
        )
        for got, want in zip(found, wanted, strict=True):
            assert got.shape == want.shape
            np.testing.assert_allclose(got.to_numpy(), want, rtol=BOUND[dtype.name], atol=BOUND[dtype.name])
            count += 1
    assert count > 20


def test_a_longer_sequence_compiles_nothing(way: str, executor: hg.Executor) -> None:
    """Its kernels are those of a short one: one for all times, or two for each."""
    lstm = recurrences["lstm"]

    def kernels(times: int) -> tuple[int, set[Any]]:
        shapes = ((times, 2, 12), (12, 3), (2, 3), (2, 3))
        inputs = [*(Layout.contiguous(hg.float32, s) for s in shapes), None, None, None]
        attributes = {"reverse": False}
        plan = lstm.plan(inputs, lstm.infer(inputs, attributes), attributes, executor.target)
        return len(plan.steps), {s.kernel for s in plan.steps}

    (few, kinds), (many, same) = kernels(5), kernels(50)
    assert kinds == same
    one = executor.limits.host_resident and way == "one kernel"
    assert many - few == (0 if one else 45 * 2)


def test_a_long_sequence(way: str, executor: hg.Executor) -> None:
    rng = np.random.default_rng(1)
    given = [rng.uniform(-0.5, 0.5, s).astype(np.float32) for s in ((700, 3, 6), (6, 6), (3, 6))]
    operation = recurrences["rnn_tanh"]
    found = operation(*map(executor.tensor, given))
    for got, wanted in zip(found, operation.reference(*(x.astype(np.float64) for x in given)), strict=True):
        np.testing.assert_allclose(got.to_numpy(), wanted, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"weight": (12, 4)}, ShapeError, r"lstm: weight must have shape \(12, 3\), got \(12, 4\)"),
        ({"hidden": (3, 3)}, ShapeError, r"hidden must have shape \(2, 3\)"),
        ({"gates": (4, 2, 13)}, ShapeError, r"gates \(times, batch, 4 \* width\)"),
        ({"cell": None}, ShapeError, "a cell is needed"),
        ({"lengths": (5,)}, ShapeError, r"lengths must have shape \(2,\)"),
    ],
)
def test_refused(change: dict[str, Any], error: type[Exception], words: str, executor: hg.Executor) -> None:
    shapes = {"gates": (4, 2, 12), "weight": (12, 3), "hidden": (2, 3), "cell": (2, 3)} | change
    given = {
        n: s if s is None else executor.zeros(s, hg.int32 if n == "lengths" else hg.float32)
        for n, s in shapes.items()
    }
    with pytest.raises(error, match=words):
        recurrences["lstm"](**given)


def test_dtypes_are_one(executor: hg.Executor) -> None:
    zeros = executor.zeros
    with pytest.raises(UnsupportedDType, match="operands must be all f32 or all f64, got f16, f32"):
        recurrences["rnn_tanh"](zeros((4, 2, 3)), zeros((3, 3), hg.float16), zeros((2, 3)))
    with pytest.raises(UnsupportedDType, match="lengths must be i32, got f32"):
        recurrences["rnn_tanh"](zeros((4, 2, 3)), zeros((3, 3)), zeros((2, 3)), lengths=zeros((2,)))


@pytest.mark.parametrize("operation", recurrence_gradients.values(), ids=str)
def test_a_kernel_sees_no_more_buffers_than_it_may(
    operation: Operation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recurrent_whole, "MOST_WEIGHTS", 0)
    for sample in operation.samples(np.random.default_rng(7), hg.f32):
        given = tuple(
            x if x is None else Layout.contiguous(hg.dtypes.dtype(x.dtype), x.shape) for x in sample.operands
        )
        outputs = operation.infer(given, sample.attributes)
        plan = operation.plan(given, outputs, sample.attributes, Target(limits(max_bindings=7)))
        assert all(len(step.kernel.buffers) <= 7 for step in plan.steps)
