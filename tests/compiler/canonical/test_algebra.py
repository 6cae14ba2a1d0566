"""Every law of canonical form fires, and what only looks like one does not."""

# ruff: noqa: E501 (one law a line)

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from hologram.atlas.builder import Builder, Value
from hologram.atlas.evaluate import evaluate
from hologram.atlas.functions import absolute, floor, fma, mad, maximum, minimum, power, select, sqrt, trunc
from hologram.atlas.program import Access, Program
from hologram.compiler.canonical.algebra import IEEE
from hologram.compiler.canonical.fast_math import FAST
from hologram.compiler.canonical.form import SIMPLIFY
from hologram.compiler.pipeline import canonical, canonical_text
from hologram.foundation.dtypes import (
    DType,
    bf16,
    bool_,
    f16,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    index,
    u8,
    u16,
    u32,
)

Expression = Callable[[Value, Value, Value], Value]
INF, NAN = float("inf"), float("nan")
LOWEST = 2**-126  # of f32's normal numbers


def program(dtype: DType, expression: Expression) -> Program:
    """out[i] = expression(x[i], y[i], z[i])."""
    b = Builder("atlas_expression")
    x, y, z = (b.buffer(n, dtype, Access.READ) for n in "xyz")
    i = b.coordinate(0)
    value = expression(b.load(x, i), b.load(y, i), b.load(z, i))
    out = b.buffer("out", bool_ if value.dtype is index else value.dtype, Access.WRITE)
    b.store(out, i, value)
    return b.build()


def negative(x: Value) -> Value:
    return -x


def same(c: Value) -> Value:
    """A condition the compiler knows."""
    return c.builder.constant(True, bool_)


EQUAL: dict[str, tuple[DType, Expression, Expression]] = {
    "fold add": (f32, lambda x, y, z: x * (z.builder.constant(0.1, f32) + 0.2), lambda x, y, z: x * float(np.float32(0.1) + np.float32(0.2))),
    "fold divide": (f32, lambda x, y, z: x * (z.builder.constant(1.0, f32) / 3.0), lambda x, y, z: x * float(np.float32(1) / np.float32(3))),
    "fold by zero": (i32, lambda x, y, z: x ^ (z.builder.constant(5, i32) // 0), lambda x, y, z: x),
    "fold wrap": (u8, lambda x, y, z: x // (z.builder.constant(200, u8) + 100), lambda x, y, z: x // 44),
    "fold convert": (i32, lambda x, y, z: x // z.builder.constant(-7.9, f32).to(i32), lambda x, y, z: x // -7),
    "fold saturating": (i32, lambda x, y, z: x // z.builder.constant(1e20, f32).to(i32), lambda x, y, z: x // (2**31 - 1)),
    "fold compare": (f32, lambda x, y, z: select(z.builder.constant(NAN, f32) == NAN, x, y), lambda x, y, z: y),
    "fold rounding": (f32, lambda x, y, z: x * floor(z.builder.constant(-2.5, f32)), lambda x, y, z: x * -3.0),
    "fold bitcast": (i32, lambda x, y, z: x // z.builder.constant(1.0, f32).bitcast(i32), lambda x, y, z: x // 0x3F800000),
    "constant rounded": (f32, lambda x, y, z: x * 0.1, lambda x, y, z: x * float(np.float32(0.1))),
    "commute": (f32, lambda x, y, z: (x + y) * z, lambda x, y, z: z * (y + x)),
    "commute fma": (f32, lambda x, y, z: fma(x, y, z), lambda x, y, z: fma(y, x, z)),
    "commute minimum": (f32, lambda x, y, z: minimum(x, 3.0), lambda x, y, z: minimum(x.builder.constant(3.0, f32), x)),
    "x + -0.0": (f32, lambda x, y, z: x + -0.0, lambda x, y, z: x),
    "x - 0.0": (f32, lambda x, y, z: x - 0.0, lambda x, y, z: x),
    "x + -y": (f32, lambda x, y, z: x + -y, lambda x, y, z: x - y),
    "x - -y": (f32, lambda x, y, z: x - -y, lambda x, y, z: x + y),
    "-0.0 - x": (f32, lambda x, y, z: -0.0 - x, lambda x, y, z: -x),
    "x - c": (f32, lambda x, y, z: x - 2.5, lambda x, y, z: x + -2.5),
    "x * 1": (f32, lambda x, y, z: x * 1.0, lambda x, y, z: x),
    "x * -1": (f32, lambda x, y, z: x * -1.0, lambda x, y, z: -x),
    "-x * -y": (f32, lambda x, y, z: -x * -y, lambda x, y, z: x * y),
    "-x * c": (f32, lambda x, y, z: -x * 3.0, lambda x, y, z: x * -3.0),
    "x / 0": (f32, lambda x, y, z: x / 0.0, lambda x, y, z: x * INF),
    "x / -0": (f32, lambda x, y, z: x / -0.0, lambda x, y, z: x * -INF),
    "x / 1": (f32, lambda x, y, z: x / 1.0, lambda x, y, z: x),
    "x / 8": (f32, lambda x, y, z: x / 8.0, lambda x, y, z: x * 0.125),
    "x / -2^126": (f32, lambda x, y, z: x / -(2.0**126), lambda x, y, z: x * -LOWEST),
    "--x": (f32, lambda x, y, z: negative(negative(x)), lambda x, y, z: x),
    "|-x|": (f32, lambda x, y, z: absolute(absolute(-x)), lambda x, y, z: absolute(x)),
    "floor(trunc)": (f32, lambda x, y, z: floor(trunc(x)), lambda x, y, z: trunc(x)),
    "x > y": (f32, lambda x, y, z: x > y, lambda x, y, z: y < x),
    "x >= y": (f32, lambda x, y, z: x >= y, lambda x, y, z: y <= x),
    "x < x": (f32, lambda x, y, z: select(x < x, y, z), lambda x, y, z: z),
    "x == x": (i32, lambda x, y, z: select(x == x, y, z), lambda x, y, z: y),
    "not not": (i32, lambda x, y, z: ~~x, lambda x, y, z: x),
    "not =": (f32, lambda x, y, z: ~(x == y), lambda x, y, z: x != y),
    "not <": (i32, lambda x, y, z: ~(x < y), lambda x, y, z: y <= x),
    "select same": (f32, lambda x, y, z: select(x < y, z, z), lambda x, y, z: z),
    "select known": (f32, lambda x, y, z: select(same(x), x, y), lambda x, y, z: x),
    "select not": (f32, lambda x, y, z: select(~(x < y), x, y), lambda x, y, z: select(x < y, y, x)),
    "select bool": (f32, lambda x, y, z: select(x < y, same(x), same(x).builder.constant(False, bool_)), lambda x, y, z: x < y),
    "sum": (i32, lambda x, y, z: (x + y) + z - 3 + 5, lambda x, y, z: (z + 2) + (y + x)),
    "sum of multiples": (u32, lambda x, y, z: x + x + x * 2 - y + y, lambda x, y, z: x * 4),
    "x - x": (i32, lambda x, y, z: (x - x) + y, lambda x, y, z: y),
    "integer -": (i32, lambda x, y, z: x + -y, lambda x, y, z: x - y),
    "x * 0": (i32, lambda x, y, z: x * 0 + y, lambda x, y, z: y),
    "product": (i32, lambda x, y, z: (x * 2) * (y * (z * 3)), lambda x, y, z: ((z * y) * x) * 6),
    "factored": (i32, lambda x, y, z: (x + y) * 4, lambda x, y, z: x * 4 + y * 4),
    "mad": (i32, lambda x, y, z: mad(x, y, z), lambda x, y, z: z + y * x),
    "chain": (i32, lambda x, y, z: (x & y) & (z & x), lambda x, y, z: z & (y & x)),
    "x ^ x": (i32, lambda x, y, z: (x ^ y) ^ (x ^ z), lambda x, y, z: z ^ y),
    "x & ones": (u8, lambda x, y, z: x & 255, lambda x, y, z: x),
    "x | 0": (u8, lambda x, y, z: x | 0, lambda x, y, z: x),
    "x & 0": (u8, lambda x, y, z: (x & 0) ^ y, lambda x, y, z: y),
    "minimum": (i32, lambda x, y, z: minimum(minimum(x, 7), minimum(y, 3)), lambda x, y, z: minimum(minimum(y, x), 3)),
    "maximum of lowest": (i8, lambda x, y, z: maximum(x, -128), lambda x, y, z: x),
    "x // 1": (i32, lambda x, y, z: x // 1, lambda x, y, z: x),
    "0 // x": (i32, lambda x, y, z: x.builder.constant(0, i32) // x ^ y, lambda x, y, z: y),
    "x % 1": (i32, lambda x, y, z: (x % 1) ^ y, lambda x, y, z: y),
    "x << 0": (u32, lambda x, y, z: (x << 0) >> 0, lambda x, y, z: x),
    "convert back": (i8, lambda x, y, z: x.to(i32).to(i8), lambda x, y, z: x),
    "convert back f16": (f16, lambda x, y, z: x.to(f32).to(f16), lambda x, y, z: x),
    "order of widened": (i32, lambda x, y, z: x.to(i64) < 5, lambda x, y, z: x < 5),
    "order before widened": (u8, lambda x, y, z: x.to(i32) >= 200, lambda x, y, z: x >= 200),
    "equal to widened": (i8, lambda x, y, z: x.to(i64) == -3, lambda x, y, z: x == -3),
    "beyond all widened": (i32, lambda x, y, z: x.to(i64) < 2**40, lambda x, y, z: x == x),
    "below all widened": (u16, lambda x, y, z: x.to(i32) <= -1, lambda x, y, z: x != x),
    "convert back by float": (i16, lambda x, y, z: x.to(f32).to(i16), lambda x, y, z: x),
    "convert through": (u8, lambda x, y, z: x.to(i32).to(f32), lambda x, y, z: x.to(f32)),
    "convert modular": (i32, lambda x, y, z: x.to(u16).to(u8), lambda x, y, z: x.to(u8)),
    "convert through f64": (f32, lambda x, y, z: x.to(f64).to(bf16), lambda x, y, z: x.to(bf16)),
    "bitcast": (f32, lambda x, y, z: x.bitcast(u32).bitcast(i32), lambda x, y, z: x.bitcast(i32)),
    "bitcast back": (f32, lambda x, y, z: x.bitcast(u32).bitcast(f32), lambda x, y, z: x),
}  # fmt: skip

DIFFERENT: dict[str, tuple[DType, Expression, Expression]] = {
    "x + 0.0": (f32, lambda x, y, z: x + 0.0, lambda x, y, z: x),
    "x - -0.0": (f32, lambda x, y, z: x - -0.0, lambda x, y, z: x),
    "0.0 - x": (f32, lambda x, y, z: 0.0 - x, lambda x, y, z: -x),
    "-(x - y)": (f32, lambda x, y, z: -(x - y), lambda x, y, z: y - x),
    "x * 0.0": (f32, lambda x, y, z: x * 0.0, lambda x, y, z: x.builder.constant(0.0, f32)),
    "x - x": (f32, lambda x, y, z: x - x, lambda x, y, z: x.builder.constant(0.0, f32)),
    "x / x": (f32, lambda x, y, z: x / x, lambda x, y, z: x.builder.constant(1.0, f32)),
    "x / 3": (f32, lambda x, y, z: x / 3.0, lambda x, y, z: x * (1 / 3)),
    "x / 2^127": (f32, lambda x, y, z: x / 2.0**127, lambda x, y, z: x * 2.0**-127),
    "associate": (f32, lambda x, y, z: (x + y) + z, lambda x, y, z: x + (y + z)),
    "associate *": (f32, lambda x, y, z: (x * y) * z, lambda x, y, z: x * (y * z)),
    "constants of sums": (f32, lambda x, y, z: (x + 1.0) + 2.0, lambda x, y, z: x + 3.0),
    "contract": (f32, lambda x, y, z: x * y + z, lambda x, y, z: fma(x, y, z)),
    "minimum": (f32, lambda x, y, z: minimum(x, y), lambda x, y, z: minimum(y, x)),
    "minimum with 0": (f32, lambda x, y, z: maximum(x, 0.0), lambda x, y, z: maximum(x.builder.constant(0.0, f32), x)),
    "x == x": (f32, lambda x, y, z: x == x, lambda x, y, z: same(x)),
    "not <": (f32, lambda x, y, z: ~(x < y), lambda x, y, z: y <= x),
    "-0.0": (f32, lambda x, y, z: x * -0.0, lambda x, y, z: x * 0.0),
    "constant": (f32, lambda x, y, z: x * 2.0, lambda x, y, z: x * 3.0),
    "opcode": (f32, lambda x, y, z: floor(x), lambda x, y, z: trunc(x)),
    "subtraction": (f32, lambda x, y, z: x - y, lambda x, y, z: y - x),
    "division": (i32, lambda x, y, z: (x * 2) // 2, lambda x, y, z: x),
    "sum in a product": (i32, lambda x, y, z: (x + 1) * y, lambda x, y, z: x * y + 1),
    "shifts": (i32, lambda x, y, z: (x << 1) >> 1, lambda x, y, z: x),
    "buffer": (f32, lambda x, y, z: floor(x), lambda x, y, z: floor(y)),
    "order of narrowed": (i32, lambda x, y, z: x.to(i8) < 5, lambda x, y, z: x < 5),
    "order of signs lost": (i8, lambda x, y, z: x.to(u32) < 5, lambda x, y, z: x < 5),
    "narrowing": (i32, lambda x, y, z: x.to(i8).to(i32), lambda x, y, z: x),
    "narrowing float": (f32, lambda x, y, z: x.to(f16).to(f32), lambda x, y, z: x),
    "saturating": (i32, lambda x, y, z: x.to(f64).to(i8), lambda x, y, z: x.to(i8)),
    "inexact float": (i32, lambda x, y, z: x.to(f32).to(i32), lambda x, y, z: x),
    "sign lost": (i8, lambda x, y, z: x.to(u32).to(f32), lambda x, y, z: x.to(f32)),
    "wide by index": (i64, lambda x, y, z: x.to(index).to(i64), lambda x, y, z: x),
    "functions": (f32, lambda x, y, z: x * sqrt(z.builder.constant(2.0, f32)), lambda x, y, z: x * float(np.sqrt(np.float32(2)))),
    "power": (f32, lambda x, y, z: x * power(z.builder.constant(2.0, f32), 5.0), lambda x, y, z: x * 32.0),
    "nan bits": (u32, lambda x, y, z: x // x.builder.constant(0x7FC00001, u32).bitcast(f32).bitcast(u32), lambda x, y, z: x // 0x7FC00000),
}  # fmt: skip

ALLOWED: dict[str, tuple[DType, Expression, Expression]] = {
    "x + 0": (f32, lambda x, y, z: x + 0.0, lambda x, y, z: x),
    "x * 0": (f32, lambda x, y, z: x * 0.0 + y, lambda x, y, z: y),
    "x - x": (f32, lambda x, y, z: x - x + y, lambda x, y, z: y),
    "constants of sums": (f32, lambda x, y, z: (x + 1.0) + 2.0, lambda x, y, z: x + 3.0),
    "constants of products": (f32, lambda x, y, z: (x * 2.0) * 3.0, lambda x, y, z: x * 6.0),
    "x / 3": (f32, lambda x, y, z: x / 3.0, lambda x, y, z: x * float(np.float32(1) / np.float32(3))),
    "contract": (f32, lambda x, y, z: x * y + z, lambda x, y, z: mad(x, y, z)),
    "contract difference": (f32, lambda x, y, z: x * y - z, lambda x, y, z: mad(x, y, -z)),
    "contract from": (f32, lambda x, y, z: z - x * 2.0, lambda x, y, z: mad(x, -2.0, z)),
    "16-bit intermediate": (f32, lambda x, y, z: (x * y).to(f16).to(f32) * z, lambda x, y, z: x * y * z),
    "16-bit arithmetic": (f16, lambda x, y, z: x * y * z, lambda x, y, z: (x.to(f32) * y.to(f32) * z.to(f32)).to(f16)),
}  # fmt: skip


@pytest.mark.parametrize("name", EQUAL)
def test_law(name: str) -> None:
    dtype, x, y = EQUAL[name]
    assert canonical_text(program(dtype, x)) == canonical_text(program(dtype, y))


@pytest.mark.parametrize("name", DIFFERENT)
def test_no_law(name: str) -> None:
    dtype, x, y = DIFFERENT[name]
    assert canonical_text(program(dtype, x)) != canonical_text(program(dtype, y))


@pytest.mark.parametrize("name", ALLOWED)
def test_fast_math(name: str) -> None:
    dtype, x, y = ALLOWED[name]
    fast = canonical(program(dtype, x), fast_math=True)
    assert canonical(fast, fast_math=True) == fast
    assert fast.body == canonical(program(dtype, y), fast_math=True).body
    assert canonical(program(dtype, x)).body != canonical(program(dtype, y)).body


SPECIAL = [0.0, -0.0, 1.0, -1.5, INF, -INF, NAN, 1e-45, -1e-39, LOWEST, 3.4e38, 0.1, -2.5, 5.5]


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("name", [*EQUAL, *(f"{n} (no law)" for n in DIFFERENT)])
def test_laws_keep_every_bit(name: str) -> None:
    """Both spellings on every pair of special numbers; they are the evaluator's before and after."""
    dtype, x, _ = DIFFERENT[name.removesuffix(" (no law)")] if "(no law)" in name else EQUAL[name]
    if dtype.is_float:
        values = np.array(SPECIAL).astype(dtype.numpy)
    else:
        limits = np.iinfo(dtype.numpy)
        values = np.array([0, 1, 2, 7, limits.max, limits.min, limits.max - 1, 200 % limits.max], dtype.numpy)
    grid = np.meshgrid(values, values, values, indexing="ij")
    arrays = {n: a.reshape(-1).copy() for n, a in zip("xyz", grid, strict=True)}
    before = program(dtype, x)
    kind = before.buffer("out").dtype
    found = []
    for p in (before, canonical(before)):
        out = np.full(arrays["x"].size, 77).astype(kind.numpy)
        evaluate(p, {**arrays, "out": out}, {}, (out.size,))
        found.append(out)
    want, got = found
    if kind.is_float:
        nan = np.isnan(want.astype(np.float64))
        np.testing.assert_array_equal(nan, np.isnan(got.astype(np.float64)))
        bits = f"u{kind.itemsize}"
        want, got = want.view(bits)[~nan], got.view(bits)[~nan]
    np.testing.assert_array_equal(got, want)


def test_the_pass_can_be_printed_and_names_the_law_of_every_rule() -> None:
    text = str(SIMPLIFY)
    for rule in IEEE:
        assert rule.law in text
    assert all(rule.law not in text for rule in FAST)
