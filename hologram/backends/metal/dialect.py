"""MSL, Metal's C++14: spellings. It has no f64.

Compile with fast-math off (MTLCompileOptions.mathMode = safe, for which the pragmas below ask as well) and with the
precise functions of floats (mathFloatingPointFunctions), which the mode does not choose.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache

from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Access
from hologram.compiler.dialect import FOLD, BufferDeclaration, Declarations, Dialect, Prelude, spell
from hologram.compiler.source import c_family
from hologram.compiler.source.c_family import Names
from hologram.foundation.dtypes import (
    DType,
    bf16,
    bool_,
    f16,
    f32,
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
TYPES = {
    f32: "float", f16: "half", bf16: "bfloat",
    i8: "char", i16: "short", i32: "int", i64: "long",
    u8: "uchar", u16: "ushort", u32: "uint", u64: "ulong",
    bool_: "bool", index: "uint",
}  # fmt: skip
ATOMIC_TYPES = {i32: "atomic_int", u32: "atomic_uint", f32: "atomic_float"}
# Four elements are one load of at most 16 bytes.
VECTORS = {d: f"{TYPES[d]}4" for d in (f32, f16, bf16, i8, i16, i32, u8, u16, u32, bool_)}
HEAD = [
    "#include <metal_stdlib>",
    "using namespace metal;",
    "#pragma METAL fp math_mode(safe)",
    "#pragma METAL fp contract(off)",
]
MATH = {
    O.FMA: "fma({0}, {1}, {2})", O.MAD: "fma({0}, {1}, {2})", O.ABS: "fabs({0})",
    O.FLOOR: "floor({0})", O.CEIL: "ceil({0})", O.ROUND: "rint({0})", O.TRUNC: "trunc({0})",
    O.SQRT: "sqrt({0})", O.RSQRT: "1.0f / sqrt({0})", O.REM: "fmod({0}, {1})",
}  # fmt: skip
NAMES = Names(
    types=TYPES,
    function="static inline",
    suffixes={f32: "f", u32: "u", u64: "ul", i64: "l", index: "u"}
    | dict.fromkeys((i8, i16, i32, u8, u16), ""),
    bits={f32: "as_type<float>({0})"},
    to_f32=dict.fromkeys((f16, bf16), "float({0})"),
    from_float={(f32, f16): "half({0})", (f32, bf16): "bfloat({0})"},
    math=spell(MATH, (f32,)),
)
# Functions that Metal has in f32 at 4 ULP or better without fast-math; the others are written out as Atlas arithmetic.
FUNCTIONS = {o: f"{o.value}({{0}})" for o in (O.EXP, O.EXP2, O.LOG, O.LOG2, O.SIN, O.COS)}


def _pointer(b: BufferDeclaration) -> str:
    element = ATOMIC_TYPES[b.dtype] if b.atomic else VECTORS[b.dtype] if b.vector else TYPES[b.dtype]
    const = "const " if b.access is Access.READ and not b.atomic else ""
    return f"device {const}{element}* {b.name}"


def _declare(d: Declarations) -> list[str]:
    return [*HEAD, "", "struct Parameters {", *c_family.members(d.parameters, TYPES, 32), "};"]


def _open(d: Declarations) -> list[str]:
    arguments = [f"{_pointer(b)} [[buffer({k})]]" for k, b in enumerate(d.buffers)]
    arguments.append(f"constant Parameters& p [[buffer({len(d.buffers)})]]")
    arguments.append("uint3 groups [[threadgroup_position_in_grid]]")
    arguments.append("uint thread_index [[thread_index_in_threadgroup]]")
    return [
        f"kernel void {d.entry}(",
        *(f"    {a}{',' if k + 1 < len(arguments) else ''}" for k, a in enumerate(arguments)),
        ") {",
        *(
            f"    threadgroup {(ATOMIC_TYPES if s.atomic else TYPES)[s.dtype]} {s.name}[{s.size}];"
            for s in d.shared
        ),
        f"    const uint group = groups.y * {FOLD}u + groups.x;",
    ]


def _function(name: str, arguments: Iterable[tuple[str, str]], result: str, d: Declarations) -> str:
    listed = [*map(_pointer, d.buffers), "constant Parameters& p", *(f"{t} {n}" for n, t in arguments)]
    return f"static inline {result or 'void'} {name}({', '.join(listed)}) {{"


def _bitcasts() -> dict[tuple[DType, DType], str]:
    families = ((f32, i32, u32), (i64, u64), (f16, bf16, i16, u16), (i8, u8))
    return {(a, b): f"as_type<{TYPES[b]}>({{0}})" for family in families for a in family for b in family}


_ATOMIC_LOADS = dict.fromkeys(
    ATOMIC_TYPES, "atomic_load_explicit(&{buffer}[{position}], memory_order_relaxed)"
)
_ATOMIC_STORES = dict.fromkeys(
    ATOMIC_TYPES, "atomic_store_explicit(&{buffer}[{position}], {value}, memory_order_relaxed);"
)


def _atomics() -> dict[tuple[Opcode, DType], str]:
    call = "atomic_{}_explicit(&{{buffer}}[{{position}}], {{value}}, memory_order_relaxed)"
    names = {
        O.ATOMIC_ADD: "fetch_add", O.ATOMIC_MIN: "fetch_min", O.ATOMIC_MAX: "fetch_max", O.ATOMIC_AND: "fetch_and",
        O.ATOMIC_OR: "fetch_or", O.ATOMIC_XOR: "fetch_xor", O.ATOMIC_EXCHANGE: "exchange",
    }  # fmt: skip
    table = spell({o: call.format(n) for o, n in names.items()}, (i32, u32))
    compared = "compare_exchange(&{buffer}[{position}], {expected}, {value})"
    table |= spell({O.ATOMIC_COMPARE_EXCHANGE: compared}, (i32, u32))
    return table | {(o, f32): call.format(names[o]) for o in (O.ATOMIC_ADD, O.ATOMIC_EXCHANGE)}


# The weak exchange may fail though it found what was expected; Metal has no other.
_COMPARE_EXCHANGE = """template <typename Place>
static inline TYPE compare_exchange(Place place, TYPE expected, TYPE value) {{
    TYPE found = expected;
    while (!atomic_compare_exchange_weak_explicit(
        place, &found, value, memory_order_relaxed, memory_order_relaxed)) {{
        if (found != expected) {{ break; }}
        found = expected;
    }}
    return found;
}}"""


def _helpers(helpers: Mapping[tuple[object, DType], str]) -> dict[tuple[object, DType], str]:
    own = {(O.ATOMIC_COMPARE_EXCHANGE, d): _COMPARE_EXCHANGE.replace("TYPE", TYPES[d]) for d in (i32, u32)}
    return {**helpers, **own}


def _parameters() -> dict[DType, str]:
    table = {d: f"({TYPES[d]})p.{{0}}" for d in (f16, bf16, i8, i16, u8, u16)}
    table |= dict.fromkeys((f32, i32, u32, index), "p.{0}")
    whole = "(ulong)p.{0}_high << 32 | p.{0}_low"
    return table | {u64: whole, i64: f"(long)({whole})", bool_: "p.{0} != 0u"}


def _epilogue(
    buffers: Sequence[tuple[int, BufferDeclaration]], helpers: Sequence[str], body: Sequence[str]
) -> list[str]:
    return [
        *helpers,
        "struct Epilogue {",
        *(f"    device const {TYPES[b.dtype]}* {b.name};" for _, b in buffers),
        "    ACC operator()(ACC value, uint row, uint column) const constant {",
        *(f"        {line}" for line in body),
        "    }",
        "};",
    ]


PRELUDE = Prelude(
    alias="using {name} = {type};",
    constant="constant constexpr {type} {name} = {value};",
    types={d: t for d, t in TYPES.items() if d != index},
    head=lambda own, epilogue: HEAD,
    epilogue=_epilogue,
)

# MSL's own words, and names this file declares. Everything of `metal` is in sight: what is spelled here is no name.
RESERVED = (
    *(
        "atomic_float",
        "atomic_int",
        "atomic_uint",
        "constant",
        "device",
        "fragment",
        "groups",
        "kernel",
        "metal",
    ),
    *("mem_flags", "memory_order_relaxed", "thread", "threadgroup", "threadgroup_barrier", "vertex"),
)


@cache
def msl() -> Dialect:
    """MSL 3.1 (bfloat), as Apple's GPUs take it."""
    made = c_family.dialect(
        NAMES,
        VECTORS,
        spell(FUNCTIONS, (f32,)) | spell({O.MULHI: "mulhi({0}, {1})"}, (i32, u32)),
        name="MSL",
        suffix="metal",
        bitcasts=_bitcasts(),
        declare=_declare,
        open=_open,
        function=_function,
        barrier="threadgroup_barrier(mem_flags::mem_threadgroup);",
        parameters=_parameters(),
        vector={d: f"{t}({{0}}, {{1}}, {{2}}, {{3}})" for d, t in VECTORS.items()},
        lane="{buffer}[{position} / 4u][{position} % 4u]",
        atomic_loads=_ATOMIC_LOADS,
        atomic_stores=_ATOMIC_STORES,
        shared_atomic_loads=_ATOMIC_LOADS,
        shared_atomic_stores=_ATOMIC_STORES,
        atomics=_atomics(),
        shared_atomics=_atomics(),
        exchange=dict.fromkeys((f32, i32, u32), "simd_shuffle_xor({0}, {1})"),  # nothing has 64 bits there
        shuffle=dict.fromkeys((f32, i32, u32), "simd_shuffle({0}, ushort({1}))"),
        reserved=RESERVED,
        prelude=PRELUDE,
    )
    return replace(made, helpers=_helpers(made.helpers))
