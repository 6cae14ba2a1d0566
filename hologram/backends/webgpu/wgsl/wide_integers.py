"""i64 and u64 where an adapter has none: a vec2<u32> of the low and the high word, and functions on them.

This is done by spelling and not by a rewrite, because a value stays one value: what folds, carries, exchanges or keeps
it in workgroup memory needs to know nothing. WGSL alone lacks these dtypes, so a rewrite would serve nobody else.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from hologram.atlas.opcodes import Opcode
from hologram.backends.webgpu.wgsl.library import Library
from hologram.compiler.dialect import Dialect, spell
from hologram.foundation.dtypes import DType, Number, bool_, f32, i32, i64, index, u32, u64

O = Opcode
WIDE = (i64, u64)
TYPE = "vec2<u32>"
WORD = (1 << 32) - 1

FUNCTIONS = """
fn add_wide(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> {
    let low = x.x + y.x;
    return vec2<u32>(low, x.y + y.y + u32(low < x.x));
}

fn subtract_wide(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> {
    return vec2<u32>(x.x - y.x, x.y - y.y - u32(x.x < y.x));
}

fn negative_wide(x: vec2<u32>) -> vec2<u32> {
    return subtract_wide(vec2<u32>(0u, 0u), x);
}

fn is_negative(x: vec2<u32>) -> bool {
    return x.y >= 0x80000000u;
}

fn absolute_i64(x: vec2<u32>) -> vec2<u32> {
    return select(x, negative_wide(x), is_negative(x));
}

fn product_of_words(x: u32, y: u32) -> vec2<u32> {
    // With halves of 16 bits: x y = (xh yh) 2^32 + (xh yl + xl yh) 2^16 + xl yl.
    let xl = x & 0xffffu;
    let xh = x >> 16u;
    let yl = y & 0xffffu;
    let yh = y >> 16u;
    let middle = xh * yl + ((xl * yl) >> 16u);
    let across = xl * yh + (middle & 0xffffu);
    return vec2<u32>(x * y, xh * yh + (middle >> 16u) + (across >> 16u));
}

fn multiply_wide(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> {
    let low = product_of_words(x.x, y.x);
    return vec2<u32>(low.x, low.y + x.x * y.y + x.y * y.x);
}

fn less_u64(x: vec2<u32>, y: vec2<u32>) -> bool {
    return x.y < y.y || (x.y == y.y && x.x < y.x);
}

fn less_i64(x: vec2<u32>, y: vec2<u32>) -> bool {
    return less_u64(vec2<u32>(x.x, x.y ^ 0x80000000u), vec2<u32>(y.x, y.y ^ 0x80000000u));
}

fn shift_left_wide(x: vec2<u32>, count: vec2<u32>) -> vec2<u32> {
    let n = count.x & 31u;
    let near = vec2<u32>(x.x << n, (x.y << n) | ((x.x >> 1u) >> (31u - n)));
    let far = vec2<u32>(0u, x.x << n);
    let within = count.y == 0u && count.x < 64u;
    return select(vec2<u32>(0u, 0u), select(near, far, count.x > 31u), within);
}

fn shift_right_filled(x: vec2<u32>, count: vec2<u32>, fill: u32) -> vec2<u32> {
    // The bits that come in from above are those of `fill`, all alike.
    let n = count.x & 31u;
    let above = (fill << 1u) << (31u - n);
    let near = vec2<u32>((x.x >> n) | ((x.y << 1u) << (31u - n)), (x.y >> n) | above);
    let far = vec2<u32>((x.y >> n) | above, fill);
    let within = count.y == 0u && count.x < 64u;
    return select(vec2<u32>(fill, fill), select(near, far, count.x > 31u), within);
}

fn shift_right_u64(x: vec2<u32>, count: vec2<u32>) -> vec2<u32> {
    return shift_right_filled(x, count, 0u);
}

fn shift_right_i64(x: vec2<u32>, count: vec2<u32>) -> vec2<u32> {
    return shift_right_filled(x, count, select(0u, 0xffffffffu, is_negative(x)));
}

fn corrected_digit(estimate: vec2<u32>, digit: u32, divisor: u32) -> vec2<u32> {
    // A quotient that is too large is one less; beside it, what is left of the leading digits.
    let product = estimate.x * (divisor & 0xffffu);
    let large = estimate.x > 0xffffu || product > ((estimate.y << 16u) | digit);
    let less = vec2<u32>(estimate.x - 1u, estimate.y + (divisor >> 16u));
    return select(estimate, less, estimate.y < 0x10000u && large);
}

fn digit_of(rest: u32, digit: u32, divisor: u32) -> vec2<u32> {
    // One digit of 16 bits of (2^16 rest + digit) / divisor, and what is left; rest < divisor, which has its top bit.
    let high = divisor >> 16u;
    let estimate = vec2<u32>(rest / high, rest % high);
    let quotient = corrected_digit(corrected_digit(estimate, digit, divisor), digit, divisor).x;
    return vec2<u32>(quotient, ((rest << 16u) | digit) - quotient * divisor);
}

fn divide_words(high: u32, low: u32, divisor: u32) -> vec2<u32> {
    // (2^32 high + low) / divisor and the remainder, where high < divisor (Knuth, volume 2, 4.3.1, algorithm D).
    let n = countLeadingZeros(divisor);
    let d = divisor << n;
    let first = (high << n) | ((low >> 1u) >> (31u - n));
    let second = low << n;
    let upper = digit_of(first, second >> 16u, d);
    let lower = digit_of(upper.y, second & 0xffffu, d);
    return vec2<u32>((upper.x << 16u) | lower.x, lower.y >> n);
}

fn divided_wide(x: vec2<u32>, y: vec2<u32>) -> vec4<u32> {
    // The quotient, and the remainder; both 0 where y is.
    if (y.y == 0u) {
        if (y.x == 0u) {
            return vec4<u32>(0u, 0u, 0u, 0u);
        }
        let upper = x.y / y.x;
        let lower = divide_words(x.y - upper * y.x, x.x, y.x);
        return vec4<u32>(lower.x, upper, lower.y, 0u);
    }
    // By the divisor's leading word: the estimate is the quotient or one more (Hacker's Delight, 9-5).
    let n = countLeadingZeros(y.y);
    let leading = shift_left_wide(y, vec2<u32>(n, 0u)).y;
    let half = vec2<u32>((x.x >> 1u) | (x.y << 31u), x.y >> 1u);
    let estimate = shift_left_wide(vec2<u32>(divide_words(half.y, half.x, leading).x, 0u), vec2<u32>(n, 0u));
    var quotient = (estimate.x >> 31u) | (estimate.y << 1u);
    quotient -= u32(quotient != 0u);
    var rest = subtract_wide(x, multiply_wide(y, vec2<u32>(quotient, 0u)));
    if (!less_u64(rest, y)) {
        quotient += 1u;
        rest = subtract_wide(rest, y);
    }
    return vec4<u32>(quotient, 0u, rest);
}

fn divide_u64(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> {
    return divided_wide(x, y).xy;
}

fn remainder_u64(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> {
    return divided_wide(x, y).zw;
}

fn divide_i64(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> {
    let size = divided_wide(absolute_i64(x), absolute_i64(y)).xy;
    return select(size, negative_wide(size), is_negative(x) != is_negative(y));
}

fn remainder_i64(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> {
    let size = divided_wide(absolute_i64(x), absolute_i64(y)).zw;
    return select(size, negative_wide(size), is_negative(x));
}

fn minimum_u64(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> {
    return select(y, x, less_u64(x, y));
}

fn maximum_u64(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> {
    return select(x, y, less_u64(x, y));
}

fn minimum_i64(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> {
    return select(y, x, less_i64(x, y));
}

fn maximum_i64(x: vec2<u32>, y: vec2<u32>) -> vec2<u32> {
    return select(x, y, less_i64(x, y));
}

fn f32_of_u64(x: vec2<u32>) -> f32 {
    // To nearest, ties to even: of the leading 32 bits the last says also whether anything follows.
    if (x.y == 0u) {
        return f32(x.x);
    }
    let n = countLeadingZeros(x.y);
    let leading = shift_left_wide(x, vec2<u32>(n, 0u));
    return f32(leading.y | u32(leading.x != 0u)) * bitcast<f32>((159u - n) << 23u);
}

fn f32_of_i64(x: vec2<u32>) -> f32 {
    let size = f32_of_u64(absolute_i64(x));
    return select(size, -size, is_negative(x));
}

fn u64_of_f32(x: f32) -> vec2<u32> {
    // False for NaN, which gives 0.
    let fits = x > 0.0f && x < 18446744073709551616.0f;
    let size = floor(select(0.0f, x, fits));
    let high = floor(size * 2.3283064365386963e-10f);
    let whole = vec2<u32>(u32(size - high * 4294967296.0f), u32(high));
    return select(whole, vec2<u32>(0xffffffffu, 0xffffffffu), x >= 18446744073709551616.0f);
}

fn i64_of_f32(x: f32) -> vec2<u32> {
    let fits = abs(x) < 9223372036854775808.0f;
    let size = u64_of_f32(select(0.0f, abs(x), fits));
    let whole = select(size, negative_wide(size), x < 0.0f);
    let least = select(whole, vec2<u32>(0u, 0x80000000u), x <= -9223372036854775808.0f);
    return select(least, vec2<u32>(0xffffffffu, 0x7fffffffu), x >= 9223372036854775808.0f);
}
"""

LIBRARY = Library(FUNCTIONS)


def _operators() -> dict[tuple[Opcode, DType], str]:
    table = spell({O.ADD: "add_wide({0}, {1})", O.SUB: "subtract_wide({0}, {1})"}, WIDE)
    table |= spell({O.MUL: "multiply_wide({0}, {1})", O.MAD: "add_wide(multiply_wide({0}, {1}), {2})"}, WIDE)
    table |= spell({O.AND: "{0} & {1}", O.OR: "{0} | {1}", O.XOR: "{0} ^ {1}", O.NOT: "~{0}"}, WIDE)
    table |= spell({O.EQ: "all({0} == {1})", O.NE: "any({0} != {1})"}, WIDE)
    table |= spell({O.SELECT: "select({2}, {1}, {0})", O.NEG: "negative_wide({0})"}, WIDE)
    table |= spell({O.SHL: "shift_left_wide({0}, {1})"}, WIDE)
    table |= {(O.ABS, i64): "absolute_i64({0})", (O.ABS, u64): "{0}"}
    for d in WIDE:
        names = {
            O.DIV: "divide",
            O.REM: "remainder",
            O.MIN: "minimum",
            O.MAX: "maximum",
            O.SHR: "shift_right",
        }
        table |= spell({o: f"{name}_{d}({{0}}, {{1}})" for o, name in names.items()}, (d,))
        table |= spell({O.LT: f"less_{d}({{0}}, {{1}})", O.GE: f"!less_{d}({{0}}, {{1}})"}, (d,))
        table |= spell({O.GT: f"less_{d}({{1}}, {{0}})", O.LE: f"!less_{d}({{1}}, {{0}})"}, (d,))
    return table


def _conversions() -> dict[tuple[DType, DType], str]:
    table = {(a, b): "{0}" for a in WIDE for b in WIDE}
    table |= {(a, d): f"{TYPE}({{0}}, 0u)" for a in (u32, index) for d in WIDE}
    table |= {(i32, d): f"{TYPE}(bitcast<u32>({{0}}), bitcast<u32>({{0}} >> 31u))" for d in WIDE}
    table |= {(bool_, d): f"{TYPE}(u32({{0}}), 0u)" for d in WIDE}
    table |= {(f32, d): f"{d}_of_f32({{0}})" for d in WIDE}
    table |= {(d, f32): f"f32_of_{d}({{0}})" for d in WIDE}
    table |= {(d, b): "{0}.x" for d in WIDE for b in (u32, index)}
    table |= {(d, i32): "bitcast<i32>({0}.x)" for d in WIDE}
    return table | {(d, bool_): "({0}.x | {0}.y) != 0u" for d in WIDE}


_LOOP = "for (var {{name}} = {{start}}; less_{0}({{name}}, {{stop}}); {{name}} = add_wide({{name}}, {{step}})) {{{{"
OPERATORS = _operators()
CONVERSIONS = _conversions()
LOOPS = {d: _LOOP.format(d) for d in WIDE}
RESERVED = LIBRARY.names


@cache
def _helpers() -> dict[tuple[object, DType], str]:
    """The functions behind each spelling; see Dialect.helpers."""
    templates: dict[tuple[object, DType], str] = dict(OPERATORS.items())
    templates |= {("loop", d): text for d, text in LOOPS.items()}
    templates |= {((O.CONVERT, a), b): text for (a, b), text in CONVERSIONS.items()}
    return {key: LIBRARY.called(template) for key, template in templates.items()}


def emulated(dialect: Dialect) -> Dialect:
    """The dialect with its own i64 and u64 replaced by these."""

    def literal(dtype: DType, number: Number) -> str:
        if dtype not in WIDE:
            return dialect.literal(dtype, number)
        bits = int(number) & (1 << 64) - 1
        return f"{TYPE}({bits & WORD}u, {bits >> 32}u)"

    return replace(
        dialect,
        literal=literal,
        operators={**dialect.operators, **OPERATORS},
        conversions={**dialect.conversions, **CONVERSIONS},
        bitcasts={**dialect.bitcasts, **{(a, b): "{0}" for a in WIDE for b in WIDE}},
        parameters={**dialect.parameters, **dict.fromkeys(WIDE, f"{TYPE}(p.{{0}}_low, p.{{0}}_high)")},
        helpers={**dialect.helpers, **_helpers()},
        loops=LOOPS,
    )
