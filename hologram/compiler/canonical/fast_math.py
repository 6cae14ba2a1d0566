"""What `fast_math=True` allows beside the exact laws: last bits may differ, NaN and infinity may vanish."""

from __future__ import annotations

import math

from hologram.atlas.opcodes import Opcode
from hologram.compiler.canonical.algebra import FLOAT, IEEE, folded_constant
from hologram.compiler.canonical.form import laws_of, simplifying
from hologram.compiler.canonical.numbering import Numbering
from hologram.compiler.canonical.rules import Apply, Rule, rule
from hologram.compiler.canonical.term import Term
from hologram.compiler.lowering.lower import widen
from hologram.compiler.passes import Pass, Promise, Stage
from hologram.foundation.dtypes import FLOATS, DType

O = Opcode
NARROW = frozenset(d for d in FLOATS if d.computed is not d)


def add_product(m: Numbering, d: DType, x: Term, y: Term) -> Term | None:
    for product, other in sorted(((x, y), (y, x)), key=lambda pair: pair[0].key):
        if product.opcode is O.MUL:
            return m.make(O.MAD, d, *product.operands, other)
    return None


def sub_product(m: Numbering, d: DType, x: Term, y: Term) -> Term | None:
    if x.opcode is O.MUL:
        return m.make(O.MAD, d, *x.operands, m.make(O.NEG, d, y))
    if y.opcode is O.MUL:
        a, b = y.operands
        return m.make(O.MAD, d, a, m.make(O.NEG, d, b), x)
    return None


def together(opcode: Opcode) -> Apply:
    """Two constants in a chain as one."""

    def joined(m: Numbering, d: DType, x: Term, y: Term) -> Term | None:
        for inner, c in ((x, y), (y, x)):
            if c.constant and inner.opcode is opcode and inner.operands[1].constant:
                folded = folded_constant(m, opcode, d, inner.operands[1], c)
                return m.make(opcode, d, inner.operands[0], folded) if folded is not None else None
        return None

    return joined


def is_zero(t: Term) -> bool:
    return t.constant and t.attribute == 0


def div_constant(m: Numbering, d: DType, x: Term, y: Term) -> Term | None:
    if not y.constant or not y.attribute or not math.isfinite(y.attribute):  # type: ignore[arg-type]
        return None
    inverse = folded_constant(m, O.DIV, d, m.constant(1.0, d), y)
    if inverse is None or not inverse.attribute or not math.isfinite(inverse.attribute):  # type: ignore[arg-type]
        return None
    return m.make(O.MUL, d, x, inverse)


def convert_narrow(m: Numbering, d: DType, x: Term) -> Term | None:
    if x.opcode is not O.CONVERT or x.type not in NARROW:
        return None
    (inner,) = x.operands
    return m.make(O.CONVERT, d, inner) if inner.type is not None and inner.type.is_float else None


FAST: tuple[Rule, ...] = (
    rule("x + 0 = x", O.ADD, lambda m, d, x, y: y if is_zero(x) else x if is_zero(y) else None, FLOAT),
    rule(
        "x * 0 = 0", O.MUL, lambda m, d, x, y: m.constant(0.0, d) if is_zero(x) or is_zero(y) else None, FLOAT
    ),
    rule("x - x = 0", O.SUB, lambda m, d, x, y: m.constant(0.0, d) if x is y else None, FLOAT),
    rule("(x + c) + d = x + (c + d)", O.ADD, together(O.ADD), FLOAT),
    rule("(x * c) * d = x * (c * d)", O.MUL, together(O.MUL), FLOAT),
    rule("x / c = x * (1 / c)", O.DIV, div_constant, FLOAT),
    rule("x * y + z rounds once or twice", O.ADD, add_product, FLOAT),
    rule("x * y - z and z - x * y round once or twice", O.SUB, sub_product, FLOAT),
    rule("a 16-bit intermediate is not rounded", O.CONVERT, convert_narrow, FLOAT),
)

WIDE_INTERMEDIATES = Pass(
    "16-bit arithmetic in f32",
    "f16 and bf16 are computed in f32 and rounded; the conversions in between go by the rules",
    Stage.FORM,
    lambda program, goal: widen(program, NARROW),
    wanted=lambda goal: goal.fast_math,
)
SIMPLIFY_FAST = Pass(
    "simplify fast and order",
    "last bits of floats may differ, NaN and infinities vanish",
    Stage.FORM,
    simplifying((*FAST, *IEEE)),
    wanted=lambda goal: goal.fast_math,
    promise=Promise(frozenset({O.ADD, O.SUB, O.MUL, O.DIV, O.MAD, O.CONVERT, O.POW}), ulp=2.0, finite=True),
    laws=laws_of((*FAST, *IEEE)),
)
