"""How each pure Atlas opcode is spelled in LLVM IR: one table.

An entry takes the writer, the operands' dtype and the operands' registers. 16-bit floats are f32 registers here (see
writer.py): `ROUNDED` names the opcodes whose result must be rounded back.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from hologram.atlas.opcodes import TRANSCENDENTALS, Opcode
from hologram.backends.cpu.llvm.division import divided
from hologram.backends.cpu.llvm.writer import Writer, from_memory, literal, register_type, round_to, to_memory
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType

O = Opcode
Spelling = Callable[..., str]

ROUNDED = TRANSCENDENTALS | {O.ADD, O.SUB, O.MUL, O.DIV, O.REM, O.MAD, O.FMA, O.POW}


def _suffix(dtype: DType) -> str:
    """As in llvm.fabs.f32, llvm.abs.i16."""
    if dtype.is_float:
        return "f64" if dtype == dtypes.f64 else "f32"
    return register_type(dtype)


def _arithmetic(floats: str, integers: str, bools: str) -> Spelling:
    def spell(w: Writer, d: DType, x: str, y: str) -> str:
        operation = floats if d.is_float else bools if d.kind == "bool" else integers
        if d.kind == "index":
            operation += " nsw"
        return w(f"{operation} {register_type(d)} {x}, {y}")

    return spell


def _division(w: Writer, d: DType, x: str, y: str, remainder: bool) -> str:
    if d.is_float:
        return w(f"{'frem' if remainder else 'fdiv'} {register_type(d)} {x}, {y}")
    return divided(w, d, x, y, remainder)


def _divide(w: Writer, d: DType, x: str, y: str) -> str:
    return _division(w, d, x, y, False)


def _remainder(w: Writer, d: DType, x: str, y: str) -> str:
    return _division(w, d, x, y, True)


_MAGNITUDE, _INFINITY = (1 << 63) - 1, 0x7FF << 52  # of the bits of literals


def _extreme(larger: bool) -> Spelling:
    def spell(w: Writer, d: DType, x: str, y: str) -> str:
        t = register_type(d)
        if d.is_float:
            order = "gt" if larger else "lt"
            if y.startswith("0x") and int(y, 16) & _MAGNITUDE <= _INFINITY:  # a constant, and no NaN
                return w(f"select i1 {w(f'fcmp u{order} {t} {x}, {y}')}, {t} {x}, {t} {y}")
            # An ordered compare picks y if either is NaN, which is right unless x is the NaN. That x, instead of a
            # NaN of our own, would make one condition of both, and a branch of that where it is no vector's.
            chosen = w(f"select i1 {w(f'fcmp o{order} {t} {x}, {y}')}, {t} {x}, {t} {y}")
            return w(f"select i1 {w(f'fcmp uno {t} {x}, {x}')}, {t} {literal(math.nan, d)}, {t} {chosen}")
        if d.kind == "bool":
            return w(f"{'or' if larger else 'and'} i1 {x}, {y}")
        name = f"llvm.{'s' if d.is_signed else 'u'}{'max' if larger else 'min'}.{t}"
        return w.intrinsic(name, t, (t, x), (t, y))

    return spell


def _absolute(w: Writer, d: DType, x: str) -> str:
    t = register_type(d)
    if d.is_float:
        return w.intrinsic(f"llvm.fabs.{_suffix(d)}", t, (t, x))
    return w.intrinsic(f"llvm.abs.{t}", t, (t, x), ("i1", "false")) if d.is_signed else x


def _negate(w: Writer, d: DType, x: str) -> str:
    t = register_type(d)
    if d.is_float:
        return w(f"fneg {t} {x}")
    return x if d.kind == "bool" else w(f"sub {t} 0, {x}")


def _not(w: Writer, d: DType, x: str) -> str:
    return w(f"xor {register_type(d)} {x}, {'true' if d.kind == 'bool' else '-1'}")


def _shift(left: bool) -> Spelling:
    def spell(w: Writer, d: DType, x: str, count: str) -> str:
        t = register_type(d)
        inside = w(f"icmp ult {t} {count}, {d.bits}")
        if not left and d.is_signed:
            return w(f"ashr {t} {x}, {w(f'select i1 {inside}, {t} {count}, {t} {d.bits - 1}')}")
        shifted = w(f"{'shl' if left else 'lshr'} {t} {x}, {w(f'and {t} {count}, {d.bits - 1}')}")
        return w(f"select i1 {inside}, {t} {shifted}, {t} 0")

    return spell


def _multiply_high(w: Writer, d: DType, x: str, y: str) -> str:
    t, wide = register_type(d), f"i{2 * d.bits}"
    extend = "sext" if d.is_signed else "zext"
    product = w(f"mul {wide} {w(f'{extend} {t} {x} to {wide}')}, {w(f'{extend} {t} {y} to {wide}')}")
    return w(f"trunc {wide} {w(f'lshr {wide} {product}, {d.bits}')} to {t}")


def _multiply_add(name: str) -> Spelling:
    def spell(w: Writer, d: DType, x: str, y: str, z: str) -> str:
        t = register_type(d)
        if d.is_float:
            return w.intrinsic(f"{name}.{_suffix(d)}", t, (t, x), (t, y), (t, z))
        return w(f"add {t} {w(f'mul {t} {x}, {y}')}, {z}")

    return spell


def _power(w: Writer, d: DType, x: str, y: str) -> str:
    t = register_type(d)
    if d.is_float:
        return w.intrinsic(f"llvm.pow.{_suffix(d)}", t, (t, x), (t, y))
    return _integer_power(w, d, x, y)


def _integer_power(w: Writer, d: DType, x: str, y: str) -> str:
    """By squaring; a negative exponent leaves 1 for 1, the sign for -1, else 0."""
    t = register_type(d)
    before, head, body, done = w.block, w.label("head"), w.label("body"), w.label("done")
    negative = w(f"icmp slt {t} {y}, 0") if d.is_signed else "false"
    start = w(f"select i1 {negative}, {t} 0, {t} {y}")
    w.jump(head)
    w.place(head)
    result, base, rest = w.name(), w.name(), w.name()
    following = w.name(), w.name(), w.name()
    for phi, first, later in zip((result, base, rest), ("1", x, start), following, strict=True):
        w.do(f"{phi} = phi {t} [ {first}, %{before} ], [ {later}, %{body} ]")
    w.branch(w(f"icmp ne {t} {rest}, 0"), body, done)
    w.place(body)
    odd = w(f"trunc {t} {rest} to i1")
    w.do(f"{following[0]} = mul {t} {result}, {w(f'select i1 {odd}, {t} {base}, {t} 1')}")
    w.do(f"{following[1]} = mul {t} {base}, {base}")
    w.do(f"{following[2]} = lshr {t} {rest}, 1")
    w.jump(head)
    w.place(done)
    if not d.is_signed:
        return result
    one = w(f"icmp eq {t} {x}, 1")
    minus = w(f"icmp eq {t} {x}, -1")
    even = w(f"icmp eq {t} {w(f'and {t} {y}, 1')}, 0")
    sign = w(f"select i1 {w(f'or i1 {one}, {even}')}, {t} 1, {t} -1")
    inverse = w(f"select i1 {w(f'or i1 {one}, {minus}')}, {t} {sign}, {t} 0")
    return w(f"select i1 {negative}, {t} {inverse}, {t} {result}")


def _compare(ordered: str, integers: str) -> Spelling:
    def spell(w: Writer, d: DType, x: str, y: str) -> str:
        if d.is_float:
            return w(f"fcmp {ordered} {register_type(d)} {x}, {y}")
        sign = "" if integers in ("eq", "ne") else "s" if d.is_signed else "u"
        return w(f"icmp {sign}{integers} {register_type(d)} {x}, {y}")

    return spell


def _intrinsic(name: str) -> Spelling:
    def spell(w: Writer, d: DType, x: str) -> str:
        t = register_type(d)
        return w.intrinsic(f"llvm.{name}.{_suffix(d)}", t, (t, x))

    return spell


def _reciprocal_root(w: Writer, d: DType, x: str) -> str:
    t = register_type(d)
    return w(f"fdiv {t} {literal(1.0, d)}, {w.intrinsic(f'llvm.sqrt.{_suffix(d)}', t, (t, x))}")


def _libm(name: str) -> Spelling:
    def spell(w: Writer, d: DType, x: str) -> str:
        t = register_type(d)
        return w.intrinsic(name if d == dtypes.f64 else f"{name}f", t, (t, x))

    return spell


def _rounding(name: str) -> Spelling:
    def spell(w: Writer, d: DType, x: str) -> str:
        return _intrinsic(name)(w, d, x) if d.is_float else x

    return spell


SPELLINGS: dict[Opcode, Spelling] = {
    O.ADD: _arithmetic("fadd", "add", "or"),
    O.SUB: _arithmetic("fsub", "sub", "xor"),
    O.MUL: _arithmetic("fmul", "mul", "and"),
    O.DIV: _divide,
    O.REM: _remainder,
    O.MULHI: _multiply_high,
    O.MAD: _multiply_add("llvm.fmuladd"),
    O.FMA: _multiply_add("llvm.fma"),
    O.MIN: _extreme(larger=False),
    O.MAX: _extreme(larger=True),
    O.ABS: _absolute,
    O.NEG: _negate,
    O.POW: _power,
    O.AND: lambda w, d, x, y: w(f"and {register_type(d)} {x}, {y}"),
    O.OR: lambda w, d, x, y: w(f"or {register_type(d)} {x}, {y}"),
    O.XOR: lambda w, d, x, y: w(f"xor {register_type(d)} {x}, {y}"),
    O.NOT: _not,
    O.SHL: _shift(left=True),
    O.SHR: _shift(left=False),
    O.EQ: _compare("oeq", "eq"),
    O.NE: _compare("une", "ne"),
    O.LT: _compare("olt", "lt"),
    O.LE: _compare("ole", "le"),
    O.GT: _compare("ogt", "gt"),
    O.GE: _compare("oge", "ge"),
    O.SQRT: _intrinsic("sqrt"),
    O.RSQRT: _reciprocal_root,
    O.EXP: _intrinsic("exp"),
    O.EXP2: _intrinsic("exp2"),
    O.EXPM1: _libm("expm1"),
    O.LOG: _intrinsic("log"),
    O.LOG2: _intrinsic("log2"),
    O.LOG1P: _libm("log1p"),
    O.SIN: _intrinsic("sin"),
    O.COS: _intrinsic("cos"),
    O.TAN: _libm("tan"),
    O.TANH: _libm("tanh"),
    O.ATAN: _libm("atan"),
    O.ERF: _libm("erf"),
    O.FLOOR: _rounding("floor"),
    O.CEIL: _rounding("ceil"),
    O.ROUND: _rounding("roundeven"),
    O.TRUNC: _rounding("trunc"),
}


def spell(w: Writer, opcode: Opcode, dtype: DType, *operands: str) -> str:
    """One operation, rounded to its dtype."""
    result = SPELLINGS[opcode](w, dtype, *operands)
    return round_to(w, result, dtype) if opcode in ROUNDED else result


def convert(w: Writer, x: str, source: DType, target: DType) -> str:
    """To nearest even; float to integer truncates and saturates."""
    s, t = register_type(source), register_type(target)
    if source == target:
        return x
    if target.kind == "bool":
        zero = literal(0, source)
        return w(f"fcmp une {s} {x}, {zero}") if source.is_float else w(f"icmp ne {s} {x}, 0")
    if source.is_float and target.is_float:
        return _between_floats(w, x, source, target)
    if target.is_float:
        operation = "sitofp" if source.is_signed else "uitofp"
        return round_to(w, w(f"{operation} {s} {x} to {t}"), target)
    if source.is_float:
        return _saturated(w, x, source, target)
    narrow, wide = source.bits, target.bits
    if narrow == wide:
        return x
    if narrow > wide:
        return w(f"trunc {s} {x} to {t}")
    return w(f"{'sext' if source.is_signed else 'zext'} {s} {x} to {t}")


def _saturated(w: Writer, x: str, source: DType, target: DType) -> str:
    """Float to integer. LLVM's own saturating conversion does not vectorise; a compare on each side does.

    Out of range the plain conversion is poison, which a select that does not choose it stops.
    """
    s, t = register_type(source), register_type(target)
    exact = dtypes.f64 if source == dtypes.f64 else dtypes.f32
    signed = target.is_signed
    lowest, beyond = target.lowest, target.highest + 1
    plain = w(f"fpto{'s' if signed else 'u'}i {s} {x} to {t}")
    below = w(f"fcmp ole {s} {x}, {literal(float(lowest), exact)}")
    above = w(f"fcmp oge {s} {x}, {literal(float(beyond), exact)}")
    result = w(f"select i1 {below}, {t} {lowest}, {t} {plain}")
    result = w(f"select i1 {above}, {t} {beyond - 1}, {t} {result}")
    return w(f"select i1 {w(f'fcmp uno {s} {x}, {x}')}, {t} 0, {t} {result}")


def _between_floats(w: Writer, x: str, source: DType, target: DType) -> str:
    if target == dtypes.f64:
        return w(f"fpext float {x} to double")
    if source != dtypes.f64:
        return round_to(w, x, target)
    if target == dtypes.f32:
        return w(f"fptrunc double {x} to float")
    # Rounding twice is right if the first one rounds to odd: the last bit then tells that something was lost.
    near = w(f"fptrunc double {x} to float")
    back = w(f"fpext float {near} to double")
    bits = w(f"bitcast float {near} to i32")
    exact = w(f"fcmp ueq double {back}, {x}")
    below = w(
        f"fcmp olt double {w.intrinsic('llvm.fabs.f64', 'double', ('double', x))}, "
        f"{w.intrinsic('llvm.fabs.f64', 'double', ('double', back))}"
    )
    # Towards zero first (one down in magnitude if it was rounded away), then the sticky bit.
    cut = w(f"sub i32 {bits}, {w(f'zext i1 {below} to i32')}")
    odd = w(f"select i1 {exact}, i32 {bits}, i32 {w(f'or i32 {cut}, 1')}")
    return round_to(w, w(f"bitcast i32 {odd} to float"), target)


def bitcast(w: Writer, x: str, source: DType, target: DType) -> str:
    """The same bits as another dtype of that width."""
    from_type, to_type = register_type(source), register_type(target)
    if source.computed is not source:
        x = _bits16(w, x, source)
        from_type = "i16"
    if target.computed is not target:
        return _float16(w, x, target)
    return x if from_type == to_type else w(f"bitcast {from_type} {x} to {to_type}")


def _bits16(w: Writer, x: str, dtype: DType) -> str:
    stored = to_memory(w, x, dtype)
    return w(f"bitcast half {stored} to i16") if dtype == dtypes.f16 else stored


def _float16(w: Writer, bits: str, dtype: DType) -> str:
    stored = w(f"bitcast i16 {bits} to half") if dtype == dtypes.f16 else bits
    return from_memory(w, stored, dtype)
