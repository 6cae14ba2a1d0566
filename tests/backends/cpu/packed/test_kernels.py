"""The CPU's kernels of packed weights: where there is no compiler, on several threads, and for other processors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.atlas.program import Program
from hologram.backends.cpu.packed.blocks import Blocks
from hologram.backends.cpu.packed.bytes import ByteBlocks
from hologram.backends.cpu.packed.decoding import Machine
from hologram.backends.cpu.packed.experts import Experts
from hologram.backends.cpu.packed.kernel import (
    ExpertsKernel,
    ProductKernel,
    WeightsKernel,
    format_of,
    machine_of,
    writer_of,
)
from hologram.backends.cpu.packed.rows import Rows
from hologram.backends.cpu.packed.slabs import Slabs
from hologram.backends.cpu.products.tiles import memory_of
from hologram.compiled.machine_code.engine import Engine, shared_engine
from hologram.foundation.dtypes import f16, f32
from hologram.machine.kernel import Binding
from hologram.machine.plan import PACKED_PRODUCT, PACKED_WEIGHTS, Target
from hologram.opset.packed.experts import packed_experts
from hologram.opset.packed.formats import FORMATS
from hologram.opset.packed.linear import packed_linear
from hologram.opset.packed.weights import PLANES, packed_numbers
from tests.packed.blocks import SCALES, blocks, reference, same_bits


@pytest.fixture(scope="module")
def cpu():
    with hg.Executor("cpu") as executor:
        yield executor


def steps_of(operation, cpu, packed, x=None, chosen=None) -> Any:
    """The plan of an operation on a packed matrix."""
    layouts = [p.layout if (p := packed.planes.get(n)) is not None else None for n in PLANES]
    settings = {"format": packed.format.name, "columns": packed.columns}
    if x is None:
        settings["dtype"] = "f32"
    else:
        settings |= {"activation": "none", "gated": False}
        if chosen is None:
            layouts = [x.layout, *layouts, None]
        else:
            layouts = [x.unsqueeze(1).layout, chosen.layout, *layouts]
            settings["experts"] = 3
    outputs = operation.infer(layouts, settings)
    return operation.plan(layouts, outputs, settings, Target(cpu.limits)).steps


def launched(kernel, step, arrays):
    """Binds a step to arrays, which it is to write the last of, and launches it."""
    memories = [memory_of(a) for a in arrays]
    kernel.bind([Binding(m, 0, m.bytes.size) for m in memories], step.scalars, step.grid)()
    return arrays[-1]


@pytest.mark.parametrize("kind", ["Q4_1", "Q6_K", "IQ4_NL", "Q2_K"])
def test_where_there_is_no_compiler(kind, cpu):
    data = blocks(np.random.default_rng(0), kind, 9, 512)
    packed, weights = hg.Packed.from_gguf(data, kind, (9, 512), cpu), reference(data, kind, (9, 512))
    planes = [packed.planes[n].to_numpy() for n in PLANES if n in packed.planes]
    (step,) = steps_of(packed_numbers, cpu, packed)
    kernel = WeightsKernel(step.kernel, None)
    assert same_bits(launched(kernel, step, [*planes, np.zeros((9, 512), np.float32)]), weights)
    x = np.random.default_rng(1).normal(0, 1, (3, 512)).astype(np.float32)
    (step,) = steps_of(packed_linear, cpu, packed, cpu.tensor(x))
    found = launched(ProductKernel(step.kernel, None), step, [x, *planes, np.zeros((3, 9), np.float32)])
    assert np.allclose(found, x @ weights.T, rtol=1e-4, atol=1e-3)
    chosen = np.array([2, -1, 0, 3, 1, 1], np.int64)
    (step,) = steps_of(packed_experts, cpu, packed, cpu.tensor(x), cpu.tensor(chosen.reshape(3, 2)))
    arrays = [x, chosen, *planes, np.zeros((6, 3), np.float32)]
    found = launched(ExpertsKernel(step.kernel, None), step, arrays)
    own = np.append(weights.reshape(3, 3, 512), np.zeros((1, 3, 512), np.float32), axis=0)
    wanted = np.einsum("pk,prk->pr", x.repeat(2, 0), own[[2, 2, 0, 3, 1, 1]])
    assert np.allclose(found, wanted, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("kind", ["Q8_0", "Q5_K"])
def test_many_pairs_are_shared_among_threads(kind, cpu):
    shape, experts = (8 * 300, 512), 8
    data = blocks(np.random.default_rng(0), kind, *shape)
    packed, weights = hg.Packed.from_gguf(data, kind, shape, cpu), reference(data, kind, shape)
    weights = weights.astype(np.float64).reshape(experts, -1, shape[1])
    rng = np.random.default_rng(1)
    x = rng.normal(0, 1, (150, 512)).astype(np.float32)
    chosen = rng.integers(0, experts, (150, 2))
    found = packed.experts(cpu.tensor(x[:, None]), cpu.tensor(chosen), experts).to_numpy()
    bound = 2.0**-15 * np.abs(x).max(1)[:, None, None] * np.abs(weights).sum(2)[chosen]
    assert (np.abs(found - np.einsum("nk,nurk->nur", x.astype(np.float64), weights[chosen])) <= bound).all()


@pytest.mark.parametrize("kind", ["Q8_0", "Q5_K"])
def test_many_rows_of_weights_are_shared_among_threads(kind, cpu):
    shape = (3001, 1792)
    data = blocks(np.random.default_rng(0), kind, *shape)
    packed, weights = (
        hg.Packed.from_gguf(data, kind, shape, cpu),
        reference(data, kind, shape).astype(np.float64),
    )
    assert same_bits(packed.dequantize().to_numpy(), weights.astype(np.float32))
    for rows in (1, 7, 15, 33, 140):
        x = np.random.default_rng(rows).normal(0, 1, (rows, shape[1])).astype(np.float32)
        found = hg.linear(cpu.tensor(x), packed).to_numpy()
        bound = 2.0**-15 * np.abs(x).max(1, keepdims=True) * np.abs(weights).sum(1)
        assert (np.abs(found - x.astype(np.float64) @ weights.T) <= bound).all()


def test_rows_longer_than_a_segment(cpu):
    shape = (5, 32 * 300)
    data = blocks(np.random.default_rng(0), "Q4_1", *shape)
    packed, weights = hg.Packed.from_gguf(data, "Q4_1", shape, cpu), reference(data, "Q4_1", shape)
    x = np.random.default_rng(1).normal(0, 1, (6, shape[1])).astype(np.float32)
    found = hg.linear(cpu.tensor(x), packed).to_numpy()
    bound = 2.0**-15 * np.abs(x).max(1, keepdims=True) * np.abs(weights).sum(1)
    assert (np.abs(found - x.astype(np.float64) @ weights.T.astype(np.float64)) <= bound).all()


def test_which_kernels_plans_take(cpu):
    packed = hg.Packed.from_gguf(blocks(np.random.default_rng(0), "Q4_0", 4, 64), "Q4_0", (4, 64), cpu)
    (few,) = steps_of(packed_linear, cpu, packed, cpu.zeros((2, 64)))
    assert few.kernel.stem == PACKED_PRODUCT
    assert format_of(few.kernel).centre == 8
    assert [s.kernel.stem for s in steps_of(packed_numbers, cpu, packed)] == [PACKED_WEIGHTS]
    rows = cpu.limits.packed_rows + 1
    many = [
        getattr(s.kernel, "stem", "") for s in steps_of(packed_linear, cpu, packed, cpu.zeros((rows, 64)))
    ]
    assert many[:2] == [PACKED_WEIGHTS, "matmul"]
    odd = hg.Packed.quantize(np.zeros((4, 60)), "int8", cpu)  # no whole units: a program
    assert all(isinstance(s.kernel, Program) for s in steps_of(packed_numbers, cpu, odd))


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("writer", [Rows, Blocks, Experts, Slabs])
def test_code_for_any_processor_compiles(kind, writer):
    # Without instructions that x86 or ARM would be asked for by name; and the machine's own, from f16.
    engine = shared_engine()
    general = writer(FORMATS[kind], f32, Machine("", 128)).text()
    assert "llvm.x86" not in general
    assert engine.compile("general", general)
    assert engine.compile("own", writer(FORMATS[kind], f16, machine_of(engine)).text())


# What processors with less than this one's instructions run.
WITHOUT = {
    "own": "",
    "vectors of 512 bits without VNNI": "avx512vnni",
    "AVX2": "avx512,avxvnni",
    "SSE": "avx",
}


@pytest.mark.parametrize("without", WITHOUT.values(), ids=WITHOUT)
@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("kind", ["Q8_0", "Q4_1", "Q5_0", "Q3_K", "Q6_K", "IQ4_NL"])
def test_more_rows_for_processors_with_fewer_instructions(kind, bits, without, cpu, monkeypatch):
    monkeypatch.setenv("HOLOGRAM_CPU_WITHOUT", without)
    monkeypatch.setenv("HOLOGRAM_CPU_ACTIVATION_BITS", str(bits))
    engine = Engine()
    if engine.problem:
        pytest.skip(engine.problem)
    machine, format = machine_of(engine), FORMATS[kind]
    rounded = 8 if writer_of(21, format, machine) is ByteBlocks else 16
    # Bytes are multiplied where the instructions are there, or sums of two products fit into i16.
    small = kind not in ("Q8_0", "IQ4_NL")
    assert rounded == (
        bits if machine.architecture == "x86" and "avx" != without and (small or not without) else 16
    )
    shape = (37, 1792)  # of more than a segment, and of blocks with a rest
    data = blocks(np.random.default_rng(0), kind, *shape)
    packed, weights = hg.Packed.from_gguf(data, kind, shape, cpu), reference(data, kind, shape)
    planes = [packed.planes[n].to_numpy() for n in PLANES if n in packed.planes]
    x = np.random.default_rng(1).normal(0, 1, (21, shape[1])).astype(np.float32)
    (step,) = steps_of(packed_linear, cpu, packed, cpu.tensor(x))
    kernel = ProductKernel(step.kernel, replace(cpu.device.host, engine=lambda: engine))
    found = launched(kernel, step, [x, *planes, np.zeros((21, 37), np.float32)])
    # An element is off by half a step, of which the largest of its neighbours has 2^(bits - 1) - 1.
    largest = np.abs(x).reshape(21, -1, 32).max(2).repeat(32, axis=1).astype(np.float64)
    bound = largest @ np.abs(weights.T.astype(np.float64)) / (2**rounded - 2)
    error = np.abs(found - x.astype(np.float64) @ weights.T.astype(np.float64))
    assert (error <= bound + 2e-5 * (np.abs(x) @ np.abs(weights.T))).all()
    assert error.max() > 2.0 ** (-4 - rounded) * bound.max()  # it is rounded to no more bits than that


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("kind", ["Q8_0", "Q4_1", "Q6_K"])
def test_more_rows_with_what_is_not_finite(kind, bits, monkeypatch):
    monkeypatch.setenv("HOLOGRAM_CPU_ACTIVATION_BITS", str(bits))
    with hg.Executor("cpu") as executor:
        data = blocks(np.random.default_rng(0), kind, 5, 512).reshape(5, -1)
        data[3, SCALES[kind][0] : SCALES[kind][0] + 2] = np.array([np.nan], np.float16).view(np.uint8)
        packed = hg.Packed.from_gguf(data.reshape(-1), kind, (5, 512), executor)
        x = np.random.default_rng(1).normal(0, 1, (9, 512)).astype(np.float32)
        x[2, 40], x[5, 500] = np.inf, np.nan
        found = hg.linear(executor.tensor(x), packed).to_numpy()
    wanted = np.zeros((9, 5), bool)
    wanted[[2, 5]], wanted[:, 3] = True, True
    assert np.array_equal(np.isnan(found), wanted)


@pytest.mark.parametrize("kind", ["Q5_1", "IQ4_NL", "Q3_K"])
def test_code_for_any_processor_gives_the_same(kind, cpu):
    data = blocks(np.random.default_rng(0), kind, 6, 512)
    packed = hg.Packed.from_gguf(data, kind, (6, 512), cpu)
    planes = [packed.planes[n].to_numpy() for n in PLANES if n in packed.planes]
    x = np.random.default_rng(1).normal(0, 1, (5, 512)).astype(np.float32)
    (step,) = steps_of(packed_linear, cpu, packed, cpu.tensor(x))
    wanted = hg.linear(cpu.tensor(x), packed).to_numpy()
    weights = reference(data, kind, (6, 512))
    engine = Engine()
    engine.architecture, engine.integer_bits, engine.adds_products = "", 128, False
    kernel = ProductKernel(step.kernel, replace(cpu.device.host, engine=lambda: engine))
    found = launched(kernel, step, [x, *planes, np.zeros((5, 6), np.float32)])
    # Sums of as many groups are added up in another order.
    assert np.allclose(found, wanted, rtol=0, atol=1e-5 * (np.abs(x) @ np.abs(weights.T)).max())
