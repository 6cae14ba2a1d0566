"""The tile kernels, through the plans that ask for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from hologram.backends.cpu.device import CpuDevice
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.foundation.errors import CompileError
from hologram.machine.kernel import Binding
from hologram.machine.layout import Layout
from hologram.machine.plan import Target, Tile
from hologram.opset.forms.operation import Operation
from hologram.opset.matmul import linear, matmul
from tests.backends.cpu.llvm.launching import device, place


def compute(
    cpu: CpuDevice,
    operation: Operation,
    inputs: list[np.ndarray | None],
    dtype: DType,
    attributes: Mapping[str, Any],
) -> np.ndarray:
    """The operation's first output, planned and run on the device."""
    layouts = [None if x is None else Layout.contiguous(dtype, x.shape) for x in inputs]
    outputs = operation.infer(layouts, attributes)
    plan = operation.plan(layouts, outputs, attributes, Target(cpu.limits))
    memories = [place(cpu, np.zeros(1) if x is None else x) for x in inputs]
    memories += [cpu.allocate(o.size * o.dtype.itemsize) for o in outputs]
    memories += [cpu.allocate(s.size * s.dtype.itemsize) for s in plan.scratch]
    for step in plan.steps:
        bindings = [Binding(memories[k], 0, memories[k].nbytes) for k in step.operands]
        cpu.compile(step.kernel).bind(bindings, step.scalars, step.grid)()
    out = outputs[0]
    memory = memories[len(inputs)]
    return memory.bytes[: out.size * out.dtype.itemsize].view(out.dtype.numpy).reshape(out.shape)


SHAPES = [((33, 20), (20, 41)), ((2, 5, 4), (4, 3)), ((3, 1, 4, 6), (2, 6, 5)), ((7,), (7, 3))]


@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.f64, dtypes.f16, dtypes.bf16, dtypes.i32], ids=str)
@pytest.mark.parametrize(
    "shapes", [((33, 20), (20, 41)), ((2, 5, 4), (4, 3)), ((3, 1, 4, 6), (2, 6, 5)), ((7,), (7, 3))], ids=str
)
def test_matmul(dtype: DType, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, s).astype(dtype.numpy) for s in shapes)
    expected = np.matmul(a.astype(np.float64), b.astype(np.float64))
    np.testing.assert_array_equal(compute(device(), matmul, [a, b], dtype, {}).astype(np.float64), expected)


@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.f64, dtypes.f16], ids=str)
@pytest.mark.parametrize("has_bias", [False, True])
def test_linear(dtype: DType, has_bias: bool) -> None:
    """Bias and activation of the epilogue."""
    rng = np.random.default_rng(0)
    x, weight, bias = (rng.integers(-3, 4, s).astype(dtype.numpy) for s in ((2, 9, 20), (41, 20), (41,)))
    ours = compute(device(), linear, [x, weight, bias if has_bias else None], dtype, {"activation": "relu"})
    expected = np.maximum(x.astype(np.float64) @ weight.astype(np.float64).T + (bias if has_bias else 0), 0)
    np.testing.assert_array_equal(ours.astype(np.float64), expected)


def test_unknown_tile() -> None:
    with pytest.raises(CompileError, match="no kernel named juggle"):
        device().compile(Tile("juggle", (), ()))
