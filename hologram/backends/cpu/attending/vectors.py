"""Vectors of eight floats: what attention computes with them beside sums and products."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hologram.backends.cpu.llvm.writer import Writer, literal
from hologram.foundation.dtypes import DType, f32

WIDE = 8
LANES = f"<{WIDE} x float>"
INTEGERS = f"<{WIDE} x i32>"
BITS = f"<{WIDE} x i1>"
LOWEST = -3.0e38  # of hidden scores
# Cephes, expf and tanhf: Moshier (1989).
_EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
_TANH = (-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1)
_LN2 = (0.693359375, -2.12194440e-4)  # in two numbers, the first of few bits


def number(x: float) -> str:
    return literal(x, f32)


def listed(type_: str, values: Sequence[object]) -> str:
    """A vector constant."""
    return f"<{', '.join(f'{type_} {value}' for value in values)}>"


def all_of(x: float) -> str:
    """A vector constant of equal floats."""
    return listed("float", [number(x)] * WIDE)


def spread(w: Writer, value: str, type_: str = "float") -> str:
    """A vector of copies of a register."""
    kind = f"<{WIDE} x {type_}>"
    one = w(f"insertelement {kind} poison, {type_} {value}, i32 0")
    return w(f"shufflevector {kind} {one}, {kind} poison, <{WIDE} x i32> zeroinitializer")


def fused(w: Writer, x: str, y: str, z: str) -> str:
    return w.intrinsic(f"llvm.fma.v{WIDE}f32", LANES, (LANES, x), (LANES, y), (LANES, z))


def larger(w: Writer, x: str, y: str) -> str:
    """The larger of two, or the one that is a number."""
    return w.intrinsic(f"llvm.maxnum.v{WIDE}f32", LANES, (LANES, x), (LANES, y))


def sum_of(w: Writer, lanes: str) -> str:
    name = f"llvm.vector.reduce.fadd.v{WIDE}f32"
    w.declarations.add(f"declare float @{name}(float, {LANES})")
    return w(f"call reassoc float @{name}(float 0.0, {LANES} {lanes})")


def largest_of(w: Writer, lanes: str) -> str:
    return w.intrinsic(f"llvm.vector.reduce.fmax.v{WIDE}f32", "float", (LANES, lanes))


def _polynomial(w: Writer, x: str, coefficients: Sequence[float]) -> str:
    value = all_of(coefficients[0])
    for c in coefficients[1:]:
        value = fused(w, value, x, all_of(c))
    return value


def exp(w: Writer, x: str) -> str:
    """Of numbers up to 0; 0 where it is below the smallest normal number; NaN of NaN."""
    is_nan = w(f"fcmp uno {LANES} {x}, {x}")
    below = w(f"fcmp ult {LANES} {x}, {all_of(-88.0)}")
    bounded = w(f"select {BITS} {below}, {LANES} {all_of(-88.0)}, {LANES} {x}")
    scaled = w(f"fmul {LANES} {bounded}, {all_of(1 / math.log(2))}")
    turns = w.intrinsic(f"llvm.rint.v{WIDE}f32", LANES, (LANES, scaled))
    rest = fused(w, turns, all_of(-_LN2[0]), bounded)
    rest = fused(w, turns, all_of(-_LN2[1]), rest)
    value = _polynomial(w, rest, _EXP)
    square = w(f"fmul {LANES} {rest}, {rest}")
    value = fused(w, value, square, w(f"fadd {LANES} {rest}, {all_of(1.0)}"))
    whole = w(f"fptosi {LANES} {turns} to {INTEGERS}")
    exponent = w(f"add {INTEGERS} {whole}, {listed('i32', [127] * WIDE)}")
    bits = w(f"shl {INTEGERS} {exponent}, {listed('i32', [23] * WIDE)}")
    value = w(f"fmul {LANES} {value}, {w(f'bitcast {INTEGERS} {bits} to {LANES}')}")
    return w(f"select {BITS} {is_nan}, {LANES} {x}, {LANES} {value}")


def tanh(w: Writer, x: str) -> str:
    """By a polynomial near 0, elsewhere by exp(-2 |x|)."""
    size = w.intrinsic(f"llvm.fabs.v{WIDE}f32", LANES, (LANES, x))
    power = exp(w, w(f"fmul {LANES} {size}, {all_of(-2.0)}"))
    far = w(
        f"fdiv {LANES} {w(f'fsub {LANES} {all_of(1.0)}, {power}')}, {w(f'fadd {LANES} {all_of(1.0)}, {power}')}"
    )
    far = w.intrinsic(f"llvm.copysign.v{WIDE}f32", LANES, (LANES, far), (LANES, x))
    square = w(f"fmul {LANES} {x}, {x}")
    near = w(f"fmul {LANES} {_polynomial(w, square, _TANH)}, {square}")
    near = fused(w, near, x, x)
    small = w(f"fcmp olt {LANES} {size}, {all_of(0.625)}")
    return w(f"select {BITS} {small}, {LANES} {near}, {LANES} {far}")


def stored(w: Writer, value: str, dtype: DType, place: str) -> None:
    """Stores floats as a dtype, rounded to nearest even."""
    if dtype.name == "f16":
        half = w(f"fptrunc {LANES} {value} to <{WIDE} x half>")
        w.do(f"store <{WIDE} x half> {half}, ptr {place}, align 2")
        return
    if dtype.name == "bf16":
        bits = w(f"bitcast {LANES} {value} to {INTEGERS}")
        kept = w(f"lshr {INTEGERS} {bits}, {listed('i32', [16] * WIDE)}")
        odd = w(f"and {INTEGERS} {kept}, {listed('i32', [1] * WIDE)}")
        half = w(f"add {INTEGERS} {odd}, {listed('i32', [32767] * WIDE)}")
        rounded = w(f"lshr {INTEGERS} {w(f'add {INTEGERS} {bits}, {half}')}, {listed('i32', [16] * WIDE)}")
        quiet = w(f"or {INTEGERS} {kept}, {listed('i32', [64] * WIDE)}")
        is_nan = w(f"fcmp uno {LANES} {value}, {value}")
        chosen = w(f"select {BITS} {is_nan}, {INTEGERS} {quiet}, {INTEGERS} {rounded}")
        w.do(
            f"store <{WIDE} x i16> {w(f'trunc {INTEGERS} {chosen} to <{WIDE} x i16>')}, ptr {place}, align 2"
        )
        return
    w.do(f"store {LANES} {value}, ptr {place}, align 4")
