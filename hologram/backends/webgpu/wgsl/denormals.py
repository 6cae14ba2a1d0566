"""f32 as IEEE 754 has it, where an adapter takes denormal numbers for 0: spellings for reproducible executors.

A function computes as the adapter does, and by the bits of its operands where one of them, or the result, may be
denormal. What is multiplied or divided so is rounded once, as integers: `assembled` takes a fraction of up to 27 bits,
whether anything lies behind them, and the exponent of its last bit in units of 2^-149, the smallest number.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from hologram.atlas.opcodes import Opcode
from hologram.backends.webgpu.wgsl.library import Library
from hologram.compiler.dialect import Dialect, spell
from hologram.foundation.dtypes import DType, bool_, f32

O = Opcode

FUNCTIONS = """
fn magnitude(x: f32) -> u32 {
    return bitcast<u32>(x) & 0x7fffffffu;
}

fn sign_of(x: f32) -> u32 {
    return bitcast<u32>(x) & 0x80000000u;
}

fn is_denormal(x: f32) -> bool {
    return magnitude(x) - 1u < 0x007fffffu;
}

fn normal(x: f32) -> f32 {
    // A denormal number as a normal one of its sign, where its size is all the same.
    return bitcast<f32>(bitcast<u32>(x) | select(0u, 0x00800000u, is_denormal(x)));
}

fn scaled_up(x: f32) -> f32 {
    // x 2^64 for |x| < 2^-60.
    let size = magnitude(x);
    let small = bitcast<u32>(f32(size)) - 0x2a800000u;
    let scaled = select(size + 0x20000000u, select(small, 0u, size == 0u), size < 0x00800000u);
    return bitcast<f32>(sign_of(x) | scaled);
}

fn scaled_down(x: f32) -> f32 {
    // x 2^-64 for a multiple of 2^-85.
    let size = magnitude(x);
    let small = u32(bitcast<f32>(select(size + 0x2a800000u, 0u, size == 0u)));
    return bitcast<f32>(sign_of(x) | select(size - 0x20000000u, small, size < 0x20800000u));
}

fn assembled(sign: u32, fraction: u32, rest: bool, exponent: i32) -> f32 {
    let width = 32 - i32(countLeadingZeros(fraction));
    let places = max(max(width - 24, -exponent), 1);
    if (places > 30) { return bitcast<f32>(sign); }
    let shift = u32(places);
    let half = 1u << (shift - 1u);
    let left = fraction & ((half << 1u) - 1u);
    let whole = fraction >> shift;
    let up = left > half || (left == half && (rest || (whole & 1u) == 1u));
    let field = exponent + places;
    if (field > 253) { return bitcast<f32>(sign | 0x7f800000u); }
    return bitcast<f32>(sign | ((u32(field) << 23u) + whole + u32(up)));
}

fn fraction_of(size: u32) -> u32 {
    // 24 bits, the first of them set.
    return select((size & 0x007fffffu) | 0x00800000u, size << (countLeadingZeros(size) - 8u), size < 0x00800000u);
}

fn exponent_of(size: u32) -> i32 {
    // Of the last of those bits.
    return select(i32(size >> 23u), 9 - i32(countLeadingZeros(size)), size < 0x00800000u) - 150;
}

fn add_whole(x: f32, y: f32) -> f32 {
    if (max(magnitude(x), magnitude(y)) >= 0x0d800000u) { return x + y; }
    return scaled_down(hidden_f32(scaled_up(x) + scaled_up(y)));
}

fn subtract_whole(x: f32, y: f32) -> f32 {
    return add_whole(x, bitcast<f32>(bitcast<u32>(y) ^ 0x80000000u));
}

fn multiply_whole(x: f32, y: f32) -> f32 {
    let product = normal(x) * normal(y);
    let a = magnitude(x);
    let b = magnitude(y);
    let ordinary = !is_denormal(x) && !is_denormal(y) && magnitude(product) >= 0x01000000u;
    if (ordinary || a == 0u || b == 0u || max(a, b) >= 0x7f800000u) { return product; }
    let u = fraction_of(a);
    let v = fraction_of(b);
    let middle = (u >> 12u) * (v & 0xfffu) + (u & 0xfffu) * (v >> 12u);
    let low = (u & 0xfffu) * (v & 0xfffu) + ((middle & 0xfffu) << 12u);
    let high = (u >> 12u) * (v >> 12u) + (middle >> 12u) + (low >> 24u);
    // The product's 48 bits, but for the last 22.
    let fraction = (high << 2u) | ((low & 0xffffffu) >> 22u);
    let exponent = exponent_of(a) + exponent_of(b) + 22 + 149;
    return assembled(sign_of(x) ^ sign_of(y), fraction, (low & 0x3fffffu) != 0u, exponent);
}

fn divide_whole(x: f32, y: f32) -> f32 {
    let a = magnitude(x);
    let b = magnitude(y);
    let large = b >= 0x7e000000u && b < 0x7f800000u;
    let quotient = normal(x) / normal(y);
    let ordinary = !is_denormal(x) && !is_denormal(y) && !large && magnitude(quotient) >= 0x01000000u;
    if (ordinary || a == 0u || b == 0u || max(a, b) >= 0x7f800000u) { return quotient; }
    let divisor = fraction_of(b);
    var rest = fraction_of(a);
    var fraction = rest / divisor;
    rest = rest % divisor;
    for (var k = 0u; k < 3u; k += 1u) {
        fraction = (fraction << 8u) | ((rest << 8u) / divisor);
        rest = (rest << 8u) % divisor;
    }
    fraction = (fraction << 2u) | ((rest << 2u) / divisor);
    rest = (rest << 2u) % divisor;
    let exponent = exponent_of(a) - exponent_of(b) - 26 + 149;
    return assembled(sign_of(x) ^ sign_of(y), fraction, rest != 0u, exponent);
}

fn root_whole(x: f32) -> f32 {
    if (!is_denormal(x) || sign_of(x) != 0u) { return sqrt(normal(x)); }
    return bitcast<f32>(bitcast<u32>(sqrt(scaled_up(x))) - 0x10000000u);
}

fn in_order(x: f32, y: f32) -> vec2<f32> {
    // Two numbers that compare as these, none of them denormal.
    if (max(magnitude(x), magnitude(y)) >= 0x10000000u) { return vec2<f32>(normal(x), normal(y)); }
    return vec2<f32>(scaled_up(x), scaled_up(y));
}

fn less_whole(x: f32, y: f32) -> bool {
    let pair = in_order(x, y);
    return pair.x < pair.y;
}

fn at_most_whole(x: f32, y: f32) -> bool {
    let pair = in_order(x, y);
    return pair.x <= pair.y;
}

fn same_whole(x: f32, y: f32) -> bool {
    let pair = in_order(x, y);
    return pair.x == pair.y;
}
"""
LIBRARY = Library(FUNCTIONS)
RESERVED = LIBRARY.names

_FLIPPED = "bitcast<f32>(bitcast<u32>({0}) ^ 0x80000000u)"
OPERATORS = spell(
    {
        O.ADD: "add_whole({0}, {1})",
        O.SUB: "subtract_whole({0}, {1})",
        O.MUL: "multiply_whole({0}, {1})",
        O.DIV: "divide_whole({0}, {1})",
        O.SQRT: "root_whole({0})",
        O.NEG: _FLIPPED,
        O.ABS: "bitcast<f32>(magnitude({0}))",
        O.FLOOR: "floor(normal({0}))",
        O.CEIL: "ceil(normal({0}))",
        O.TRUNC: "trunc(normal({0}))",
        O.ROUND: "round(normal({0}))",
        O.LT: "less_whole({0}, {1})",
        O.GT: "less_whole({1}, {0})",
        O.LE: "at_most_whole({0}, {1})",
        O.GE: "at_most_whole({1}, {0})",
        O.EQ: "same_whole({0}, {1})",
        O.NE: "!same_whole({0}, {1})",
    },
    (f32,),
)
WEIGHT = 40
CONVERSIONS = {(f32, bool_): "magnitude({0}) != 0u"}


@cache
def _helpers(hidden: str) -> dict[tuple[object, DType], str]:
    """The functions behind each spelling; see Dialect.helpers."""
    templates: dict[tuple[object, DType], str] = dict(OPERATORS.items())
    templates |= {((O.CONVERT, a), b): text for (a, b), text in CONVERSIONS.items()}
    texts = {key: LIBRARY.called(template) for key, template in templates.items()}
    return {key: f"{hidden}\n\n{text}" if "hidden_f32" in text else text for key, text in texts.items()}


def kept(dialect: Dialect) -> Dialect:
    """The dialect with denormal numbers of f32, which its adapter has not."""
    return replace(
        dialect,
        operators={**dialect.operators, **OPERATORS},
        conversions={**dialect.conversions, **CONVERSIONS},
        weight=WEIGHT,
        helpers={**dialect.helpers, **_helpers(dialect.helpers["hidden", f32])},
    )
