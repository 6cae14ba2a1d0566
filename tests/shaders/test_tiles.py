"""Hand-written CUDA C++ and MSL without their hardware: NVRTC compiles the files, clang runs them on the CPU.

Operations are planned for the adapter that would use a kernel; the plan's programs go through the evaluator, its tiles
through the emulation, and the results are held to the operations' references.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from hologram.atlas.evaluate import evaluate
from hologram.backends.cuda.dialect import cuda
from hologram.backends.metal.dialect import msl
from hologram.compiler.pipeline import lower
from hologram.compiler.source.shader import Shader, load
from hologram.foundation import dtypes
from hologram.machine.layout import Layout
from hologram.machine.plan import Plan, Target, Tile
from hologram.opset import OPERATIONS
from hologram.opset.forms.operation import Operation, Sample
from hologram.opset.tiles import product_tile
from hologram.opset.tiles.convolution import Convolution
from hologram.opset.tiles.product import product_plan
from tests.accuracy import check, widened
from tests.compiler.source.test_native import compile_cubin
from tests.devices import limits
from tests.opset.test_epilogues import residual
from tests.shaders import emulator

pytestmark = pytest.mark.sampled(2)

DIALECTS = {"metal": msl, "cu": cuda}
NAMES = ("matmul", "linear", "scaled_dot_product_attention", "conv1d", "conv2d", "cumsum", "argsort", "topk")


ADAPTERS = {  # a subgroup has as many threads as the emulation's
    "workgroup": {"software": False},
    "register": {"software": True},
    "subgroup": {"software": True, "subgroup": 8},
}


def further_samples(name: str) -> list[Sample]:
    """What makes tiles of other sizes than the operation's own samples do."""
    rng = np.random.default_rng(1)
    if name == "argsort":  # five blocks, of few values
        return [Sample((rng.integers(-3, 4, (2, 4_500)).astype(np.float32),), {"axis": 1})]
    if name == "scaled_dot_product_attention":  # halves, in blocks
        q, *pools = (
            rng.standard_normal(s).astype(np.float32) for s in ((2, 6, 1, 24), (5, 2, 32, 24), (5, 2, 32, 72))
        )
        k, v = (pool.astype(np.float16) for pool in pools)
        v[4, :, 2, 0], v[4, :, 3, 1:3] = 3e-6, [np.inf, np.nan]
        lengths, table = np.array([[70], [96]], np.int32), np.array([[2, 0, 1], [4, 3, 3]], np.int32)
        return [Sample((q, k, v, None, lengths, None, None, table, None), {"enable_gqa": True})]
    if name == "conv2d":  # workgroups of 16 x 16, the last ones not full
        x, weight, bias = (
            rng.integers(-3, 4, s).astype(np.float32) for s in ((3, 8, 71, 73), (72, 8, 1, 1), (72,))
        )
        return [Sample((x, weight, bias), {})]
    return []


@dataclass(frozen=True)
class Case:
    """An operation's sample, planned for an adapter."""

    operation: Operation
    sample: Sample
    plan: Plan
    outputs: tuple[Layout, ...]
    operands: tuple[Any, ...]  # of the plan: the sample's, and what an epilogue reads
    after: Callable[[np.ndarray], np.ndarray] = lambda x: x  # what an epilogue makes of the reference


def cases() -> list[Case]:
    found = []
    for name, changes in [(n, c) for n in NAMES for c in ADAPTERS.values()]:
        operation = OPERATIONS[name]
        adapter = limits(**changes)
        samples = [*operation.samples(np.random.default_rng(0), dtypes.f32), *further_samples(name)]
        for sample in samples:
            inputs = [
                Layout.contiguous(dtypes.dtype(o.dtype), o.shape) if isinstance(o, np.ndarray) else o
                for o in sample.operands
            ]
            attributes = dict(operation.attributes) | dict(sample.attributes)
            outputs = operation.infer(inputs, attributes)
            plan = operation.plan(inputs, outputs, attributes, Target(adapter))
            if any(isinstance(s.kernel, Tile) for s in plan.steps):
                found.append(Case(operation, sample, plan, outputs, sample.operands))
    return [*found, *epilogue_cases(), *candidate_cases()]


def epilogue_cases() -> list[Case]:
    """Tiles whose epilogue counts the rows of a whole batch, or of all images."""
    rng = np.random.default_rng(2)
    a, b, x, weight = (
        rng.integers(-3, 4, s).astype(np.float32)
        for s in ((3, 21, 33), (3, 33, 18), (2, 4, 9, 8), (18, 4, 3, 3))
    )
    bias, rest = rng.integers(-3, 4, (18,)), rng.integers(-3, 4, (2 * 7 * 6, 18))
    further = (bias.astype(np.float32), rest.astype(np.float32))

    def after(results: np.ndarray) -> np.ndarray:
        last = np.moveaxis(results, 1, -1) if results.ndim == 4 else results
        flat = last.reshape(-1, 18)
        flat = flat + bias + 2 * rest[: len(flat)] + np.arange(len(flat))[:, None]
        flat = np.maximum(flat, 0).reshape(last.shape)
        return np.moveaxis(flat, -1, 1) if results.ndim == 4 else flat

    found = []
    for name, left, right in (("matmul", a, b), ("conv2d", x, weight)):
        operation = OPERATIONS[name]
        first, second = (Layout.contiguous(dtypes.f32, i.shape) for i in (left, right))
        attributes = dict(operation.attributes)
        inputs = [first, second, *(None for _ in operation.operands[2:])]
        outputs = operation.infer(inputs, attributes)
        for changes in ADAPTERS.values():
            adapter = limits(**changes)
            if isinstance(operation, Convolution):
                plan = operation.finished(
                    (first, second, None), outputs[0], attributes, Target(adapter), residual(18)
                )
            else:
                plan = product_plan(first, second, outputs[0], dtypes.f32, Target(adapter), residual(18))
            sample = Sample((left, right))
            found.append(Case(operation, sample, plan, outputs, (left, right, *further), after))
    return found


def candidate_cases() -> list[Case]:
    """Tiles of other shapes, operands that lie across k, and parts of k that are added up."""
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-3, 4, s).astype(np.float32) for s in ((20, 518), (518, 36)))
    sizes = (1, 20, 518, 36)
    outputs = (Layout.contiguous(dtypes.f32, (20, 36)),)
    unusual = [(64, 1), (1, 64), (16, 8)]
    found = []
    for changes in (ADAPTERS["workgroup"], ADAPTERS["subgroup"]):
        adapter = limits(**changes)
        for candidate in product_tile.candidates(sizes, dtypes.f32, adapter):
            flat = candidate.threads in unusual or dict(candidate.constants).get("QUADS_M") == 1
            if not (flat or candidate.stem == "matmul_subgroup"):
                continue
            crossed = candidate.parts > 1
            lying = (np.ascontiguousarray(a.T), np.ascontiguousarray(b.T)) if crossed else (a, b)
            layouts = [Layout.contiguous(dtypes.f32, i.shape) for i in lying]
            first, second = (i.permute((1, 0)) if crossed else i for i in layouts)
            plan = product_plan(
                first,
                second,
                outputs[0],
                dtypes.f32,
                Target(adapter, lambda problem, chosen=candidate: chosen),
            )
            found.append(Case(OPERATIONS["matmul"], Sample((a, b)), plan, outputs, lying))
    return found


CASES = cases()
TILES = list(dict.fromkeys(s.kernel for c in CASES for s in c.plan.steps if isinstance(s.kernel, Tile)))


def spelled(tile: Tile, suffix: str) -> Shader:
    dialect = DIALECTS[suffix]()
    epilogue = None if tile.epilogue is None else lower(tile.epilogue, dialect)
    return load(replace(tile, epilogue=epilogue), dialect)


def _launcher(number: int, tile: Tile, shader: Shader, suffix: str) -> str:
    own = [b.name for b in tile.buffers]
    extra = [b.name for b in tile.epilogue.buffers if b.name in own] if tile.epilogue else []
    count = len(own) - len(extra)
    arguments = [f"emulation::Pointer{{buffers[{k}]}}" for k in range(count)]
    arguments.append("emulation::Reference{words}")
    if "ACC" in dict(tile.types):
        arguments.append("emulation::Reference{epilogue}")
    if suffix == "metal":
        x, y, z = (f"emulation::place.group[{k}]" for k in range(3))
        arguments += [f"metal::uint3{{{x}, {y}, {z}}}", "emulation::place.index"]
    return (
        f'extern "C" int launch_{number}(void** buffers, void* words, const unsigned* groups, unsigned threads) {{\n'
        f"    void** epilogue = buffers + {count};\n"
        f"    return emulation::run(groups, threads, [=] {{ kernel_{number}::{shader.entry}"
        f"({', '.join(arguments)}); }});\n}}"
    )


@pytest.fixture(scope="module", params=DIALECTS)
def library(request: pytest.FixtureRequest) -> ctypes.CDLL:
    """Every tile of the cases in one shared library."""
    suffix = request.param
    text = []
    for number, tile in enumerate(TILES):
        shader = spelled(tile, suffix)
        # In a namespace of its own each, as several declare the same entry point.
        inner = shader.text.replace('extern "C" __global__', "__global__")
        text += [f"namespace kernel_{number} {{", inner, "}", _launcher(number, tile, shader, suffix)]
    return ctypes.CDLL(str(emulator.library("\n".join(text), suffix)))


def run(library: ctypes.CDLL, case: Case) -> list[np.ndarray]:
    """The outputs of a plan, run step by step in NumPy memory."""
    memory: list[Any] = [np.ravel(o).copy() if isinstance(o, np.ndarray) else o for o in case.operands]
    memory += [np.full(o.size, 77, o.dtype.numpy) for o in case.outputs]
    memory += [np.full(s.size, 77, s.dtype.numpy) for s in case.plan.scratch]
    for step in case.plan.steps:
        arrays = [memory[k] for k in step.operands]
        if isinstance(step.kernel, Tile):
            launch(library, step.kernel, arrays, step.scalars, step.grid)
        else:
            names = [b.name for b in step.kernel.buffers]
            scalars = {s.name: v for s, v in zip(step.kernel.scalars, step.scalars, strict=True)}
            evaluate(step.program, dict(zip(names, arrays, strict=True)), scalars, step.grid)
    first = len(case.operands)
    return [memory[first + k].reshape(o.shape) for k, o in enumerate(case.outputs)]


def launch(
    library: ctypes.CDLL,
    tile: Tile,
    arrays: Sequence[np.ndarray],
    scalars: Sequence[Any],
    grid: Sequence[int],
) -> None:
    words = ctypes.create_string_buffer(spelled(tile, "cu").pack(scalars))
    addresses = (ctypes.c_void_p * (len(arrays) + 1))(*(a.ctypes.data for a in arrays))
    groups = (ctypes.c_uint * 3)(*(*grid, 1, 1)[:3])
    entry = library[f"launch_{TILES.index(tile)}"]
    assert entry(addresses, words, groups, ctypes.c_uint(int(np.prod(tile.workgroup)))) == 0, (
        "a barrier was missed"
    )


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.operation.name)
def test_emulated_tiles_compute(case: Case, library: ctypes.CDLL):
    wanted = case.operation.reference(*map(widened, case.sample.operands), **case.sample.attributes)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    wanted = tuple(map(case.after, wanted))
    for got, want, layout in zip(run(library, case), wanted, case.outputs, strict=True):
        check(got, want, layout.dtype, case.operation.ulp, case.operation.absolute, case.sample.operands)


@pytest.mark.parametrize("architecture", ["sm_75", "sm_90"])
@pytest.mark.parametrize("stem", sorted({t.stem for t in TILES}))
@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.f16, dtypes.f64], ids=str)
def test_nvrtc_compiles_a_tile(stem: str, dtype: dtypes.DType, architecture: str):
    tile = next(t for t in TILES if t.stem == stem and t.epilogue is None)
    narrow = tuple((n, dtype if d is dtypes.f32 and n == "T" else d) for n, d in tile.types)
    shader = spelled(replace(tile, types=narrow), "cu")
    cubin = compile_cubin(shader.text, architecture)
    assert shader.entry.encode() in cubin
