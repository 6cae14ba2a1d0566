"""Arithmetic that is spelled out means what Atlas says: same bits as the evaluator's own opcode."""

from __future__ import annotations

import numpy as np
import pytest

from hologram.atlas.builder import Builder
from hologram.atlas.evaluate import evaluate
from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Access, Program
from hologram.compiler.lowering.arithmetic import FLOATS, INTEGERS, lower
from hologram.dtypes import FLOATS as FLOAT_DTYPES
from hologram.dtypes import INTEGERS as INTEGER_DTYPES
from hologram.dtypes import DType, f32, i8, i32, u32


def program(opcode: Opcode, source: DType, target: DType) -> Program:
    b = Builder("atlas_test")
    names = ("x",) if opcode is Opcode.CONVERT else ("x", "y")
    buffers = [b.buffer(name, source, Access.READ) for name in names]
    out = b.buffer("out", target, Access.WRITE)
    i = b.coordinate(0)
    b.store(out, i, b.emit(opcode, target, *(b.load(buffer, i) for buffer in buffers)))
    return b.build()


def numbers(dtype: DType, count: int) -> np.ndarray:
    """Any bits, with small and extreme numbers among them."""
    random = np.random.default_rng(7)
    bits = random.integers(0, 256, count * dtype.itemsize, dtype=np.uint8).view(dtype.numpy)
    if dtype.is_integer:
        info = np.iinfo(dtype.numpy)
        edges = np.array([0, 1, 2, 3, 5, 7, 8, 31, 32, 63, 64, 100, info.max, info.min, info.max - 1])
        if info.min:
            edges = np.concatenate([edges, [-1, -2, -3]])
    else:
        edges = np.array(
            [0.0, -0.0, 1, -1, 0.5, -0.99, 3, -129, 255, 256, 65535.5, -(2.0**31), 2.0**31, 2.0**63, 1e-40]
        )
        edges = np.concatenate([edges, [np.nan, np.inf, -np.inf, 1e-45, 7e30]])
    with np.errstate(all="ignore"):
        edges = edges.astype(dtype.numpy)
    pairs = np.concatenate([np.repeat(edges, edges.size), np.tile(edges, edges.size)])
    return np.concatenate([pairs, bits, random.permutation(bits)])


def run(p: Program, x: np.ndarray, target: DType) -> np.ndarray:
    half = x.size // 2
    x, y = np.concatenate([x[:half], x[half:]]), np.concatenate([x[half:], x[:half]])
    out = np.empty(x.size, target.numpy)
    evaluate(p, {"x": x, "y": y, "out": out}, {}, (out.size,))
    return out


def same(opcode: Opcode, source: DType, target: DType, count: int = 2000) -> None:
    p = program(opcode, source, target)
    lowered = lower(p, lambda o, d: o is opcode and d == target)
    assert lowered != p
    pairs = numbers(source, count)
    edges = int(len(pairs) - 2 * count) // 2
    # Both halves line up: edges against edges, bits against other bits.
    x = np.concatenate(
        [
            pairs[:edges],
            pairs[2 * edges : 2 * edges + count],
            pairs[edges : 2 * edges],
            pairs[2 * edges + count :],
        ]
    )
    got, want = run(lowered, x, target), run(p, x, target)
    with np.errstate(invalid="ignore"):
        assert agree(opcode, got, want).all()


def agree(opcode: Opcode, got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """The same bits, or both NaN; the sign of min and max of zeros of both signs is open."""
    bits = f"u{got.dtype.itemsize}"
    equal = got.view(bits) == want.view(bits)
    if opcode in (Opcode.MIN, Opcode.MAX):
        equal |= (got == 0) & (want == 0)
    # x != x is NaN, also for bfloat16.
    return equal | ((got != got) & (want != want))


CASES = [(o, d) for o in INTEGERS if o is not Opcode.MULHI for d in INTEGER_DTYPES]
CASES += [(Opcode.MULHI, i32), (Opcode.MULHI, u32)] + [(o, d) for o in FLOATS for d in FLOAT_DTYPES]


@pytest.mark.parametrize(("opcode", "dtype"), CASES, ids=lambda v: getattr(v, "value", str(v)))
def test_spelled_out_is_the_same(opcode: Opcode, dtype: DType) -> None:
    same(opcode, dtype, dtype, 300 if opcode is Opcode.REM and dtype.is_float else 2000)


@pytest.mark.parametrize("target", INTEGER_DTYPES, ids=str)
@pytest.mark.parametrize("source", FLOAT_DTYPES, ids=str)
def test_float_to_integer(source: DType, target: DType) -> None:
    same(Opcode.CONVERT, source, target)


def test_a_harmless_constant_needs_no_guard() -> None:
    b = Builder("atlas_test")
    x = b.buffer("x", i32, Access.READ_WRITE)
    i = b.coordinate(0)
    b.store(x, i, (b.load(x, i) // 7) << 3)
    p = b.build()
    assert lower(p, lambda o, d: True) == p


def test_what_is_not_wanted_stays() -> None:
    p = program(Opcode.DIV, i8, i8)
    assert lower(p, lambda o, d: d == f32) == p
