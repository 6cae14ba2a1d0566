"""Arithmetic that is spelled out means what Atlas says: same bits as the evaluator's own opcode."""

from __future__ import annotations

import numpy as np
import pytest

from hologram.atlas.builder import Builder
from hologram.atlas.evaluate import evaluate
from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Access, Program
from hologram.compiler.lowering.arithmetic import RULES, expand_unsupported
from hologram.foundation.dtypes import FLOATS, INTEGERS, DType, f32, i32, u32


def program(opcode: Opcode, dtype: DType) -> Program:
    b = Builder("atlas_test")
    buffers = [b.buffer(name, dtype, Access.READ) for name in ("x", "y")]
    out = b.buffer("out", dtype, Access.WRITE)
    i = b.coordinate(0)
    b.store(out, i, b.emit(opcode, dtype, *(b.load(buffer, i) for buffer in buffers)))
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


def run(p: Program, x: np.ndarray) -> np.ndarray:
    half = x.size // 2
    x, y = np.concatenate([x[:half], x[half:]]), np.concatenate([x[half:], x[:half]])
    out = np.empty(x.size, x.dtype)
    evaluate(p, {"x": x, "y": y, "out": out}, {}, (out.size,))
    return out


def same(opcode: Opcode, dtype: DType, count: int = 2000) -> None:
    p = program(opcode, dtype)
    lowered = expand_unsupported(p, lambda o, d: o is not opcode)
    assert lowered != p
    pairs = numbers(dtype, count)
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
    got, want = run(lowered, x), run(p, x)
    with np.errstate(invalid="ignore"):
        assert agree(got, want).all()


def agree(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """The same bits, or both NaN."""
    bits = f"u{got.dtype.itemsize}"
    equal = got.view(bits) == want.view(bits)
    # x != x is NaN, also for bfloat16.
    return equal | ((got != got) & (want != want))


CASES = [(Opcode.POW, d) for d in INTEGERS] + [(Opcode.REM, d) for d in FLOATS]
CASES += [(Opcode.MULHI, i32), (Opcode.MULHI, u32)]


@pytest.mark.parametrize(("opcode", "dtype"), CASES, ids=lambda v: getattr(v, "value", str(v)))
def test_spelled_out_is_the_same(opcode: Opcode, dtype: DType) -> None:
    same(opcode, dtype, 300 if opcode is Opcode.REM else 2000)


def test_every_rule_is_tried() -> None:
    assert {(opcode, dtype.is_float) for opcode, dtype in CASES} == set(RULES)


def test_what_the_language_spells_stays() -> None:
    p = program(Opcode.REM, f32)
    assert expand_unsupported(p, lambda o, d: d == f32) == p
