"""Which sums and products a driver would rearrange, or contract.

Those sums whose two sides share a value or both hold a constant; products of which the other order overflows, or whose
factor divided before; where it contracts, products that are added.

Mesa's compiler takes `(a + b) - a` for b and `(x - k * c) - k * d` for `x - k * (c + d)` unless the shader decorates
its arithmetic, and naga cannot. Compensated sums and range reductions live on such differences, so a dialect may hide
the inner result from the driver (Dialect.hidden). NVIDIA's does the same with products: `(x * 0.5) * x` becomes half
of a square that may overflow, `(1 / x) * x` one.
"""

from __future__ import annotations

from collections.abc import Set

from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Instruction, Program
from hologram.atlas.ssa import definitions

_SUMS = frozenset({Opcode.ADD, Opcode.SUB, Opcode.FMA, Opcode.MAD})
_ADDED = frozenset({Opcode.ADD, Opcode.SUB, Opcode.REDUCE_ADD})
_LINEAR = _SUMS | {Opcode.MUL, Opcode.NEG}
# Factors beyond it or below its inverse may overflow or vanish if they are multiplied first.
_EXTREME = 2.0**20


def fragile(program: Program, shortfalls: Set[str]) -> frozenset[int]:
    """The float values that must reach their use as they are, by what the driver does not keep."""
    ordered, apart = "order" not in shortfalls, "contraction" not in shortfalls
    if ordered and apart:
        return frozenset()
    defined = definitions(program.body.walk())
    values: set[int] = set()
    for i in program.body.walk():
        if not i.results or not i.type.is_float:
            continue
        if not apart and i.opcode in _ADDED:
            values |= {v for v in (_through(o, defined) for o in i.operands) if _product(v, defined)}
        if ordered:
            continue
        if i.opcode is Opcode.DIV and _number(i.operands[1], defined) == 0:
            values.add(i.operands[1])  # that it is 0 is not for the driver to know
        if i.opcode is Opcode.MUL:
            values |= _scaled(i, defined) | _met_again(i, defined)
        if i.opcode not in _SUMS:
            continue
        *first, last = i.operands  # of an fma, `first` are the factors of its product
        if _atoms(first, defined) & _atoms([last], defined):
            terms = i.operands if len(i.operands) == 2 else [last]
            values |= {v for v in (_through(t, defined) for t in terms) if _linear(v, defined)}
    return frozenset(values)


def computed(program: Program) -> frozenset[int]:
    """All float values that are computed, and all constants."""
    return frozenset(
        i.result
        for i in program.body.walk()
        if i.results and i.type.is_float and i.opcode in _LINEAR | {Opcode.DIV, Opcode.SQRT, Opcode.CONSTANT}
    )


def _number(value: int, defined: dict[int, Instruction]) -> object:
    """What a constant is."""
    i = defined.get(value)
    return i.attribute if i is not None and i.opcode is Opcode.CONSTANT else None


def _product(value: int, defined: dict[int, Instruction]) -> bool:
    return value in defined and defined[value].opcode is Opcode.MUL


def _linear(value: int, defined: dict[int, Instruction]) -> bool:
    return value in defined and defined[value].opcode in _LINEAR


def _through(value: int, defined: dict[int, Instruction]) -> int:
    """The value without signs."""
    while value in defined and defined[value].opcode is Opcode.NEG:
        (value,) = defined[value].operands
    return value


def _atoms(
    values: tuple[int, ...] | list[int], defined: dict[int, Instruction], depth: int = 2
) -> set[int | str]:
    """What a side is made of, two levels deep; constants count as one."""
    atoms: set[int | str] = set()
    for value in (_through(v, defined) for v in values):
        i = defined.get(value)
        if i is not None and i.opcode is Opcode.CONSTANT:
            atoms.add("constant")
            continue
        atoms.add(value)
        if i is not None and i.opcode in _LINEAR and depth:
            atoms |= _atoms(i.operands, defined, depth - 1)
    return atoms


def _met_again(i: Instruction, defined: dict[int, Instruction]) -> set[int]:
    """A factor that shares one with the other factor, beside others, or was divided by one of that."""
    found = set()
    for value, other in (i.operands, i.operands[::-1]):
        inner = defined.get(_through(value, defined))
        if inner is None or inner.opcode not in (Opcode.MUL, Opcode.DIV):
            continue
        (over, under), (again, _) = _factors(value, defined), _factors(other, defined)
        if under & again or (over & again and len(over | again) > 1):
            found.add(inner.result)
    return found


def _factors(value: int, defined: dict[int, Instruction], depth: int = 2) -> tuple[set[int], set[int]]:
    """What a product is made of, two levels deep: factors, and divisors."""
    value = _through(value, defined)
    i = defined.get(value)
    if i is None or not depth or i.opcode not in (Opcode.MUL, Opcode.DIV):
        return {value}, set()
    (over, under), (more, less) = (_factors(o, defined, depth - 1) for o in i.operands)
    return (over | more, under | less) if i.opcode is Opcode.MUL else (over | less, under | more)


def _scaled(i: Instruction, defined: dict[int, Instruction]) -> set[int]:
    """A factor that is itself a product with an extreme constant."""
    factors = set()
    for value in i.operands:
        inner = defined.get(value)
        if inner is None or inner.opcode is not Opcode.MUL:
            continue
        for o in inner.operands:
            c = _number(o, defined)
            if isinstance(c, float) and c != 0 and not 1 / _EXTREME <= abs(c) <= _EXTREME:
                factors.add(value)
    return factors
