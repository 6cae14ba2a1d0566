"""CUDA C++ as NVRTC takes it: spellings, and the options that keep it IEEE."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache, partial

from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Access
from hologram.compiler.dialect import FOLD, BufferDeclaration, Declarations, Dialect, Prelude, spell
from hologram.compiler.source import c_family
from hologram.compiler.source.c_family import Names
from hologram.foundation import dtypes
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
# Of NVRTC: no fused multiply-add but where a program says so. Subnormals, division and square
# roots are exact by default.
OPTIONS = ("--std=c++17", "--fmad=false")
TYPES = {
    f32: "float", f16: "__half", bf16: "__nv_bfloat16", f64: "double",
    i8: "signed char", i16: "short", i32: "int", i64: "long long",
    u8: "unsigned char", u16: "unsigned short", u32: "unsigned", u64: "unsigned long long",
    bool_: "bool",
}  # fmt: skip
INCLUDES = {f16: "#include <cuda_fp16.h>", bf16: "#include <cuda_bf16.h>"}
VECTORS = {
    f32: "float4", i8: "char4", i16: "short4", i32: "int4", u8: "uchar4", u16: "ushort4", u32: "uint4",
    f16: "half_4", bf16: "bfloat16_4", bool_: "bool_4",
}  # fmt: skip
OWN_VECTORS = (f16, bf16, bool_)  # CUDA has no such vector of four
LANE = """// One element of a buffer of vectors.
template <typename Vector, typename Position> __device__ inline auto& lane_of(Vector* vectors, Position position) {
    return (&vectors->x)[position];
}"""
_FUNCTIONS = (
    *(O.SQRT, O.EXP, O.EXP2, O.EXPM1, O.LOG, O.LOG2, O.LOG1P, O.SIN, O.COS, O.TAN, O.TANH, O.ATAN, O.ERF),
    *(O.FLOOR, O.CEIL, O.TRUNC, O.POW),
)


def _math(d: DType) -> dict[tuple[Opcode, DType], str]:
    f = "f" if d == f32 else ""
    table = {o: f"{o.value}{f}({{0}}{', {1}' if o is O.POW else ''})" for o in _FUNCTIONS}
    table |= {O.ABS: f"fabs{f}({{0}})", O.ROUND: f"rint{f}({{0}})", O.REM: f"fmod{f}({{0}}, {{1}})"}
    table |= dict.fromkeys((O.FMA, O.MAD), f"fma{f}({{0}}, {{1}}, {{2}})")
    one = "1.0f" if d == f32 else "1.0"
    return spell(table | {O.RSQRT: f"{one} / sqrt{f}({{0}})"}, (d,))


def names(index_bits: int) -> Names:
    return Names(
        types=TYPES | {index: TYPES[u32] if index_bits == 32 else TYPES[i64]},
        function="__device__ inline",
        suffixes=dict.fromkeys((i8, i16, i32, u8, u16, f64), "")
        | {f32: "f", u32: "u", u64: "ull", i64: "ll", index: "u" if index_bits == 32 else "ll"},
        bits={f32: "__uint_as_float({0})", f64: "__longlong_as_double((long long){0})"},
        to_f32={f16: "__half2float({0})", bf16: "__bfloat162float({0})"},
        from_float={
            (f32, f16): "__float2half({0})",
            (f64, f16): "__double2half({0})",
            (f32, bf16): "__float2bfloat16({0})",
            (f64, bf16): "__double2bfloat16({0})",
        },
        math=_math(f32) | _math(f64),
    )


def _pointer(b: BufferDeclaration) -> str:
    const = "const " if b.access is Access.READ and not b.atomic else ""
    return f"{const}{VECTORS[b.dtype] if b.vector else TYPES[b.dtype]}* {b.name}"


def _declare(d: Declarations, index_bits: int) -> list[str]:
    lines = ["struct Parameters {", *c_family.members(d.parameters, TYPES, index_bits), "};"]
    for dtype in OWN_VECTORS:
        if any(b.vector and b.dtype == dtype for b in d.buffers):
            fields = f"{TYPES[dtype]} x, y, z, w;"
            lines += ["", f"struct alignas({4 * dtype.itemsize}) {VECTORS[dtype]} {{", f"    {fields}", "};"]
    if any(b.vector for b in d.buffers):
        lines += ["", *LANE.split("\n")]
    return lines


def _open(d: Declarations) -> list[str]:
    arguments = [*map(_pointer, d.buffers), "const Parameters p"]
    threads = d.workgroup[0] * d.workgroup[1] * d.workgroup[2]
    return [
        f'extern "C" __global__ void __launch_bounds__({threads}) {d.entry}({", ".join(arguments)}) {{',
        *(f"    __shared__ {TYPES[s.dtype]} {s.name}[{s.size}];" for s in d.shared),
        f"    const unsigned group = blockIdx.y * {FOLD}u + blockIdx.x;",
        "    const unsigned thread_index = threadIdx.x;",
    ]


def _function(name: str, arguments: Iterable[tuple[str, str]], result: str, d: Declarations) -> str:
    listed = [*map(_pointer, d.buffers), "const Parameters& p", *(f"{t} {n}" for n, t in arguments)]
    return f"__device__ inline {result or 'void'} {name}({', '.join(listed)}) {{"


def _bitcasts() -> dict[tuple[DType, DType], str]:
    table = {
        (f32, i32): "__float_as_int({0})", (f32, u32): "__float_as_uint({0})",
        (i32, f32): "__int_as_float({0})", (u32, f32): "__uint_as_float({0})",
        (f64, i64): "__double_as_longlong({0})", (f64, u64): "(unsigned long long)__double_as_longlong({0})",
        (i64, f64): "__longlong_as_double({0})", (u64, f64): "__longlong_as_double((long long){0})",
        (f16, i16): "__half_as_short({0})", (f16, u16): "__half_as_ushort({0})",
        (i16, f16): "__short_as_half({0})", (u16, f16): "__ushort_as_half({0})",
        (bf16, i16): "__bfloat16_as_short({0})", (bf16, u16): "__bfloat16_as_ushort({0})",
        (i16, bf16): "__short_as_bfloat16({0})", (u16, bf16): "__ushort_as_bfloat16({0})",
    }  # fmt: skip
    for a, b in ((i8, u8), (i16, u16), (i32, u32), (i64, u64)):
        table |= {(a, b): f"({TYPES[b]}){{0}}", (b, a): f"({TYPES[a]}){{0}}"}
    return table


def _atomics() -> dict[tuple[Opcode, DType], str]:
    functions = {
        O.ATOMIC_ADD: "atomicAdd", O.ATOMIC_MIN: "atomicMin", O.ATOMIC_MAX: "atomicMax", O.ATOMIC_AND: "atomicAnd",
        O.ATOMIC_OR: "atomicOr", O.ATOMIC_XOR: "atomicXor", O.ATOMIC_EXCHANGE: "atomicExch",
    }  # fmt: skip
    table = spell(
        {o: f"{n}(&{{buffer}}[{{position}}], {{value}})" for o, n in functions.items()}, (i32, u32, u64)
    )
    for o in (O.ATOMIC_ADD, O.ATOMIC_EXCHANGE):
        table[o, f32] = f"{functions[o]}(&{{buffer}}[{{position}}], {{value}})"
    table |= spell(
        {O.ATOMIC_COMPARE_EXCHANGE: "atomicCAS(&{buffer}[{position}], {expected}, {value})"}, (i32, u32, u64)
    )
    return table | {(O.ATOMIC_ADD, f64): "atomicAdd(&{buffer}[{position}], {value})"}


def _parameters(index_bits: int) -> dict[DType, str]:
    table = dict.fromkeys((f32, i32, u32, index), "p.{0}") | {
        d: f"({TYPES[d]})p.{{0}}" for d in (i8, i16, u8, u16)
    }
    table |= {f16: "__float2half(p.{0})", bf16: "__float2bfloat16(p.{0})"}
    whole = "(unsigned long long)p.{0}_high << 32 | p.{0}_low"
    table |= {u64: whole, i64: f"(long long)({whole})", f64: f"__longlong_as_double((long long)({whole}))"}
    return table | {bool_: "p.{0} != 0u"} | ({index: table[i64]} if index_bits == 64 else {})


def _make() -> dict[DType, str]:
    """Making a vector of four."""
    make = {d: f"make_{v}({{0}}, {{1}}, {{2}}, {{3}})" for d, v in VECTORS.items() if d not in OWN_VECTORS}
    return make | {d: f"{VECTORS[d]}{{{{{{0}}, {{1}}, {{2}}, {{3}}}}}}" for d in OWN_VECTORS}


def _epilogue(
    buffers: Sequence[tuple[int, BufferDeclaration]], helpers: Sequence[str], body: Sequence[str]
) -> list[str]:
    return [
        *helpers,
        "struct Epilogue {",
        *(f"    const {TYPES[b.dtype]}* {b.name};" for _, b in buffers),
        "    __device__ ACC operator()(ACC value, unsigned row, unsigned column) const {",
        *(f"        {line}" for line in body),
        "    }",
        "};",
    ]


def _head(used: frozenset[DType]) -> list[str]:
    return [INCLUDES[d] for d in dtypes.ALL if d in used and d in INCLUDES]


PRELUDE = Prelude(
    alias="using {name} = {type};",
    constant="constexpr {type} {name} = {value};",
    types=TYPES,
    head=lambda own, epilogue: _head(own | epilogue),
    epilogue=_epilogue,
)

# CUDA's own words, and names this file declares.
RESERVED = ("blockDim", "blockIdx", "gridDim", "lane_of", "threadIdx", "warpSize")


@cache
def cuda(index_bits: int = 32) -> Dialect:
    """CUDA C++ with positions of 32 bits (unsigned, modular) or, for buffers of 2^32 elements and more, 64 (signed)."""
    return c_family.dialect(
        names(index_bits),
        VECTORS,
        {(O.MULHI, i32): "__mulhi({0}, {1})", (O.MULHI, u32): "__umulhi({0}, {1})"},
        name="CUDA",
        suffix="cu",
        bitcasts=_bitcasts(),
        declare=partial(_declare, index_bits=index_bits),
        open=_open,
        function=_function,
        barrier="__syncthreads();",
        parameters=_parameters(index_bits),
        vector=_make(),
        lane="lane_of({buffer}, {position})",
        atomics=_atomics(),
        shared_atomics=_atomics(),
        exchange=dict.fromkeys((f32, f64, i32, i64, u32, u64), "__shfl_xor_sync(0xffffffffu, {0}, {1})"),
        shuffle=dict.fromkeys((f32, f64, i32, i64, u32, u64), "__shfl_sync(0xffffffffu, {0}, {1})"),
        reserved=RESERVED,
        head=_head,
        index_bits=index_bits,
        prelude=PRELUDE,
        options=f"index_bits {index_bits}",
    )
