"""What CUDA C++ and MSL spell alike: operators, conversions, statements and helper functions.

Narrow dtypes (8 and 16 bits) have types of their own in memory, but no arithmetic here: compiler/lowering/lower.py
computes them in their wide dtypes. What C++ leaves undefined (overflow, division by zero, wide shifts, conversions
out of range) is spelled out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np

from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import ScalarParameter
from hologram.compiler.dialect import LANES, Dialect, spell, words
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType, Number, bool_, f32, f64, i32, i64, index, u32, u64
from hologram.foundation.frozen import frozen

O = Opcode
# Of C++, which no name may be; and C's macros that headers bring.
WORDS = """
alignas alignof and and_eq asm assert auto bitand bitor bool break case catch char char16_t char32_t class compl
const const_cast constexpr continue decltype default delete do double dynamic_cast else enum explicit export extern
false float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq
private protected public register reinterpret_cast restrict return short signed sizeof static static_assert
static_cast struct switch template this thread_local throw true try typedef typeid typename union unsigned using
virtual void volatile wchar_t while xor xor_eq INFINITY NAN NULL
"""
KEYWORDS = frozenset(WORDS.split())
SIGNED = (i32, i64)
UNSIGNED = (u32, u64)
INTEGERS = SIGNED + UNSIGNED
NARROW = tuple(d for d in dtypes.COMPUTED if d.bits < 32 and d != bool_)


@frozen(eq=False)
class Names:
    """Where the two languages differ."""

    types: Mapping[DType, str]
    function: str  # what a helper function's declaration starts with
    suffixes: Mapping[DType, str]  # of literals
    bits: Mapping[DType, str]  # {0}: the bits of a float as an unsigned literal -> the float
    to_f32: Mapping[DType, str]  # {0}
    from_float: Mapping[tuple[DType, DType], str]  # to narrow floats
    math: Mapping[tuple[Opcode, DType], str]  # functions of floats

    @property
    def floats(self) -> tuple[DType, ...]:
        """The floats with arithmetic."""
        return tuple(d for d in (f32, f64) if d in self.types)


def literal(names: Names, dtype: DType, number: Number) -> str:
    """A literal of the dtype's type, or of one that converts to it."""
    if dtype == bool_:
        return "true" if number else "false"
    if not dtype.is_float:
        value, suffix = int(number), names.suffixes[dtype]
        if not dtype.is_signed:
            return f"{value}{suffix}"
        if dtype == index and suffix == "u":
            return f"{value & 0xFFFFFFFF}u"
        # C++ has no negative literals: the lowest number is an expression.
        return (
            f"({value + 1}{suffix} - 1)" if value == -(2 ** (max(dtype.bits, 32) - 1)) else f"{value}{suffix}"
        )
    if dtype not in (f32, f64):
        with np.errstate(over="ignore"):
            rounded = float(dtype.numpy.type(number))
        return names.from_float[f32, dtype].format(literal(names, f32, rounded))
    with np.errstate(over="ignore"):
        value = dtype.numpy.type(number)
    if not np.isfinite(value):
        unsigned = np.uint32 if dtype == f32 else np.uint64
        return names.bits[dtype].format(
            f"{int(value.view(unsigned)):#x}{names.suffixes[u32 if dtype == f32 else u64]}"
        )
    return f"{float(str(value))!r}{names.suffixes[dtype]}"  # as Python writes it: NumPy's versions differ


def operators(names: Names, index_signed: bool) -> dict[tuple[Opcode, DType], str]:
    """By the opcode and the dtype of the last operand."""
    types, floats = names.types, names.floats
    plain = {O.ADD: "{0} + {1}", O.SUB: "{0} - {1}", O.MUL: "{0} * {1}"}
    table = spell(plain, floats, UNSIGNED, (index,)) | spell({O.MAD: "{0} * {1} + {2}"}, UNSIGNED, (index,))
    for d in SIGNED:  # signed overflow is undefined in C++
        wide = f"({types[u32 if d == i32 else u64]})"
        table |= spell(
            {o: f"({types[d]})({wide}{{0}} {sign} {wide}{{1}})" for o, sign in SIGNS.items()}, (d,)
        )
        table[O.MAD, d] = f"({types[d]})({wide}{{0}} * {wide}{{1}} + {wide}{{2}})"
        table[O.NEG, d] = f"({types[d]})(0 - {wide}{{0}})"
        table[O.ABS, d] = f"{{0}} < 0 ? ({types[d]})(0 - {wide}{{0}}) : {{0}}"
        count, last = f"{wide}{{1}}", d.bits - 1
        table[O.SHL, d] = f"{count} > {last} ? 0 : ({types[d]})({wide}{{0}} << {{1}})"
        table[O.SHR, d] = f"{{0}} >> ({count} > {last} ? {last} : {{1}})"
        table |= {(O.DIV, d): f"divide_{d}({{0}}, {{1}})", (O.REM, d): f"remainder_{d}({{0}}, {{1}})"}
    for d in UNSIGNED:
        table |= {(O.NEG, d): "0 - {0}", (O.ABS, d): "{0}"}
        table |= {(O.SHL, d): f"{{1}} > {d.bits - 1} ? 0 : {{0}} << {{1}}"}
        table |= {(O.SHR, d): f"{{1}} > {d.bits - 1} ? 0 : {{0}} >> {{1}}"}
        table |= {(O.DIV, d): "{1} == 0 ? 0 : {0} / {1}", (O.REM, d): "{1} == 0 ? 0 : {0} % {1}"}
    table |= {(O.DIV, index): "{0} / {1}", (O.REM, index): "{0} % {1}"}
    table |= {(O.NEG, index): "-{0}"} if index_signed else {(O.NEG, index): "0u - {0}"}
    order = {O.EQ: "{0} == {1}", O.NE: "{0} != {1}", O.LT: "{0} < {1}"}
    order |= {O.LE: "{0} <= {1}", O.GT: "{0} > {1}", O.GE: "{0} >= {1}"}
    table |= spell(order, floats, INTEGERS, (index, bool_))
    table |= spell({O.SELECT: "{0} ? {1} : {2}"}, [d for d in (*dtypes.ALL, index) if d in types])
    extremes = {O.MIN: "{0} < {1} ? {0} : {1}", O.MAX: "{0} > {1} ? {0} : {1}"}
    table |= spell(extremes, INTEGERS, (index,)) | spell({O.MIN: "{0} & {1}", O.MAX: "{0} | {1}"}, (bool_,))
    table |= spell({O.MIN: "minimum({0}, {1})", O.MAX: "maximum({0}, {1})"}, floats)
    table |= spell({O.DIV: "{0} / {1}", O.NEG: "-({0})"}, floats)
    table |= spell({O.AND: "{0} & {1}", O.OR: "{0} | {1}", O.XOR: "{0} ^ {1}"}, INTEGERS, (bool_,))
    table |= spell({O.NOT: "~{0}"}, INTEGERS) | {(O.NOT, bool_): "!{0}"}
    return table | dict(names.math)


SIGNS = {O.ADD: "+", O.SUB: "-", O.MUL: "*"}


def helpers(names: Names) -> dict[tuple[object, DType], str]:
    """Functions that the operators and conversions call."""
    texts: dict[tuple[object, DType], str] = {}
    for d in names.floats:
        for opcode, name, sign in ((O.MIN, "minimum", "<"), (O.MAX, "maximum", ">")):
            texts[opcode, d] = _function(
                names, d, name, ((d, "x"), (d, "y")), f"x != x || y != y ? x + y : x {sign} y ? x : y"
            )
    for d in SIGNED:
        pair = ((d, "x"), (d, "y"))
        texts[O.DIV, d] = _function(
            names,
            d,
            f"divide_{d}",
            pair,
            f"y == 0 ? 0 : y == -1 ? ({names.types[d]})({_negated(names, d)}) : x / y",
        )
        texts[O.REM, d] = _function(names, d, f"remainder_{d}", pair, "y == 0 || y == -1 ? 0 : x % y")
    for source in names.floats:
        for target in INTEGERS:
            texts[(O.CONVERT, source), target] = _function(
                names, target, f"{source}_to_{target}", ((source, "x"),), _saturated(names, source, target)
            )
    texts |= {((O.CONVERT, source), index): texts[(O.CONVERT, source), i64] for source in names.floats}
    return texts


def _negated(names: Names, d: DType) -> str:
    return f"0 - ({names.types[u32 if d == i32 else u64]})x"


def _function(
    names: Names, result: DType, name: str, arguments: Iterable[tuple[DType, str]], expression: str
) -> str:
    listed = ", ".join(f"{names.types[d]} {n}" for d, n in arguments)
    return f"{names.function} {names.types[result]} {name}({listed}) {{\n    return {expression};\n}}"


def _saturated(names: Names, source: DType, target: DType) -> str:
    """A float truncated to an integer; the bounds that count are powers of two, which floats hold exactly."""
    low, high = literal(names, target, target.lowest), literal(names, target, target.highest)
    bounds = [literal(names, source, float(b)) for b in (target.lowest, target.highest + 1)]
    return f"x != x ? 0 : x <= {bounds[0]} ? {low} : x >= {bounds[1]} ? {high} : ({names.types[target]})x"


def conversions(names: Names) -> dict[tuple[DType, DType], str]:
    """From and to."""
    types, floats = names.types, names.floats
    whole = (*INTEGERS, index)
    table = {(a, b): f"({types[b]}){{0}}" for a in whole for b in (*whole, *floats)}
    table |= {(a, b): f"({types[b]}){{0}}" for a in floats for b in floats}
    table |= {(a, b): f"{a}_to_{b}({{0}})" for a in floats for b in INTEGERS}
    table |= {(a, index): f"({types[index]}){a}_to_i64({{0}})" for a in floats}
    table |= {(bool_, b): f"({types[b]}){{0}}" for b in (*whole, *floats)}
    table |= {(a, bool_): f"{{0}} != {literal(names, a, 0)}" for a in (*whole, *floats)}
    for d in NARROW:
        if d.is_float:
            table[d, f32] = names.to_f32[d]
            table |= {(a, d): names.from_float[a, d] for a in floats if (a, d) in names.from_float}
        else:
            table |= {(d, d.wide): f"({types[d.wide]}){{0}}", (d.wide, d): f"({types[d]}){{0}}"}
    return table


def members(parameters: Iterable[ScalarParameter], types: Mapping[DType, str], index_bits: int) -> list[str]:
    """The launch words as members of 4 bytes each, so that they lie without gaps."""
    lines = []
    for p in parameters:
        if words(p.dtype, index_bits) == 2:
            lines += [f"    {types[u32]} {p.name}_low;", f"    {types[u32]} {p.name}_high;"]
        else:
            kind = {"float": f32, "int": i32}.get(p.dtype.kind, u32)
            lines.append(f"    {types[kind]} {p.name};")
    return lines


def structure(name: str, fields: Iterable[tuple[str, str]]) -> list[str]:
    return [f"struct {name} {{", *(f"    {t} {n};" for n, t in fields), "};"]


def _said(*tables: Mapping[Any, str]) -> frozenset[str]:
    """Types and functions that a kernel may name, which a buffer of that name would hide from it."""
    plain = (re.sub(r"\{\w+\}", " ", text) for table in tables for text in table.values())
    return frozenset(word for text in plain for word in re.findall(r"[A-Za-z_]\w*", text))


def dialect(
    names: Names,
    vectors: Mapping[DType, str],
    extra: dict[tuple[Opcode, DType], str],
    reserved: Iterable[str],
    **spelled: Any,
) -> Dialect:
    """A language of this family: what is alike, `extra` operators, and what it spells of its own.

    `reserved` are words beside C++'s and those of what is spelled here.
    """
    spellings = operators(names, index_signed=spelled.get("index_bits") == 64) | extra
    into = conversions(names)
    tables = (
        spellings,
        into,
        names.types,
        vectors,
        names.bits,
        spelled["bitcasts"],
        spelled["vector"],
        spelled["atomics"],
        spelled["exchange"],
    )
    return Dialect(
        types=names.types,
        literal=partial(literal, names),
        operators=spellings,
        conversions=into,
        reserved=KEYWORDS | frozenset(reserved) | _said(*tables),
        capture=lambda d: (*(b.name for b in d.buffers), "p"),
        let="const {type} {name} = {value};",
        var="{type} {name} = {value};",
        loop="for ({type} {name} = {start}; {name} < {stop}; {name} += {step}) {{",
        vectors=vectors,
        element={d: tuple(f"{{0}}.{c}" for c in LANES) for d in vectors},  # type: ignore[misc]
        element_store={d: tuple(f"{{0}}.{c} = {{1}};" for c in LANES) for d in vectors},  # type: ignore[misc]
        structure=structure,
        construct="{name}{{{values}}}",
        helpers=helpers(names),
        **spelled,
    )
