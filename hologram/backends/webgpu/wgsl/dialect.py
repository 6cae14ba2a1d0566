"""WGSL as naga (in wgpu-native) takes it: spellings, and work-arounds for what naga folds away.

Narrow dtypes are packed into u32 words in memory and held as i32, u32 or f32; only loads, stores, selects and
conversions to and from their wide dtype are spelled for them (compiler/lowering/lower.py rewrites the rest).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from functools import cache, partial

from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Access
from hologram.backends.webgpu.wgsl import denormals, wide_integers
from hologram.backends.webgpu.wgsl.float_atomics import with_float_atomics
from hologram.backends.webgpu.wgsl.functions import (
    FLOATS,
    FROM_BITS,
    INTEGERS,
    PACKED,
    SIGNED,
    TO_BITS,
    TYPES,
    UNSIGNED,
    functions,
    literal,
)
from hologram.compiler.dialect import (
    FOLD,
    LANES,
    BufferDeclaration,
    Declarations,
    Dialect,
    Prelude,
    spell,
    words,
)
from hologram.foundation import dtypes
from hologram.foundation.conduct import CONDUCT
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
    u64,
)

O = Opcode


def _operators(shortfalls: Set[str]) -> Mapping[tuple[Opcode, DType], str]:
    numbers = (*FLOATS, *INTEGERS, index)
    table = spell({O.ADD: "{0} + {1}", O.SUB: "{0} - {1}", O.MUL: "{0} * {1}"}, numbers)
    table |= spell({O.MAD: "{0} * {1} + {2}"}, numbers)
    comparisons = {O.EQ: "==", O.LT: "<", O.LE: "<=", O.GT: ">", O.GE: ">="}
    table |= spell({o: f"{{0}} {sign} {{1}}" for o, sign in comparisons.items()}, numbers)
    table |= spell({O.NE: "{0} != {1}"}, INTEGERS, (index, bool_))
    table |= spell({O.NE: "!({0} == {1})"}, FLOATS)  # naga's != is false for NaN
    table |= spell({O.SELECT: "select({2}, {1}, {0})"}, dtypes.ALL, (index,))
    if "choices" in shortfalls:
        table |= spell({O.SELECT: "chosen({0}, {1}, {2})"}, (f32, f16, bf16))
    table |= spell({O.DIV: "{0} / {1}"}, FLOATS, (index,)) | spell({O.REM: "{0} % {1}"}, (index,))
    if "division" in shortfalls:
        table[O.DIV, f32] = "quotient({0}, {1})"
    # WGSL: x / 0 is x, x % 0 is 0. Vulkan leaves a remainder of negative numbers undefined, and NVIDIA's driver takes
    # them for unsigned; naga does not see to it.
    for d in INTEGERS:
        zero = literal(d, 0)
        rest = "{0} - {0} / {1} * {1}" if "remainder" in shortfalls else "{0} % {1}"
        rem = f"select({rest}, {zero}, {{1}} == {zero})" if d.is_signed else "{0} % {1}"
        table |= spell({O.DIV: f"select({{0}} / {{1}}, {zero}, {{1}} == {zero})", O.REM: rem}, (d,))
    table |= spell({O.MIN: "min({0}, {1})", O.MAX: "max({0}, {1})"}, INTEGERS, (index,))
    table |= spell({O.MIN: "minimum({0}, {1})", O.MAX: "maximum({0}, {1})"}, (f32,))
    table |= spell({O.MIN: "minimum_f64({0}, {1})", O.MAX: "maximum_f64({0}, {1})"}, (f64,))
    table |= spell({O.ABS: "abs({0})", O.NEG: "-{0}"}, FLOATS, SIGNED)
    table |= spell({O.ABS: "{0}", O.NEG: "{type}(0) - {0}"}, UNSIGNED)
    table |= spell({O.FMA: "fma({0}, {1}, {2})", O.SQRT: "sqrt({0})"}, FLOATS)
    table |= spell({O.FLOOR: "floor({0})", O.CEIL: "ceil({0})"}, FLOATS)
    table |= spell({O.TRUNC: "trunc({0})", O.ROUND: "round({0})"}, (f32,))
    table |= spell({O.TRUNC: "truncated_f64({0})", O.ROUND: "rounded_f64({0})"}, (f64,))
    table |= {(O.RSQRT, f32): "1.0f / sqrt({0})", (O.RSQRT, f64): "1.0lf / sqrt({0})"}
    table |= spell({O.AND: "{0} & {1}", O.OR: "{0} | {1}", O.XOR: "{0} ^ {1}", O.NOT: "~{0}"}, INTEGERS)
    table |= spell({O.AND: "{0} & {1}", O.OR: "{0} | {1}", O.XOR: "{0} != {1}", O.NOT: "!{0}"}, (bool_,))
    table |= {(O.EQ, bool_): "{0} == {1}", (O.MIN, bool_): "{0} & {1}", (O.MAX, bool_): "{0} | {1}"}
    table |= {(O.LT, bool_): "!{0} & {1}", (O.LE, bool_): "!{0} | {1}"}
    table |= {(O.GT, bool_): "{0} & !{1}", (O.GE, bool_): "{0} | !{1}"}
    # WGSL takes the count, a u32, modulo the width.
    table[O.SHL, i32] = "select({0} << (u32({1}) & 31u), 0i, u32({1}) > 31u)"
    table[O.SHR, i32] = "{0} >> min(u32({1}), 31u)"
    table[O.SHL, u32] = "select({0} << ({1} & 31u), 0u, {1} > 31u)"
    table[O.SHR, u32] = "select({0} >> ({1} & 31u), 0u, {1} > 31u)"
    for d in (i64, u64):
        table |= spell(
            {O.SHL: f"shift_left_{d}({{0}}, {{1}})", O.SHR: f"shift_right_{d}({{0}}, {{1}})"}, (d,)
        )
    return table


def _conversions() -> dict[tuple[DType, DType], str]:
    wide = (f32, f64, *INTEGERS, index)
    table = {(a, b): f"{TYPES[b]}({{0}})" for a in wide for b in wide}
    table |= {(f, d): f"{d}_of_{f}({{0}})" for f in FLOATS for d in INTEGERS}
    table |= {(f, index): f"u32_of_{f}({{0}})" for f in FLOATS}
    # naga extends by the sign of the target, not of the operand.
    table |= {(i32, u64): "u64(i64({0}))", (u32, i64): "i64(u64({0}))", (index, i64): "i64(u64({0}))"}
    table |= {(index, u32): "{0}", (u32, index): "{0}"}
    table |= {(bool_, b): f"{TYPES[b]}({{0}})" for b in wide}
    table |= {(a, bool_): f"{{0}} != {literal(a, 0)}" for a in (*INTEGERS, index)}
    table |= {(a, bool_): f"!({{0}} == {literal(a, 0.0)})" for a in FLOATS}
    # A narrow value is held in its wide type.
    table |= {(a, i32): "{0}" for a in (i8, i16)} | {(a, u32): "{0}" for a in (u8, u16)}
    table |= {(a, f32): "{0}" for a in (f16, bf16)}
    table |= {(i32, i8): "({0} << 24u) >> 24u", (i32, i16): "({0} << 16u) >> 16u"}
    table |= {(u32, u8): "{0} & 255u", (u32, u16): "{0} & 65535u"}
    table |= {(f32, f16): "f16_value(f16_bits({0}))", (f32, bf16): "bf16_value(bf16_bits({0}))"}
    return table


def _bitcasts() -> dict[tuple[DType, DType], str]:
    table = {(a, b): f"bitcast<{TYPES[b]}>({{0}})" for a in (f32, i32, u32) for b in (f32, i32, u32)}
    table |= {(a, b): f"bitcast<{TYPES[b]}>({{0}})" for a in (f64, i64, u64) for b in (f64, i64, u64)}
    table |= {(f16, u16): "f16_bits({0})", (bf16, u16): "bf16_bits({0})"}
    table |= {(u16, f16): "f16_value({0})", (u16, bf16): "bf16_value({0})"}
    table |= {(i8, u8): "bitcast<u32>({0}) & 255u", (i16, u16): "bitcast<u32>({0}) & 65535u"}
    table |= {(u8, i8): "bitcast<i32>({0} << 24u) >> 24u", (u16, i16): "bitcast<i32>({0} << 16u) >> 16u"}
    return table


def _atomics() -> dict[tuple[Opcode, DType], str]:
    names = {
        O.ATOMIC_ADD: "atomicAdd", O.ATOMIC_MIN: "atomicMin", O.ATOMIC_MAX: "atomicMax", O.ATOMIC_AND: "atomicAnd",
        O.ATOMIC_OR: "atomicOr", O.ATOMIC_XOR: "atomicXor", O.ATOMIC_EXCHANGE: "atomicExchange",
    }  # fmt: skip
    table = spell({o: f"{n}(&{{buffer}}[{{position}}], {{value}})" for o, n in names.items()}, (i32, u32))
    table[O.ATOMIC_ADD, f32] = "atomic_add_{buffer}({position}, {value})"
    exchanged = "atomicExchange(&{buffer}[{position}], bitcast<u32>({value}))"
    table[O.ATOMIC_EXCHANGE, f32] = f"bitcast<f32>({exchanged})"
    compared = "atomic_compare_exchange_{buffer}({position}, {expected}, {value})"
    return table | spell({O.ATOMIC_COMPARE_EXCHANGE: compared}, (i32, u32))


def _vectors() -> tuple[dict, dict, dict, dict]:
    """Four elements in memory: their type, making one, taking one apart, storing one element of it."""
    types, make, take, store = {}, {}, {}, {}
    for d in (f32, i32, u32):
        types[d] = f"vec4<{TYPES[d]}>"
        make[d] = f"vec4<{TYPES[d]}>({{0}}, {{1}}, {{2}}, {{3}})"
        take[d] = tuple(f"{{0}}.{c}" for c in LANES)
        store[d] = tuple(f"{{0}}.{c} = {{1}};" for c in LANES)
    for d in PACKED:
        bits, full = 8 * d.itemsize, 2 ** (8 * d.itemsize) - 1
        part = [TO_BITS[d].format(f"{{{k}}}") for k in range(4)]
        if bits == 8:
            types[d] = "u32"
            make[d] = " | ".join(f"({p} << {8 * k}u)" if k else p for k, p in enumerate(part))
            words_of, shifts = ["{0}"] * 4, [0, 8, 16, 24]
        else:
            types[d] = "vec2<u32>"
            make[d] = f"vec2<u32>({part[0]} | ({part[1]} << 16u), {part[2]} | ({part[3]} << 16u))"
            words_of, shifts = ["{0}.x", "{0}.x", "{0}.y", "{0}.y"], [0, 16, 0, 16]
        bits_of = [f"({w} >> {s}u)" if s else w for w, s in zip(words_of, shifts, strict=True)]
        take[d] = tuple(FROM_BITS[d].format(b) for b in bits_of)
        one = TO_BITS[d].format("{1}")
        store[d] = tuple(
            f"{w} = ({w} & {0xFFFFFFFF ^ (full << s):#x}u) | ({one} << {s}u);"
            for w, s in zip(words_of, shifts, strict=True)
        )
    return types, make, take, store


# Keywords and reserved words of WGSL that a buffer or scalar might be called, and names this file declares.
_RESERVED = """
alias break case const const_assert continue continuing default diagnostic discard else enable false fn for if
let loop override requires return struct switch true var while active array as asm auto await bool class
common compile default delete do enum export extends extern external f16 f32 f64 final filter from get goto
i32 i64 impl implements import inline interface layout lowp macro match meta mod module move mut new null of
operator package partition pass protected pub public readonly ref register require resource self set shared
sizeof static super target template this throw trait try type typedef typename u32 u64 union unsafe use using
vec2 vec3 vec4 virtual with writeonly yield min max abs clamp exp log select sqrt fma floor ceil round trunc
sign step pow sin cos tan tanh all any dot is_nan minimum maximum minimum_f64 maximum_f64 f16_bits f16_value
chosen quotient hidden_f32 hidden_f64 truncated_f64 rounded_f64 bf16_bits bf16_value zero_bits word groups number
NULL Self abstract alignas alignof
asm_fragment async
attribute become cast catch co_await co_return co_yield coherent column_major compile_fragment concept
const_cast consteval constexpr constinit crate debugger decltype demote demote_to_helper dynamic_cast explicit
fallthrough finally friend fxgroup groupshared highp instanceof macro_rules mediump mutable namespace nil
noexcept noinline nointerpolation non_coherent noncoherent noperspective nullptr packoffset patch
pixelfragment precise precision premerge priv regardless reinterpret_cast restrict smooth snorm static_assert
static_cast std subroutine thread_local typeid typeof unless unorm unsized varying volatile wgsl where"""
RESERVED = frozenset(_RESERVED.split()) | wide_integers.RESERVED | denormals.RESERVED


def _structure(name: str, fields: Iterable[tuple[str, str]]) -> list[str]:
    return [f"struct {name} {{", *(f"    {n}: {t}," for n, t in fields), "}"]


def _function(name: str, arguments: Iterable[tuple[str, str]], result: str, _: Declarations) -> str:
    listed = ", ".join(f"{n}: {t}" for n, t in arguments)
    return f"fn {name}({listed}) -> {result} {{" if result else f"fn {name}({listed}) {{"


def _open(d: Declarations) -> list[str]:
    return [
        f"@compute @workgroup_size({d.workgroup[0]})",
        f"fn {d.entry}(@builtin(workgroup_id) groups: vec3<u32>, "
        "@builtin(local_invocation_index) thread_index: u32) {",
        f"    let group = groups.y * {FOLD}u + groups.x;",
        *(["    depth = groups.z;"] if d.hides else []),
    ]


def _parameters() -> dict[DType, str]:
    table = dict.fromkeys((f32, f16, bf16, i8, i16, i32, u8, u16, u32, index), "p.{0}")
    whole = "(u64(p.{0}_high) << 32u) | u64(p.{0}_low)"  # naga has no bitcast of a vec2<u32> to 64 bits
    table |= {u64: whole, i64: f"bitcast<i64>({whole})", f64: f"bitcast<f64>({whole})"}
    return table | {bool_: "p.{0} != 0u"}


def _members(d: Declarations) -> list[tuple[str, str]]:
    """The launch words, each of 4 bytes, so that they lie without gaps."""
    members = []
    for p in d.parameters:
        if words(p.dtype) == 2:
            members += [(f"{p.name}_low", "u32"), (f"{p.name}_high", "u32")]
        else:
            members.append((p.name, {"float": "f32", "int": "i32"}.get(p.dtype.kind, "u32")))
    return members


def _element_type(
    b: BufferDeclaration, vectors: Mapping[DType, str], types: Mapping[DType, str], floats: bool = False
) -> str:
    if b.vector:
        return vectors[b.dtype]
    if b.atomic:
        return _atomic_type(b.dtype, floats)
    return "u32" if b.dtype in PACKED else types[b.dtype]


def _atomic_type(d: DType, floats: bool = False) -> str:
    return "atomic<f32>" if floats and d == f32 else "atomic<i32>" if d == i32 else "atomic<u32>"


def _declare(
    d: Declarations, vectors: Mapping[DType, str], types: Mapping[DType, str], immediates: bool, floats: bool
) -> list[str]:
    lines = _structure("Parameters", _members(d))
    place = "var<immediate>" if immediates else f"@group(0) @binding({len(d.buffers)}) var<uniform>"
    lines.append(f"{place} p: Parameters;")
    if d.hides:
        lines.append("var<private> depth: u32;  // 0, but no compiler knows")
    for k, b in enumerate(d.buffers):
        access = "read" if b.access is Access.READ else "read_write"
        kind = _element_type(b, vectors, types, floats)
        lines.append(f"@group(0) @binding({k}) var<storage, {access}> {b.name}: array<{kind}>;")
    for s in d.shared:
        kind = _atomic_type(s.dtype) if s.atomic else types[s.dtype]
        lines.append(f"var<workgroup> {s.name}: array<{kind}, {s.size}>;")
    return lines


def _epilogue(
    types: Mapping[DType, str],
    buffers: Sequence[tuple[int, BufferDeclaration]],
    helpers: Sequence[str],
    body: Sequence[str],
) -> list[str]:
    lines = []
    for binding, b in buffers:
        kind = _element_type(b, {}, types)
        lines.append(f"@group(0) @binding({binding}) var<storage, read_write> {b.name}: array<{kind}>;")
    body = list(body)
    if any("depth" in line for line in helpers):
        # As in `_open`: 0, for no result has 2^31 rows, but no compiler knows.
        lines.append("var<private> depth: u32;")
        body.insert(0, "depth = row >> 31u;")
    opening = "fn epilogue(value: ACC, row: u32, column: u32) -> ACC {"
    return [*lines, "", *helpers, opening, *(f"    {line}" for line in body), "}"]


PRELUDE = Prelude(
    alias="alias {name} = {type};",
    constant="const {name}: {type} = {value};",
    types={d: TYPES[d] for d in (f32, i32, u32, f64, i64, u64)} | {f16: "f16"},
    # What an epilogue computes in f16 is held in f32.
    head=lambda own, epilogue: ["enable f16;"] if f16 in own else [],
    epilogue=partial(_epilogue, TYPES),
    one_line=True,
)


LOADS = dict.fromkeys(PACKED, "load_{buffer}({position})")
STORES = dict.fromkeys(PACKED, "store_{buffer}({position}, {value});")
# f32 lies in atomics as its bits.
ATOMIC_LOADS = dict.fromkeys((i32, u32), "atomicLoad(&{buffer}[{position}])") | {
    f32: "bitcast<f32>(atomicLoad(&{buffer}[{position}]))"
}
ATOMIC_STORES = dict.fromkeys((i32, u32), "atomicStore(&{buffer}[{position}], {value});") | {
    f32: "atomicStore(&{buffer}[{position}], bitcast<u32>({value}));"
}


@cache
def wgsl(
    available: frozenset[DType] = frozenset(dtypes.ALL),
    emulated: frozenset[DType] = frozenset(),
    *,
    immediates: bool = False,
    read_write: bool = False,
    float_atomics: bool = False,
    shortfalls: frozenset[str] = frozenset(CONDUCT),
    hides_all: bool = False,
) -> Dialect:
    """WGSL for an adapter.

    `available`: the dtypes of its programs (f64 may be missing). `emulated`: those of them that it neither has nor
    packs: i64 and u64 (wide_integers.py). `immediates`: launch words come as push constants; else from a uniform
    buffer at the binding after the last storage buffer. `read_write`: every buffer is bound writable, which wgpu needs
    where two bindings lie in one GPU buffer. `float_atomics`: the adapter adds to f32 in buffers, in one instruction;
    elsewhere, and in workgroup memory, a loop compares and exchanges their bits. `shortfalls`: what of CONDUCT it does
    not keep; for any adapter, all. `hides_all`: drivers are kept from rearranging anything.
    """
    vectors, make, take, store = _vectors()
    types = {d: t for d, t in TYPES.items() if d in available or d == index}
    types |= dict.fromkeys(emulated, wide_integers.TYPE)
    dialect = Dialect(
        name="WGSL",
        suffix="wgsl",
        types=types,
        literal=literal,
        operators=_operators(shortfalls),
        conversions=_conversions(),
        bitcasts=_bitcasts(),
        declare=lambda d: _declare(d, vectors, types, immediates, float_atomics),
        open=_open,
        function=_function,
        capture=lambda _: (),
        let="let {name} = {value};",
        var="var {name}: {type} = {value};",
        loop="for (var {name} = {start}; {name} < {stop}; {name} += {step}) {{",
        barrier="workgroupBarrier();",
        agreed="workgroupUniformLoad(&{buffer}[{position}])",  # what else is read WGSL takes for different
        parameters=_parameters(),
        vectors=vectors,
        vector=make,
        element=take,
        element_store=store,
        structure=_structure,
        construct="{name}({values})",
        loads=LOADS,
        stores=STORES,
        vector_loads=LOADS,
        lane="{buffer}[{position} / 4u][{position} % 4u]",
        atomic_loads=LOADS | ATOMIC_LOADS,
        atomic_stores=STORES | ATOMIC_STORES,
        atomics=_atomics(),
        shared_atomic_loads=ATOMIC_LOADS,
        shared_atomic_stores=ATOMIC_STORES,
        shared_atomics=_atomics(),
        while_="while {condition} {{",
        array="var {name}: array<{type}, {size}>;",
        shuffle=dict.fromkeys((f32, i32, u32), "subgroupShuffle({0}, {1})"),
        helpers=functions(shortfalls),
        # Numbers of 16 bits are f32 to drivers, which know what a constant of them is.
        hidden={d: f"hidden_{TYPES[d]}({{0}})" for d in ((f16, bf16, f32, f64) if hides_all else (f32, f64))},
        packed=PACKED,
        reserved=RESERVED,
        folds=True,
        read_write=read_write,
        prelude=replace(PRELUDE, epilogue=partial(_epilogue, types)),
        options=(
            f"immediates {immediates}, read_write {read_write}, float atomics {float_atomics}, "
            f"emulated {sorted(d.name for d in emulated)}, "
            f"shortfalls {sorted(shortfalls)}, hides all {hides_all}"
        ),
        shortfalls=shortfalls,
        hides_all=hides_all,
        checks_bounds=True,
    )
    if float_atomics:
        dialect = with_float_atomics(dialect)
    dialect = wide_integers.emulated(dialect) if emulated else dialect
    return denormals.kept(dialect) if hides_all and "denormals" in shortfalls else dialect
