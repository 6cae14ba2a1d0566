"""Every operation comes out in CUDA C++ and MSL; one program of each is compiled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hologram.atlas.program import Program
from hologram.compiler.pipeline import held
from hologram.foundation import dtypes
from hologram.foundation.dtypes import f64
from hologram.machine.layout import Layout
from hologram.machine.plan import Target
from hologram.opset import OPERATIONS
from hologram.opset.forms.composite import Composite
from hologram.opset.forms.operation import Operation
from tests.compiler.source.test_native import LANGUAGES, LIMITS, compile_cubin, spelled
from tests.shaders.emulator import Emulation

PLANNED = [o for o in OPERATIONS.values() if not isinstance(o, Composite)]


def programs(operation: Operation) -> Iterator[Program]:
    """The programs of a few samples of every dtype."""
    for dtype in operation.dtypes:
        for sample in list(operation.samples(np.random.default_rng(0), dtype))[:4]:
            operands, attributes = operation.bind(sample.operands, sample.attributes)
            inputs = [layout(o) for o in operands]
            plan = operation.plan(inputs, operation.infer(inputs, attributes), attributes, Target(LIMITS))
            for step in plan.steps:
                if isinstance(step.kernel, Program):
                    yield held(step.kernel)


def layout(operand: Any) -> Any:
    if isinstance(operand, np.ndarray):
        return Layout.contiguous(dtypes.dtype(operand.dtype), operand.shape)
    return operand


def uses_f64(program: Program) -> bool:
    return f64 in {*program.types.values(), *(p.dtype for p in (*program.buffers, *program.scalars))}


@pytest.mark.parametrize("language", ["cuda", "metal"])
def test_every_operation_is_spelled(language: str):
    first = {}
    for operation in PLANNED:
        for program in dict.fromkeys(programs(operation)):
            if language == "metal" and uses_f64(program):
                continue
            source = spelled(replace(program, name=f"{program.name}_{len(first)}"), language)
            first.setdefault(operation.name, source)
    assert len(first) > 100
    Emulation(first, LANGUAGES[language]().suffix)
    for source in first.values() if language == "cuda" else ():
        assert source.entry.encode() in compile_cubin(source.text, "sm_75")
