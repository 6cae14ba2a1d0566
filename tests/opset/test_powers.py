"""Powers by numbers, which kernels know: products, roots and quotients, with the edges and the accuracy of `pow`."""

from __future__ import annotations

import numpy as np
import pytest

import hologram as hg
from hologram.atlas.builder import Builder, Value
from hologram.atlas.functions import power
from hologram.atlas.opcodes import TRANSCENDENTALS, Opcode
from hologram.atlas.program import Access, Program
from hologram.compiler.canonical.powers import FLOATS
from hologram.compiler.pipeline import canonical
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.opset.power import pow_
from tests.accuracy import check
from tests.needs import needs

EXPONENTS = (-64, -5, -3, -2, -1, -0.5, 0, 0.5, 1, 1.5, 2, 2.0, 3, 4, 5, 6, 7, 13, 33, 64, -1.25, 65)
EDGES = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 2.0, -2.0]
INTEGERS = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]


def _bases(dtype: type[np.floating]) -> np.ndarray:
    """Numbers of all magnitudes that a device need not flush, and whose powers are mostly finite."""
    rng = np.random.default_rng(5)
    bits = rng.integers(0, 1 << 32, 3000, dtype=np.uint32).view(np.float32)
    x = np.concatenate([bits.astype(dtype), rng.uniform(-3, 3, 3000).astype(dtype)])
    return np.concatenate([x[np.abs(x) >= np.finfo(dtype).tiny], np.array(EDGES, dtype)])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("exponent", EXPONENTS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_powers_by_numbers(dtype: type[np.floating], exponent: int | float, executor: hg.Executor) -> None:
    kind = dtypes.dtype(dtype)
    needs(executor, kind)
    x = _bases(dtype)
    want = np.power(x.astype(np.longdouble), np.longdouble(exponent))
    inside = ~(np.abs(want) < np.finfo(dtype).tiny) | (want == 0)
    t = executor.tensor(x)
    for got in (t**exponent, hg.jit(lambda t: t**exponent)(t)):
        found = got.to_numpy()
        assert found.dtype == dtype
        check(found[inside], want[inside], kind, pow_.ulp_on(executor.limits), 0, (x[inside],))
        known = inside & ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(found[known]), np.signbit(want[known]))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 4, 5, 7, 8, 30, 63, 64, 65, 100])
def test_powers_of_integers_wrap(dtype: type[np.integer], exponent: int, executor: hg.Executor) -> None:
    needs(executor, dtype)
    facts = np.iinfo(dtype)
    x = np.arange(256).astype(np.uint8).view(np.int8).astype(dtype)
    x = np.concatenate([x, np.array([facts.min, facts.max, facts.max // 3], dtype)])
    t = executor.tensor(x)
    for got in (t**exponent, hg.jit(lambda t: t**exponent)(t)):
        np.testing.assert_array_equal(got.to_numpy(), x ** dtype(exponent))


def _program(dtype: DType, exponent: float) -> Program:
    b = Builder("atlas_power", rank=1)
    i = b.coordinate(0)
    x, out = b.buffer("x", dtype, Access.READ), b.buffer("out", dtype, Access.WRITE)
    found: Value = power(b.load(x, i), b.constant(exponent, dtype))
    b.store(out, i, found)
    return b.build()


@pytest.mark.parametrize("exponent", FLOATS)
def test_canonical_form_has_no_power_of_these(exponent: float) -> None:
    assert canonical(_program(dtypes.f32, exponent)).opcodes & (TRANSCENDENTALS | {Opcode.POW}) <= {
        Opcode.SQRT,
        Opcode.RSQRT,
    }


def test_canonical_form_keeps_other_powers() -> None:
    assert Opcode.POW in canonical(_program(dtypes.f32, 1.25)).opcodes
    assert Opcode.POW in canonical(_program(dtypes.i32, -1)).opcodes
    assert Opcode.POW not in canonical(_program(dtypes.i32, 9)).opcodes


def test_slopes_of_powers(executor: hg.Executor) -> None:
    x = executor.tensor(np.array([-2.0, 0.0, 0.5, 3.0], np.float32))
    for exponent in (0, 1, 2, 3, 5):
        slope = hg.grad(lambda t, n=exponent: hg.sum(t**n))(x).to_numpy()
        known = x.to_numpy()
        want = exponent * known ** max(exponent - 1, 0) if exponent else np.zeros(4)
        np.testing.assert_allclose(slope, want, rtol=1e-6)
