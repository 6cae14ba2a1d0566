"""i64 and u64 on adapters that have none: every instruction against Atlas's own evaluator."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pytest

from hologram.atlas.builder import Builder, Value
from hologram.atlas.evaluate import evaluate
from hologram.atlas.functions import reduce_add, reduce_max, reduce_min
from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Access, Program
from hologram.backends import webgpu
from hologram.backends.webgpu.device import WebGPUDevice
from hologram.backends.webgpu.wgsl.dialect import wgsl
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType, bool_, f16, f32, i8, i32, i64, u8, u32, u64
from hologram.opset import OPERATIONS
from hologram.runtime.engine import Engine

O = Opcode
WIDE = frozenset({i64, u64})
BINARY = (O.ADD, O.SUB, O.MUL, O.DIV, O.REM, O.MIN, O.MAX, O.POW, O.AND, O.OR, O.XOR, O.SHL, O.SHR)
ORDERED = (O.EQ, O.NE, O.LT, O.LE, O.GT, O.GE)
UNARY = (O.NEG, O.NOT, O.ABS)
SOURCES = (f32, i32, u32, i8, u8, bool_)


@pytest.fixture(scope="module")
def shared_device(index: int) -> Iterator[WebGPUDevice]:
    device = webgpu.open_device(index, emulated_dtypes=WIDE)
    yield device
    device.close()


def numbers(dtype: DType) -> np.ndarray:
    """Those at the edges of words and of halves of them, beside some of every length."""
    edges = [
        0,
        1,
        2,
        3,
        5,
        31,
        32,
        33,
        63,
        64,
        65,
        2**15,
        2**16 - 1,
        2**16,
        2**31 - 1,
        2**31,
        2**32 - 1,
        2**32,
    ]
    edges += [2**32 + 1, 2**33 - 1, 2**40 + 2**16, 2**48 - 1, 2**53 + 1, 2**62, 2**63 - 1]
    edges += [-e for e in edges] + [-(2**63)]
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 65, 60)
    values = [*edges, *(int(rng.integers(0, 2**64, dtype=np.uint64)) >> int(64 - n) for n in lengths)]
    return np.array([v & (1 << 64) - 1 for v in values], np.uint64).view(dtype.numpy)


def pairs(dtype: DType) -> tuple[np.ndarray, np.ndarray]:
    values = numbers(dtype)
    x, y = (a.reshape(-1) for a in np.meshgrid(values, values))
    return np.ascontiguousarray(x), np.ascontiguousarray(y)


def run(
    device: WebGPUDevice, upload, download, whole, program: Program, *arrays: np.ndarray, grid, scalars=()
):
    """What the last array, poisoned, holds after a launch; and what the evaluator says."""
    (*inputs, out), names = arrays, [b.name for b in program.buffers]
    out.view(np.uint8)[...] = 0xAB
    expected = {n: a.copy() for n, a in zip(names, arrays, strict=True)}
    evaluate(program, expected, dict(zip((s.name for s in program.scalars), scalars, strict=True)), grid)
    memories = [upload(a) for a in (*inputs, out)]
    device.compile(program).bind(whole(*memories), scalars, grid)()
    return download(memories[-1], out), expected[names[-1]]


@pytest.mark.parametrize("dtype", [i64, u64], ids=str)
@pytest.mark.parametrize("opcode", [*BINARY, *ORDERED], ids=lambda o: o.value)
def test_two_operands(shared_device, upload, download, whole, dtype, opcode) -> None:
    result = bool_ if opcode in ORDERED else dtype
    b = Builder("atlas_pair")
    x, y = b.buffer("x", dtype, Access.READ), b.buffer("y", dtype, Access.READ)
    out, i = b.buffer("out", result, Access.WRITE), b.coordinate(0)
    b.store(out, i, b.emit(opcode, result, b.load(x, i), b.load(y, i)))
    a, c = pairs(dtype)
    found, expected = run(
        shared_device,
        upload,
        download,
        whole,
        b.build(),
        a,
        c,
        np.empty(a.size, result.numpy),
        grid=(a.size,),
    )
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", [i64, u64], ids=str)
@pytest.mark.parametrize("opcode", UNARY, ids=lambda o: o.value)
def test_one_operand(shared_device, upload, download, whole, dtype, opcode) -> None:
    b = Builder("atlas_one")
    x, out, i = b.buffer("x", dtype, Access.READ), b.buffer("out", dtype, Access.WRITE), b.coordinate(0)
    b.store(out, i, b.emit(opcode, dtype, b.load(x, i)))
    a = numbers(dtype)
    found, expected = run(
        shared_device, upload, download, whole, b.build(), a, np.empty_like(a), grid=(a.size,)
    )
    np.testing.assert_array_equal(found, expected)


def converted(source: DType, target: DType) -> Program:
    b = Builder("atlas_converted")
    x, out, i = b.buffer("x", source, Access.READ), b.buffer("out", target, Access.WRITE), b.coordinate(0)
    b.store(out, i, b.load(x, i).to(target))
    return b.build()


@pytest.mark.parametrize("dtype", [i64, u64], ids=str)
@pytest.mark.parametrize("other", [*SOURCES, f16, i64, u64], ids=str)
def test_conversions_from(shared_device, upload, download, whole, dtype, other) -> None:
    """Floats are the nearest, ties to even."""
    a = numbers(dtype)
    near = np.array(
        [(2**24 + 1) << k for k in range(38)] + [((2**24 + 1) << k) + 1 for k in range(1, 38)], dtype.numpy
    )
    a = np.concatenate([a, near])
    found, expected = run(
        shared_device, upload, download, whole, converted(dtype, other), a, np.empty(a.size, other.numpy),
        grid=(a.size,),
    )  # fmt: skip
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", [i64, u64], ids=str)
@pytest.mark.parametrize("other", SOURCES, ids=str)
def test_conversions_to(shared_device, upload, download, whole, dtype, other) -> None:
    """Floats truncate and saturate; NaN gives 0."""
    if other is f32:
        powers = 2.0 ** np.arange(-2, 70, dtype=np.float32)
        a = np.concatenate([powers, np.nextafter(powers, 0), powers * 1.7, [0.0, np.nan, np.inf]]).astype(
            np.float32
        )
        a = np.concatenate([a, -a])
    else:
        a = numbers(i64).astype(other.numpy)
    found, expected = run(
        shared_device, upload, download, whole, converted(other, dtype), a, np.empty(a.size, dtype.numpy),
        grid=(a.size,),
    )  # fmt: skip
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", [i64, u64], ids=str)
def test_loops_scalars_shared_memory_and_constants(shared_device, upload, download, whole, dtype) -> None:
    b = Builder("atlas_mixed", workgroup=8)
    x, out, i = b.buffer("x", dtype, Access.READ), b.buffer("out", dtype, Access.WRITE), b.coordinate(0)
    room, thread = b.shared("room", dtype, 8), b.position(O.THREAD)

    def body(counter: Value, total: Value) -> tuple[Value]:
        return (total * b.constant(2**40 + 7, dtype) + counter,)

    total = b.loop(0, 5, body, dtype=dtype, first=(b.load(x, i) + b.scalar("a", dtype),))[0]
    b.shared_store(room, thread, total)
    b.barrier()
    b.store(out, i, b.shared_load(room, (thread + 1) % 8))
    a = np.resize(numbers(dtype), 64)
    found, expected = run(
        shared_device,
        upload,
        download,
        whole,
        b.build(),
        a,
        np.empty_like(a),
        grid=(64,),
        scalars=(2**45 + 3,),
    )
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", [i64, u64], ids=str)
@pytest.mark.parametrize("fold", [reduce_add, reduce_min, reduce_max], ids=lambda f: f.__name__)
def test_rows(shared_device, upload, download, whole, dtype, fold) -> None:
    b = Builder("atlas_row", rank=2, reduced=1)
    x, out = b.buffer("x", dtype, Access.READ), b.buffer("out", dtype, Access.WRITE)
    row, column = b.coordinate(0), b.coordinate(1)
    b.store(out, row, fold(b.load(x, row * b.extent(1) + column)))
    a = np.random.default_rng(1).permutation(np.resize(numbers(dtype), 5 * 333))
    found, expected = run(
        shared_device, upload, download, whole, b.build(), a, np.empty(5, dtype.numpy), grid=(5, 333)
    )
    np.testing.assert_array_equal(found, expected)


def test_no_word_of_the_language_is_left() -> None:
    dialect = wgsl(frozenset(dtypes.ALL) - {dtypes.f64}, WIDE)
    assert {dialect.types[d] for d in WIDE} == {"vec2<u32>"}
    native = {k for k in wgsl().operators if k[1] in WIDE}
    assert {k for k in dialect.operators if k[1] in WIDE} == native
    for table in (dialect.operators, dialect.conversions, dialect.bitcasts, dialect.parameters):
        for key, template in table.items():
            if dtypes.f64 not in (key if isinstance(key, tuple) else (key,)):
                assert not re.search(r"\b[iu]64\b|\d+l[iu]\b", template), key


def test_positions_of_what_is_largest(index: int) -> None:
    engine = Engine(webgpu.open_device(index, emulated_dtypes=WIDE))
    values = np.random.default_rng(2).normal(size=(7, 1000)).astype(np.float32)
    x, out = engine.allocate(values.shape).from_numpy(values), engine.allocate((7,), i64)
    engine.execute(OPERATIONS["argmax"], [x], [out], {"axis": 1, "keepdims": False})
    np.testing.assert_array_equal(out.to_numpy(), values.argmax(1))
    engine.close()
