"""Integers and indices, whose arithmetic is exact and wraps: sums, products and chains in one form each.

A sum is a constant and terms with coefficients, x + 3 y - 2; a product is factors in order; a chain of `and`, `or`,
`xor`, `min` or `max` is a set. Longer ones than LONGEST are left as they are: a prefix sum that is flattened costs the
square of its length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hologram.atlas.arithmetic import COMPUTE
from hologram.atlas.arithmetic import number as array
from hologram.atlas.opcodes import Opcode
from hologram.compiler.canonical.numbering import Numbering
from hologram.compiler.canonical.term import Term
from hologram.foundation.dtypes import DType, Number
from hologram.foundation.frozen import frozen

LONGEST = 8


@frozen(slots=True)
class Sum:
    """constant + the sum of coefficient * term."""

    constant: int
    parts: dict[Term, int]

    def scaled(self, factor: int) -> Sum:
        return Sum(self.constant * factor, {t: c * factor for t, c in self.parts.items()})

    def plus(self, other: Sum) -> Sum:
        parts = dict(self.parts)
        for term, c in other.parts.items():
            parts[term] = parts.get(term, 0) + c
        return Sum(self.constant + other.constant, parts)


def _signed(value: int, d: DType) -> int:
    """Modulo 2^bits, between -2^(bits-1) and 2^(bits-1); an index does not overflow."""
    if d.kind == "index":
        return value
    half = 1 << (d.bits - 1)
    return (value + half) % (2 * half) - half


def _held(value: int, d: DType) -> int:
    """The number of the dtype that is congruent."""
    return _signed(value, d) if d.is_signed else value % (1 << d.bits)


def _as_sum(t: Term) -> Sum:
    if isinstance(t.form, Sum):
        return t.form
    if t.constant:
        return Sum(int(t.attribute or 0), {})
    return Sum(0, {t: 1})


# Sums.


def add(m: Numbering, d: DType, x: Term, y: Term) -> Term:
    return _sum(m, d, x, y, _as_sum(x).plus(_as_sum(y)))


def sub(m: Numbering, d: DType, x: Term, y: Term) -> Term:
    return _sum(m, d, x, y, _as_sum(x).plus(_as_sum(y).scaled(-1)), Opcode.SUB)


def neg(m: Numbering, d: DType, x: Term) -> Term:
    return _written(m, d, _as_sum(x).scaled(-1))


def mad(m: Numbering, d: DType, x: Term, y: Term, z: Term) -> Term:
    return m.make(Opcode.ADD, d, m.make(Opcode.MUL, d, x, y), z)


def _sum(m: Numbering, d: DType, x: Term, y: Term, total: Sum, opcode: Opcode = Opcode.ADD) -> Term:
    if len(total.parts) > LONGEST:
        return m.plain(opcode, d, x, y)
    return _written(m, d, total)


def _written(m: Numbering, d: DType, total: Sum) -> Term:
    """Terms of one coefficient together, the added before the subtracted, the constant last."""
    parts = {t: c for t, c in ((t, _signed(c, d)) for t, c in total.parts.items()) if c}
    constant = _signed(total.constant, d)
    if not parts:
        return m.constant(_held(constant, d), d)
    groups: dict[int, Term] = {}
    for t in sorted(parts, key=lambda t: t.key):
        c = parts[t]
        groups[c] = m.plain(Opcode.ADD, d, groups[c], t) if c in groups else t
    # An index is subtracted rather than multiplied by a negative number; other integers wrap.
    factors = {c: abs(c) if c == -1 or d.kind == "index" else c for c in groups}
    scaled = {
        c: g if factors[c] == 1 else m.plain(Opcode.MUL, d, g, m.constant(_held(factors[c], d), d))
        for c, g in groups.items()
    }
    result = _joined(m, d, scaled, constant)
    if result not in parts and not result.constant:
        result.form = Sum(constant, parts)
    return result


def _joined(m: Numbering, d: DType, scaled: dict[int, Term], constant: int) -> Term:
    """What is added, less what is subtracted, and the constant."""
    negative = {c for c in scaled if c == -1 or (c < 0 and d.kind == "index")}
    added = sorted((g for c, g in scaled.items() if c not in negative), key=lambda t: t.key)
    taken = sorted((scaled[c] for c in negative), key=lambda t: t.key)
    if not added and (constant or d.kind == "index"):
        added, constant = [m.constant(_held(constant, d), d)], 0
    result = added[0] if added else m.plain(Opcode.NEG, d, taken.pop(0))
    for t in added[1:]:
        result = m.plain(Opcode.ADD, d, result, t)
    for t in taken:
        result = m.plain(Opcode.SUB, d, result, t)
    if not constant:
        return result
    opcode = Opcode.ADD if constant > 0 else Opcode.SUB
    return m.plain(opcode, d, result, m.constant(_held(abs(constant), d), d))


# Products.


@frozen(slots=True)
class Product:
    """Factors, those that vary least first."""

    factors: tuple[Term, ...]


def mul(m: Numbering, d: DType, x: Term, y: Term) -> Term:
    a, b = _as_sum(x), _as_sum(y)
    for factor, other in ((a, b), (b, a)):
        if not factor.parts:
            return _written(m, d, other.scaled(factor.constant))
    coefficient, factors = 1, []
    for t, total in ((x, a), (y, b)):
        if len(total.parts) == 1 and not total.constant:
            ((t, c),) = total.parts.items()
            coefficient *= c
        factors += t.form.factors if isinstance(t.form, Product) else (t,)
    if len(factors) > LONGEST:
        return m.plain(Opcode.MUL, d, x, y)
    factors.sort(key=lambda t: t.key)
    product = factors[0]
    for t in factors[1:]:
        product = m.plain(Opcode.MUL, d, product, t)
    product.form = Product(tuple(factors))
    return _written(m, d, Sum(0, {product: coefficient}))


# Chains: and, or, xor, min, max.


@frozen(slots=True)
class Chain:
    """Members of a chain of one opcode, a constant last."""

    opcode: Opcode
    members: tuple[Term, ...]


def chain(opcode: Opcode) -> Callable[[Numbering, DType, Term, Term], Term]:
    """The rule for one of the opcodes that are associative and commutative."""

    def joined(m: Numbering, d: DType, x: Term, y: Term) -> Term:
        both = [_members(opcode, t) for t in (x, y)]
        if sum(map(len, both)) > LONGEST:
            return m.plain(opcode, d, x, y)
        members = _set(opcode, [t for part in both for t in part])
        constants = [t for t in members if t.constant]
        members = sorted((t for t in members if not t.constant), key=lambda t: t.key)
        constant = _together(m, opcode, d, constants)
        neutral, absorbing = _special(opcode, d)
        if constant is not None and constant.attribute == absorbing:
            return constant
        if constant is not None and constant.attribute != neutral:
            members.append(constant)
        if not members:
            return m.constant(0 if neutral is None else neutral, d)
        result = members[0]
        for t in members[1:]:
            result = m.plain(opcode, d, result, t)
        if len(members) > 1:
            result.form = Chain(opcode, tuple(members))
        return result

    return joined


def _members(opcode: Opcode, t: Term) -> tuple[Term, ...]:
    return t.form.members if isinstance(t.form, Chain) and t.form.opcode is opcode else (t,)


def _set(opcode: Opcode, members: list[Term]) -> list[Term]:
    """x op x is x; x xor x is 0, so pairs of those go."""
    counts: dict[Term, int] = {}
    for t in members:
        counts[t] = counts.get(t, 0) + 1
    return [t for t, count in counts.items() if opcode is not Opcode.XOR or count % 2]


def _together(m: Numbering, opcode: Opcode, d: DType, constants: Sequence[Term]) -> Term | None:
    if not constants:
        return None
    numbers = [array(t.attribute, d) for t in constants]  # type: ignore[arg-type]
    folded = numbers[0]
    for n in numbers[1:]:
        folded = COMPUTE[opcode](d, folded, n)
    return m.constant(folded.item(), d)


def _special(opcode: Opcode, d: DType) -> tuple[Number | None, Number | None]:
    """The number that changes nothing, and the one that nothing changes."""
    if d.kind == "index":
        return None, None
    low, high, zero = d.lowest, d.highest, d.python(0)
    ones = -1 if d.is_signed else high
    return {
        Opcode.AND: (ones, zero),
        Opcode.OR: (zero, ones),
        Opcode.XOR: (zero, None),
        Opcode.MIN: (high, low),
        Opcode.MAX: (low, high),
    }[opcode]
