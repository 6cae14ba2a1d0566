"""The laws that canonical form applies: each changes no bit of any result, NaN, infinities and signed zeros included.

What looks like a law and is not one stays: x + 0.0 is 0.0 for -0.0, x * 0.0 is NaN for infinity, x - x is NaN for NaN,
and floats do not associate.
"""

from __future__ import annotations

import math

import numpy as np

from hologram.atlas.arithmetic import COMPUTE
from hologram.atlas.arithmetic import number as array
from hologram.atlas.opcodes import BITWISE, COMPARISONS, ROUNDINGS, Opcode
from hologram.compiler.canonical import integers, powers
from hologram.compiler.canonical.numbering import Numbering
from hologram.compiler.canonical.rules import Apply, Rule, rule
from hologram.compiler.canonical.term import Term
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType

O = Opcode
FLOAT = frozenset({"float"})
WHOLE = frozenset({"int", "uint", "index"})
DISCRETE = WHOLE | {"bool"}

# Every backend computes these exactly, or rounded once.
_EXACT_FLOATS = COMPARISONS | ROUNDINGS | {O.ADD, O.SUB, O.MUL, O.DIV, O.MIN, O.MAX, O.ABS, O.NEG}
_EXACT_WHOLE = COMPARISONS | BITWISE | {
    O.ADD, O.SUB, O.MUL, O.DIV, O.REM, O.MULHI, O.MAD, O.MIN, O.MAX, O.ABS, O.NEG, O.POW
}  # fmt: skip


# Constants.


def fold(opcode: Opcode) -> Apply:
    """An instruction on constants is what the evaluator makes of it."""

    def folded(m: Numbering, d: DType, *operands: Term) -> Term | None:
        if not all(t.constant for t in operands):
            return None
        if opcode in (O.MIN, O.MAX) and d.is_float and all(t.attribute == 0 for t in operands):
            return None  # either zero may come out
        return folded_constant(m, opcode, d, *operands)

    return folded


def folded_constant(m: Numbering, opcode: Opcode, d: DType, *operands: Term) -> Term | None:
    """What the evaluator computes from constants."""
    numbers = [array(t.attribute, t.type) for t in operands if t.type is not None]  # type: ignore[arg-type]
    with np.errstate(all="ignore"):
        value = COMPUTE[opcode](d, *numbers)
    return m.constant(float(value) if d.is_float else value.item(), d)


def fold_bitcast(m: Numbering, d: DType, x: Term) -> Term | None:
    """Unless a NaN is on either side, whose bits a constant does not keep."""
    if not x.constant or x.attribute != x.attribute:
        return None
    folded = folded_constant(m, O.BITCAST, d, x)
    return folded if folded is not None and folded.attribute == folded.attribute else None


def is_number(t: Term, value: float) -> bool:
    """Whether it is that constant, the sign of a zero included."""
    return t.constant and t.attribute == value and math.copysign(1, t.attribute) == math.copysign(1, value)  # type: ignore[arg-type]


def negated(m: Numbering, c: Term) -> Term:
    """A float constant with its sign changed."""
    assert isinstance(c.attribute, float)
    assert c.type is not None
    return m.constant(-c.attribute, c.type)


def neutral(value: float) -> Apply:
    """A number leaves the other operand as it is."""
    return lambda m, d, x, y: y if is_number(x, value) else x if is_number(y, value) else None


# Floats.


def add_negated(m: Numbering, d: DType, x: Term, y: Term) -> Term | None:
    if y.opcode is O.NEG:
        return m.make(O.SUB, d, x, y.operands[0])
    return m.make(O.SUB, d, y, x.operands[0]) if x.opcode is O.NEG else None


def mul_minus_one(m: Numbering, d: DType, x: Term, y: Term) -> Term | None:
    if is_number(x, -1.0):
        return m.make(O.NEG, d, y)
    return m.make(O.NEG, d, x) if is_number(y, -1.0) else None


def mul_negated(m: Numbering, d: DType, x: Term, y: Term) -> Term | None:
    if x.opcode is O.NEG and y.opcode is O.NEG:
        return m.make(O.MUL, d, x.operands[0], y.operands[0])
    for one, other in ((x, y), (y, x)):
        if one.opcode is O.NEG and other.constant:
            return m.make(O.MUL, d, one.operands[0], negated(m, other))
    return None


def div_power_of_two(m: Numbering, d: DType, x: Term, y: Term) -> Term | None:
    if not y.constant or not isinstance(y.attribute, float) or not math.isfinite(y.attribute):
        return None
    fraction, exponent = math.frexp(y.attribute)
    if abs(fraction) != 0.5 or not d.least_exponent <= 1 - exponent <= d.bias:
        return None
    return m.make(O.MUL, d, x, m.constant(math.ldexp(math.copysign(1.0, fraction), 1 - exponent), d))


def div_zero(m: Numbering, d: DType, x: Term, y: Term) -> Term | None:
    """Mesa 22's llvmpipe stores nothing where the quotient by a constant 0 should go."""
    for zero in (0.0, -0.0):
        if is_number(y, zero):
            return m.make(O.MUL, d, x, m.constant(math.copysign(math.inf, zero), d))
    return None


def abs_sign(m: Numbering, d: DType, x: Term) -> Term | None:
    if x.opcode is O.ABS:
        return x
    return m.make(O.ABS, d, x.operands[0]) if x.opcode is O.NEG else None


# Comparisons and choice.


def compare_same(opcode: Opcode) -> Apply:
    return lambda m, d, x, y: m.constant(opcode in (O.EQ, O.LE), d) if x is y else None


def compare_widened(opcode: Opcode) -> Apply:
    """Compares with a constant before widening: cheaper, and Mesa 22 gets i32 as i64 wrong afterwards (llvmpipe)."""

    def widened(m: Numbering, d: DType, x: Term, y: Term) -> Term | None:
        for place, (wide, other) in enumerate(((x, y), (y, x))):
            narrow = wide.operands[0].type if wide.opcode is O.CONVERT else None
            if wide.type is None or narrow is None or not other.constant or not _holds_all(wide.type, narrow):
                continue
            number = int(other.attribute or 0)
            if narrow.lowest <= number <= narrow.highest:
                sides = wide.operands[0], m.constant(number, narrow)
            else:  # beyond all of them, as it is beyond 0
                sides = m.constant(0, wide.type), other
            return m.make(opcode, d, *(sides if place == 0 else reversed(sides)))
        return None

    return widened


def _holds_all(wide: DType, narrow: DType) -> bool:
    """Whether an integer dtype holds all numbers of another."""
    both = wide.is_integer and narrow.is_integer
    return both and wide.lowest <= narrow.lowest and narrow.highest < wide.highest


_OPPOSITE = {O.EQ: O.NE, O.NE: O.EQ}
_ORDER_OPPOSITE = {O.LT: O.LE, O.LE: O.LT}  # with exchanged sides


def not_compared(m: Numbering, d: DType, x: Term) -> Term | None:
    if x.opcode in _OPPOSITE:
        return m.make(_OPPOSITE[x.opcode], d, *x.operands)
    if x.opcode in _ORDER_OPPOSITE and x.operands[0].type is not None and not x.operands[0].type.is_float:
        return m.make(_ORDER_OPPOSITE[x.opcode], d, x.operands[1], x.operands[0])
    return None


def select_bool(m: Numbering, d: DType, c: Term, x: Term, y: Term) -> Term | None:
    if not (x.constant and y.constant):
        return None
    return c if x.attribute else m.make(O.NOT, d, c)


# Integers and bools.


# Conversions.


def _holds(w: DType, s: DType) -> bool:
    """Whether every value of `s` is one of `w`, both integers (or bool, or index) or both floats."""
    if s is w:
        return True
    if s.is_float or w.is_float:
        return s.is_float and w.is_float and (w.bits > s.bits)
    if s.kind == "index" or "bool" in (s.kind, w.kind):
        return s.kind == "bool" and w.kind != "index"
    w = dtypes.i32 if w.kind == "index" else w  # of 32 bits at least
    return w.lowest <= s.lowest and s.highest <= w.highest


def _exact_float(w: DType, s: DType) -> bool:
    """Whether float `w` holds every integer of `s`."""
    return w.is_float and s.kind in DISCRETE and s.digits <= w.digits


def convert_twice(m: Numbering, d: DType, x: Term) -> Term | None:
    if x.opcode is not O.CONVERT or x.type is None:
        return None
    (inner,) = x.operands
    s, w = inner.type, x.type
    assert s is not None
    if s is d and (_holds(w, s) or (_exact_float(w, s) and w.bits > s.bits)):
        return inner
    legal = d.kind in ("int", "uint") if s.kind == "index" else (d.kind != "index" or s.is_integer)
    if not legal:
        return None
    modular = s.kind in WHOLE and w.is_integer and d.is_integer and d.bits <= w.bits
    return m.make(O.CONVERT, d, inner) if modular or _holds(w, s) else None


def bitcast_twice(m: Numbering, d: DType, x: Term) -> Term | None:
    if x.type is d:
        return x
    return m.make(O.BITCAST, d, x.operands[0]) if x.opcode is O.BITCAST else None


_ALL = DISCRETE | FLOAT

IEEE: tuple[Rule, ...] = (
    *(rule("constants fold as the evaluator computes them", o, fold(o), FLOAT) for o in _EXACT_FLOATS),
    *(rule("constants fold as the evaluator computes them", o, fold(o), DISCRETE) for o in _EXACT_WHOLE),
    rule("constants fold as the evaluator computes them", O.CONVERT, fold(O.CONVERT), _ALL),
    rule("constants fold as the evaluator computes them", O.BITCAST, fold_bitcast, _ALL),
    rule("x + -0.0 = x", O.ADD, neutral(-0.0), FLOAT),
    rule("x + -y = x - y", O.ADD, add_negated, FLOAT),
    rule("-0.0 - x = -x", O.SUB, lambda m, d, x, y: m.make(O.NEG, d, y) if is_number(x, -0.0) else None, FLOAT),
    rule("x - c = x + -c", O.SUB,
         lambda m, d, x, y: m.make(O.ADD, d, x, negated(m, y)) if y.constant else None, FLOAT),
    rule("x - -y = x + y", O.SUB,
         lambda m, d, x, y: m.make(O.ADD, d, x, y.operands[0]) if y.opcode is O.NEG else None, FLOAT),
    rule("x * 1 = x", O.MUL, neutral(1.0), FLOAT),
    rule("x * -1 = -x", O.MUL, mul_minus_one, FLOAT),
    rule("-x * -y = x * y; -x * c = x * -c", O.MUL, mul_negated, FLOAT),
    rule("x / 1 = x", O.DIV, lambda m, d, x, y: x if is_number(y, 1.0) else None, FLOAT),
    rule("x / 2^k = x * 2^-k, exactly, where 2^-k is a normal number", O.DIV, div_power_of_two, FLOAT),
    rule("x / 0 = x * infinity, of the 0's sign", O.DIV, div_zero, FLOAT),
    rule("--x = x", O.NEG, lambda m, d, x: x.operands[0] if x.opcode is O.NEG else None, FLOAT),
    rule("| |x| | = |x|; |-x| = |x|", O.ABS, abs_sign, FLOAT),
    rule("a rounded number is whole", ROUNDINGS, lambda m, d, x: x if x.opcode in ROUNDINGS else None, FLOAT),
    rule("x > y = y < x", O.GT, lambda m, d, x, y: m.make(O.LT, d, y, x), _ALL),
    rule("x >= y = y <= x", O.GE, lambda m, d, x, y: m.make(O.LE, d, y, x), _ALL),
    rule("x < x is false, also for NaN", O.LT, compare_same(O.LT), _ALL),
    *(rule("an integer is itself", o, compare_same(o), DISCRETE) for o in (O.EQ, O.NE, O.LE)),
    *(rule("widening integers keeps their order", o, compare_widened(o), frozenset({"int", "uint"}))
      for o in (O.EQ, O.NE, O.LT, O.LE)),
    rule("not not x = x", O.NOT, lambda m, d, x: x.operands[0] if x.opcode is O.NOT else None, DISCRETE),
    rule("not x = y is x /= y; of integers, not x < y is y <= x", O.NOT, not_compared, frozenset({"bool"})),
    rule("c ? x : x = x", O.SELECT, lambda m, d, c, x, y: x if x is y else None, _ALL),
    rule("true ? x : y = x", O.SELECT,
         lambda m, d, c, x, y: (x if c.attribute else y) if c.constant else None, _ALL),
    rule("not c ? x : y = c ? y : x", O.SELECT,
         lambda m, d, c, x, y: m.make(O.SELECT, d, c.operands[0], y, x) if c.opcode is O.NOT else None, _ALL),
    rule("c ? true : false = c", O.SELECT, select_bool, frozenset({"bool"})),
    rule("sums of integers have one form", O.ADD, integers.add, WHOLE),
    rule("sums of integers have one form", O.SUB, integers.sub, WHOLE),
    rule("sums of integers have one form", O.NEG, integers.neg, WHOLE),
    rule("products of integers have one form", O.MUL, integers.mul, WHOLE),
    rule("x * y + z of integers is exact", O.MAD, integers.mad, WHOLE),
    *(rule("a chain of integers is a set", o, integers.chain(o), DISCRETE) for o in (O.AND, O.OR, O.XOR)),
    *(rule("a chain of integers is a set", o, integers.chain(o), WHOLE) for o in (O.MIN, O.MAX)),
    rule("powers of integers are products", O.POW, powers.whole, WHOLE),
    rule("some powers of floats are products, roots or quotients", O.POW, powers.of_float, FLOAT),
    rule("0 div x = 0; x div 1 = x", O.DIV,
         lambda m, d, x, y: x if is_number(x, 0) or is_number(y, 1) else None, WHOLE),
    rule("0 rem x = 0; x rem 1 = 0", O.REM,
         lambda m, d, x, y: m.constant(0, d) if is_number(x, 0) or is_number(y, 1) else None, WHOLE),
    rule("x << 0 = x; 0 << x = 0", frozenset({O.SHL, O.SHR}),
         lambda m, d, x, y: x if is_number(y, 0) or is_number(x, 0) else None, WHOLE),
    rule("x as what it is", O.CONVERT, lambda m, d, x: x if x.type is d else None, _ALL),
    rule("a conversion that loses nothing can be left out", O.CONVERT, convert_twice, _ALL),
    rule("a bitcast of a bitcast is one", O.BITCAST, bitcast_twice, _ALL),
)  # fmt: skip
