"""Expanded functions keep the accuracy they state, on samples of all bit patterns, whether fma rounds once or twice."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from hologram.atlas.builder import Builder, Value
from hologram.atlas.evaluate import evaluate
from hologram.atlas.opcodes import TRANSCENDENTALS, Opcode
from hologram.atlas.program import Access, Instruction, Program
from hologram.atlas.rewrite import rewrite
from hologram.compiler.functions.transcendental import ACCURACY, every, expand
from hologram.foundation.dtypes import DType, bf16, f16, f32, f64

REFERENCE: dict[Opcode, Callable[..., np.ndarray]] = {
    Opcode.EXP: np.exp,
    Opcode.EXP2: np.exp2,
    Opcode.EXPM1: np.expm1,
    Opcode.LOG: np.log,
    Opcode.LOG2: np.log2,
    Opcode.LOG1P: np.log1p,
    Opcode.SIN: np.sin,
    Opcode.COS: np.cos,
    Opcode.TAN: np.tan,
    Opcode.TANH: np.tanh,
    Opcode.ATAN: np.arctan,
    Opcode.ERF: np.vectorize(math.erf, otypes=[np.float64]),
    Opcode.RSQRT: lambda x: 1 / np.sqrt(x),
    Opcode.POW: np.power,
}
TURNS = (Opcode.SIN, Opcode.COS, Opcode.TAN)
EDGES = [
    0.0,
    -0.0,
    np.inf,
    -np.inf,
    np.nan,
    1,
    -1,
    2,
    -2,
    0.5,
    -0.5,
    3,
    -3,
    2.5,
    1e-45,
    -1e-45,
    1.1754944e-38,
]
EDGES += [
    3.4e38,
    -3.4e38,
    1e30,
    8191.9,
    8192,
    88.7,
    88.73,
    -87.4,
    -103.9,
    -104.1,
    9,
    9.2,
    2.0**24,
    1e-20,
    5e-324,
]


def program(opcode: Opcode, dtype: DType) -> Program:
    b = Builder(f"atlas_{opcode.value}_{dtype}")
    names = ("x", "y") if opcode is Opcode.POW else ("x",)
    buffers = [b.buffer(name, dtype, Access.READ) for name in names]
    out = b.buffer("out", dtype, Access.WRITE)
    i = b.coordinate(0)
    b.store(out, i, b.emit(opcode, dtype, *(b.load(buffer, i) for buffer in buffers)))
    return b.build()


def unfused(p: Program) -> Program:
    """As on a device whose fma rounds twice."""

    def rule(builder: Builder, instruction: Instruction, operands: list[Value]) -> Value | None:
        return operands[0] * operands[1] + operands[2] if instruction.opcode is Opcode.FMA else None

    return rewrite(p, rule)


def run(p: Program, *operands: np.ndarray) -> np.ndarray:
    out = np.empty_like(operands[0])
    evaluate(p, dict(zip(("x", "y"), operands, strict=False)) | {"out": out}, {}, (out.size,))
    return out


def samples(dtype: DType, seed: int, count: int) -> np.ndarray:
    """Any bits, moderate numbers, numbers around 1 and near multiples of pi/2."""
    random = np.random.default_rng(seed)
    bits = random.integers(0, 1 << dtype.bits, count, dtype=f"u{dtype.itemsize}").view(dtype.numpy)
    quarters = np.arange(1, 10_000) * (np.pi / 2)
    rest = [
        EDGES,
        random.normal(size=count) * 3,
        1 + random.normal(size=count) / 10,
        random.uniform(-110, 110, count),
    ]
    with np.errstate(over="ignore"):
        return np.concatenate([bits, *(np.asarray(r).astype(dtype.numpy) for r in (*rest, quarters))])


def ulps(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Errors in units in the last place of the wanted number; infinite where only one is NaN or infinite."""
    info = np.finfo(got.dtype)
    with np.errstate(all="ignore"):
        exponent = np.floor(np.log2(np.maximum(np.abs(want), np.longdouble(info.tiny))))
        error = np.abs(got.astype(np.longdouble) - want) / np.exp2(exponent - info.nmant)
        rounded = want.astype(got.dtype)
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    return np.where(same & ~np.isfinite(error), 0, np.where(np.isnan(error), np.inf, error))


def operands_of(opcode: Opcode, dtype: DType) -> tuple[np.ndarray, ...]:
    x = samples(dtype, 1, 60_000 if dtype == f32 else 20_000)
    if opcode is not Opcode.POW:
        return (x,)
    random = np.random.default_rng(2)
    edges = np.array(EDGES).astype(dtype.numpy)
    base = np.exp(random.uniform(-3, 3, x.size)).astype(dtype.numpy)
    near = (1 + random.normal(size=x.size) / 1000).astype(dtype.numpy)
    reach = 88 if dtype == f32 else 700
    xs = [np.repeat(edges, edges.size), x, base, near]
    ys = [np.tile(edges, edges.size), random.permutation(x)]
    with np.errstate(all="ignore"):
        ys += [(random.uniform(-reach, reach, x.size) / np.log(v)).astype(dtype.numpy) for v in (base, near)]
    return np.concatenate(xs), np.concatenate(ys)


def reference(opcode: Opcode, operands: tuple[np.ndarray, ...], dtype: DType) -> np.ndarray:
    wider = np.float64 if dtype == f32 or opcode is Opcode.ERF else np.longdouble
    with np.errstate(all="ignore"):
        return REFERENCE[opcode](*(v.astype(wider) for v in operands)).astype(np.longdouble)


@pytest.mark.parametrize("dtype", [f32, f64], ids=str)
@pytest.mark.parametrize("opcode", REFERENCE, ids=lambda o: o.value)
def test_accuracy(opcode: Opcode, dtype: DType) -> None:
    expanded = expand(program(opcode, dtype), every)
    assert not expanded.opcodes & ((TRANSCENDENTALS | {Opcode.POW}) - {Opcode.SQRT})
    operands = operands_of(opcode, dtype)
    want = reference(opcode, operands, dtype)
    # There is no erf wider than f64 at hand: its reference has an error, too.
    bound = ACCURACY[opcode, dtype] + (1 if opcode is Opcode.ERF and dtype == f64 else 0)
    for p in (expanded, unfused(expanded)):
        got = run(p, *operands)
        errors = ulps(got, want)
        worst = int(errors.argmax())
        assert errors[worst] <= bound, ([v[worst] for v in operands], got[worst], want[worst])
        zero = (want == 0) & (got == 0)
        assert (np.signbit(got[zero]) == np.signbit(want[zero])).all()


def test_wide_power() -> None:
    operands = operands_of(Opcode.POW, f32)
    got = run(expand(program(Opcode.POW, f32), every, wide=True), *operands)
    assert ulps(got, reference(Opcode.POW, operands, f32)).max() <= 0.51


# Numbers nearest to multiples of pi/2: 16367173 * 2^72 is the worst of f32, 6381956970095103 * 2^797 of f64
# (Muller et al., Handbook of Floating-Point Arithmetic, chapter 11).
HARD = {
    f32: [16367173 * 2.0**72, 3.1415927, 1.5707964],
    f64: [6381956970095103 * 2.0**797, math.pi, math.pi / 2],
}


@pytest.mark.parametrize(("dtype", "wide"), [(f32, False), (f32, True), (f64, False)], ids=str)
@pytest.mark.parametrize("opcode", TURNS, ids=lambda o: o.value)
def test_turns_of_hard_arguments(opcode: Opcode, dtype: DType, wide: bool) -> None:
    random = np.random.default_rng(3)
    bits = random.integers(0, 1 << dtype.bits, 1000, dtype=f"u{dtype.itemsize}").view(dtype.numpy)
    # Each power of two, to walk over every word of 2/pi.
    powers = np.ldexp(dtype.numpy.type(1.5), np.arange(-30, np.finfo(dtype.numpy).maxexp))
    x = np.concatenate([bits[np.isfinite(bits)], powers, np.array(HARD[dtype], dtype.numpy)])
    x = np.concatenate([x, -x])
    want = reference(opcode, (x,), dtype)
    expanded = expand(program(opcode, dtype), every, wide=wide)
    for p in (expanded, unfused(expanded)):
        errors = ulps(run(p, x), want)
        assert errors.max() <= ACCURACY[opcode, dtype], (x[errors.argmax()], errors.max())


@pytest.mark.parametrize("opcode", TURNS, ids=lambda o: o.value)
def test_wide_turns(opcode: Opcode) -> None:
    operands = operands_of(opcode, f32)
    got = run(expand(program(opcode, f32), every, wide=True), *operands)
    want = reference(opcode, operands, f32)
    assert ulps(got, want).max() <= (ACCURACY[opcode, f32] if opcode is Opcode.TAN else 0.7)
    zero = operands[0] == 0
    assert (np.signbit(got[zero]) == np.signbit(want[zero])).all()


@pytest.mark.parametrize("dtype", [f32, f64], ids=str)
@pytest.mark.parametrize("opcode", [Opcode.EXP, Opcode.EXP2, Opcode.EXPM1, Opcode.TANH, Opcode.ERF])
def test_rounding_by_sums(opcode: Opcode, dtype: DType) -> None:
    operands = operands_of(opcode, dtype)
    got = run(expand(program(opcode, dtype), every, wide=True), *operands)
    bound = ACCURACY[opcode, dtype] + (1 if opcode is Opcode.ERF and dtype == f64 else 0)
    assert ulps(got, reference(opcode, operands, dtype)).max() <= bound


@pytest.mark.parametrize("dtype", [f16, bf16], ids=str)
def test_narrow_floats_compute_in_f32(dtype: DType) -> None:
    x = np.linspace(-5, 5, 101).astype(dtype.numpy)
    got = run(expand(program(Opcode.TANH, dtype), every), x)
    want = np.tanh(x.astype(np.float64)).astype(np.float32).astype(dtype.numpy)
    assert (got == want).mean() > 0.97  # one rounding more, seldom in the way
    np.testing.assert_allclose(got.astype(float), want.astype(float), rtol=2.0**-7)


def test_only_what_is_wanted_is_expanded() -> None:
    p = program(Opcode.EXP, f32)
    assert expand(p, lambda opcode, dtype: dtype == f64) == p
