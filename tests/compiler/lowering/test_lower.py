"""Lowering to WGSL: what remains is spelled, and computes the same, bit for bit, in the evaluator and on an adapter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from hologram.atlas.builder import Builder
from hologram.atlas.evaluate import evaluate
from hologram.atlas.opcodes import ATOMICS, BITWISE, COMPARISONS, Opcode
from hologram.atlas.program import Access, Program
from hologram.backends.cuda.dialect import cuda
from hologram.backends.webgpu.wgsl.dialect import wgsl
from hologram.compiler.analysis.reassociation import fragile
from hologram.compiler.pipeline import lower
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType, bf16, bool_, f16, f32, f64, i32, i64, index, u8
from hologram.foundation.errors import UnsupportedDType

O = Opcode
Run = Callable[..., None]
ARITHMETIC = (O.ADD, O.SUB, O.MUL, O.DIV, O.REM, O.MIN, O.MAX, O.SHL, O.SHR, O.XOR, O.POW, O.LT, O.NE)


def applied(opcode: Opcode, *types: DType, result: DType) -> Program:
    """out[i] = opcode(x[i], ...)."""
    b = Builder(f"atlas_{opcode.value}_{types[-1]}")
    operands = [b.buffer("xyz"[k], t, Access.READ) for k, t in enumerate(types)]
    out, i = b.buffer("out", result, Access.WRITE), b.coordinate(0)
    b.store(out, i, b.emit(opcode, result, *(b.load(x, i) for x in operands)))
    return b.build()


@np.errstate(over="ignore")
def samples(dtype: DType) -> np.ndarray:
    """Edges and ordinary numbers."""
    rng = np.random.default_rng(3)
    if dtype == bool_:
        return rng.integers(0, 2, 64).astype(bool)
    if dtype.is_float:
        edges = [
            0.0,
            -0.0,
            1.0,
            -1.5,
            2.5,
            np.inf,
            -np.inf,
            np.nan,
            65519,
            2.0**31,
            -(2.0**31),
            2.0**63,
            2.0**64,
            255.5,
            1e-5,
        ]
        return np.concatenate(
            [np.array(edges, np.float32), rng.normal(size=49).astype(np.float32) * 20]
        ).astype(dtype.numpy)
    bounds = np.iinfo(dtype.numpy)
    edges = [bounds.min, bounds.max, 0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 33, 63, 64, bounds.max - 1]
    edges = np.array([e & bounds.max if e > 0 else e for e in edges], object).astype(dtype.numpy)
    return np.concatenate([edges, rng.integers(bounds.min, bounds.max, 48, dtype.numpy, endpoint=True)])


def pairs(dtype: DType) -> tuple[np.ndarray, np.ndarray]:
    x = samples(dtype)
    return np.repeat(x, len(x)), np.tile(x, len(x))


def suits(opcode: Opcode, dtype: DType) -> bool:
    if dtype == bool_:
        return opcode in (O.XOR, O.NE, O.MIN, O.LT)
    return not dtype.is_float or (opcode not in BITWISE and opcode is not O.POW)


@pytest.mark.parametrize("dtype", dtypes.COMPUTED, ids=str)
def test_arithmetic_means_what_atlas_says(dtype: DType, agrees: Run) -> None:
    x, y = pairs(dtype)
    for opcode in (o for o in ARITHMETIC if suits(o, dtype)):
        result = bool_ if opcode in COMPARISONS else dtype
        program = applied(opcode, dtype, dtype, result=result)
        agrees(program, [x, y, np.zeros(len(x), result.numpy)], (), (len(x),))


@pytest.mark.parametrize("dtype", dtypes.COMPUTED, ids=str)
def test_conversions_saturate_wrap_and_round(dtype: DType, agrees: Run) -> None:
    x = samples(dtype)
    for target in dtypes.COMPUTED:
        agrees(applied(O.CONVERT, dtype, result=target), [x, np.zeros(len(x), target.numpy)], (), (len(x),))


@pytest.mark.parametrize("target", [f16, bf16], ids=str)
def test_f64_is_rounded_once_by_the_language_or_to_odd_first(target: DType) -> None:
    program = applied(O.CONVERT, f64, result=target)
    assert lower(program, cuda()) == program  # __double2half, __double2bfloat16
    steps = np.array([1, 3, 5, 2**10 + 1])
    middle = 1 + steps * 2.0 ** -(11 if target == f16 else 8)
    x = np.concatenate([middle, middle + 2.0**-40, middle - 2.0**-40, [65519.999999, 3.4e38, 1e-45]])
    want, got = np.zeros(len(x), target.numpy), np.zeros(len(x), target.numpy)
    evaluate(program, {"x": x, "out": want}, {}, (len(x),))
    evaluate(lower(program, wgsl()), {"x": x, "out": got}, {}, (len(x),))
    np.testing.assert_array_equal(got.astype(np.float64), want.astype(np.float64))


@pytest.mark.parametrize("dtype", [d for d in dtypes.COMPUTED if d.wide is not d], ids=str)
def test_narrow_arithmetic_is_left_nowhere(dtype: DType) -> None:
    dialect = wgsl()
    program = lower(applied(O.MUL, dtype, dtype, result=dtype), dialect)
    moves = {O.LOAD, O.STORE, O.CONVERT, O.CONSTANT}
    assert all(i.opcode in moves for i in program.body.walk() if dtype in i.types)
    x, y = pairs(dtype)
    want, got = np.zeros(len(x), dtype.numpy), np.zeros(len(x), dtype.numpy)
    evaluate(applied(O.MUL, dtype, dtype, result=dtype), {"x": x, "y": y, "out": want}, {}, (len(x),))
    evaluate(program, {"x": x, "y": y, "out": got}, {}, (len(x),))
    exact = np.float64 if dtype.is_float else dtype.numpy  # for bfloat16's NaN
    np.testing.assert_array_equal(got.astype(exact), want.astype(exact))


@pytest.mark.parametrize("dtype", [f64, i64], ids=str)
def test_a_dtype_the_adapter_lacks_is_refused(dtype: DType) -> None:
    dialect = wgsl(frozenset(dtypes.COMPUTED) - {dtype})
    with pytest.raises(UnsupportedDType, match=str(dtype)):
        lower(applied(O.ADD, dtype, dtype, result=dtype), dialect)


def test_an_atomic_that_is_not_spelled_is_refused() -> None:
    b = Builder("atlas_count_u8")
    b.atomic(O.ATOMIC_ADD, b.buffer("x", u8, Access.READ_WRITE), b.constant(0, index), 1)
    with pytest.raises(UnsupportedDType, match="atomic_add of u8"):
        lower(b.build(), wgsl())


@pytest.mark.parametrize("opcode", [O.EXP, O.SIN, O.LOG1P, O.TANH], ids=lambda o: o.value)
def test_functions_survive_the_driver(opcode: Opcode, agrees: Run) -> None:
    # Without hiding fragile sums, Mesa makes exp wrong by 60 ULP and sin by 60,000.
    x = np.random.default_rng(4).normal(size=5000).astype(np.float32) * np.float32(30)
    if opcode is O.LOG1P:
        x = np.abs(x)
    agrees(applied(opcode, f32, result=f32), [x, np.zeros_like(x)], (), (len(x),), rtol=3e-7, atol=2e-45)


def test_a_compensated_sum_survives_the_driver(agrees: Run) -> None:
    b = Builder("atlas_error_of_sum")
    x, y, out = (
        b.buffer(n, f32, a) for n, a in zip("xyo", [Access.READ, Access.READ, Access.WRITE], strict=True)
    )
    p, q = b.load(x, b.coordinate(0)), b.load(y, b.coordinate(0))
    total = p + q
    b.store(out, b.coordinate(0), q - (total - p))
    program = b.build()
    assert {program.types[v] for v in fragile(program, {"order"})} == {f32}
    x_, y_ = (np.random.default_rng(k).normal(size=100).astype(np.float32) for k in (1, 2))
    agrees(program, [x_ * 1000, y_, np.zeros_like(x_)], (), (100,))


def test_products_that_another_order_makes_overflow_are_hidden() -> None:
    b = Builder("atlas_products")
    out = b.buffer("out", f32, Access.READ_WRITE)
    x, y = (b.load(out, b.constant(n, index)) for n in range(2))
    half, inverse, cube, nothing = x * 0.5, 1.0 / -x, y * y, b.constant(0.0, f32)
    deep, through, both = (x * 0.25) * y, y * (1.0 / x), y * 0.125
    products = (half * x, x * inverse, cube * y, (x * y) * 2.0, deep * x, through * x)
    for place, value in enumerate((*products, (x * y) * both, x / nothing)):
        b.store(out, b.constant(place, index), value)
    found = fragile(b.build(), {"order"})
    assert {half.id, inverse.id, nothing.id, deep.id, through.id, both.id} < found
    assert cube.id not in found


def test_every_atomic_of_words_is_spelled(agrees: Run) -> None:
    ordered = {O.ATOMIC_EXCHANGE, O.ATOMIC_COMPARE_EXCHANGE}  # whose result depends on who comes first
    for opcode in sorted(ATOMICS - ordered, key=lambda o: o.value):
        b = Builder("atlas_gathered")
        x, out = b.buffer("x", i32, Access.READ), b.buffer("out", i32, Access.READ_WRITE)
        b.atomic(opcode, out, b.coordinate(0) % 3, b.load(x, b.coordinate(0)))
        x_ = np.random.default_rng(5).integers(-1000, 1000, 500).astype(np.int32)
        agrees(b.build(), [x_, np.array([7, -5, 1], np.int32)], (), (500,))
    b = Builder("atlas_summed")
    x, out = b.buffer("x", f32, Access.READ), b.buffer("out", f32, Access.READ_WRITE)
    b.atomic(O.ATOMIC_ADD, out, b.constant(0, index), b.load(x, b.coordinate(0)))
    agrees(replace(b.build()), [np.arange(300, dtype=np.float32), np.zeros(1, np.float32)], (), (300,))
