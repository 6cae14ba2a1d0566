"""The source of kernels: of an open device, and of every backend without one."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from hologram.atlas.program import Program
from hologram.backends import registry
from hologram.foundation import dtypes
from hologram.foundation.errors import BackendUnavailable, UnsupportedDType
from hologram.machine.layout import Layout
from hologram.machine.plan import Step, Target, Tile
from hologram.opset import OPERATIONS
from tests.backends import emulated
from tests.golden.programs import PROGRAMS

# What the text of a kernel has in each language: its start, for a Program and for a Tile.
MARKS = {
    "cpu": ('define void @"{name}.all"', "; {name} (matmul): "),
    "webgpu": ("fn {name}(", "fn {name}("),
    "cuda": ("{name}(", "{name}("),
    "metal": ("kernel void {name}(", "kernel void {name}("),
}


def product(limits: Any) -> Step:
    """The step of a matrix product that is a tile."""
    a, b = (Layout.contiguous(dtypes.f32, (256, 256)) for _ in range(2))
    plan = OPERATIONS["matmul"].plan([a, b], [a], {}, Target(limits))
    (step,) = (s for s in plan.steps if isinstance(s.kernel, Tile))
    return step


@pytest.mark.parametrize("name", ["add_f32", "silu_f16", "softmax_f32"])
def test_a_device_gives_the_source_of_a_program(executor: Any, name: str) -> None:
    program = PROGRAMS[name]
    text = executor.device.source(program, (64, 32)[: program.rank])
    program_mark, _ = MARKS[executor.backend]
    assert program_mark.format(name=program.name) in text


def test_a_device_gives_the_source_of_a_tile(executor: Any) -> None:
    step = product(executor.limits)
    text = executor.device.source(step.kernel, step.grid, step.scalars)
    _, tile_mark = MARKS[executor.backend]
    assert tile_mark.format(name=step.kernel.name) in text


@pytest.mark.parametrize("kind", MARKS)
def test_a_backend_gives_source_without_a_device(kind: str) -> None:
    program = PROGRAMS["softmax_f32"]
    text = registry.source(kind, program, (64, 32))
    assert MARKS[kind][0].format(name=program.name) in text


@pytest.mark.parametrize("kind", [k for k in MARKS if k != "cpu"])
def test_a_hand_written_kernel_without_a_device(kind: str) -> None:
    step = product(limits_of(kind))
    assert isinstance(step.kernel, Tile)
    text = registry.source(kind, step.kernel, step.grid)
    assert MARKS[kind][1].format(name=step.kernel.name) in text


def test_every_backend_is_asked() -> None:
    assert set(registry.discover()) - set(emulated.NAMES) == set(MARKS)


def test_a_language_without_the_dtype_says_so() -> None:
    program: Program = PROGRAMS["add_f32"]
    from_f64 = OPERATIONS["exp"].plan(
        [Layout.contiguous(dtypes.f64, (8,))],
        [Layout.contiguous(dtypes.f64, (8,))],
        {},
        Target(limits_of("metal")),
    )
    with pytest.raises(UnsupportedDType, match="f64"):
        registry.source("metal", from_f64.steps[0].kernel, (8,))
    with pytest.raises(BackendUnavailable, match="abacus"):
        registry.source("abacus", program, (8,))


def limits_of(backend: str) -> Any:
    return importlib.import_module(f"hologram.backends.{backend}.reference").LIMITS


def test_an_empty_grid_has_no_code_on_the_cpu() -> None:
    text = registry.source("cpu", PROGRAMS["softmax_f32"], (0, 4))
    assert text == "; nothing is launched: the grid is empty"
