"""Powers with a constant exponent as products, roots and quotients, which cost a small part of a general power.

Those of integers wrap, so they are exact. Of floats, exponents -1, 0, 1/2, 1 and 2 are rounded once, as the definition
is; 3, 4, 3/2 and -1/2 may differ from a backend's own power, and stay within the 2 ULP that the operation promises.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from hologram.atlas.opcodes import Opcode
from hologram.compiler.canonical.numbering import Numbering
from hologram.compiler.canonical.term import Term
from hologram.foundation.dtypes import DType, bool_

O = Opcode
LARGEST = 64  # exponent of integers that is written as products


def whole(m: Numbering, d: DType, x: Term, y: Term) -> Term | None:
    """x^n of integers, by squaring."""
    if not y.constant or not 0 <= int(y.attribute or 0) <= LARGEST:
        return None
    rest, square, result = int(y.attribute or 0), x, m.constant(1, d)
    while rest:
        if rest & 1:
            result = m.make(O.MUL, d, result, square)
        rest >>= 1
        if rest:
            square = m.make(O.MUL, d, square, square)
    return result


def _square(m: Numbering, d: DType, x: Term) -> Term:
    return m.make(O.MUL, d, x, x)


def _fourth(m: Numbering, d: DType, x: Term) -> Term:
    return _square(m, d, _square(m, d, x))


def _rooted(
    limit: float, root: Callable[[Numbering, DType, Term], Term]
) -> Callable[[Numbering, DType, Term], Term]:
    """A function of a root, where powers of -0.0 are those of 0.0, and those of -infinity are `limit`."""

    def power(m: Numbering, d: DType, x: Term) -> Term:
        least = m.make(O.EQ, bool_, x, m.constant(-math.inf, d))
        zero = m.constant(0.0, d)  # not x + 0.0, of which Mesa makes x
        value = root(m, d, m.make(O.SELECT, d, m.make(O.EQ, bool_, x, zero), zero, x))
        return m.make(O.SELECT, d, least, m.constant(limit, d), value)

    return power


FLOATS: dict[float, Callable[[Numbering, DType, Term], Term]] = {
    -1.0: lambda m, d, x: m.make(O.DIV, d, m.constant(1.0, d), x),
    -0.5: _rooted(0.0, lambda m, d, x: m.make(O.RSQRT, d, x)),
    0.0: lambda m, d, x: m.constant(1.0, d),
    0.5: _rooted(math.inf, lambda m, d, x: m.make(O.SQRT, d, x)),
    1.0: lambda m, d, x: x,
    1.5: _rooted(math.inf, lambda m, d, x: m.make(O.MUL, d, x, m.make(O.SQRT, d, x))),
    2.0: _square,
    3.0: lambda m, d, x: m.make(O.MUL, d, _square(m, d, x), x),
    4.0: _fourth,
}


def of_float(m: Numbering, d: DType, x: Term, y: Term) -> Term | None:
    """x^y of floats, for the exponents of FLOATS."""
    power = FLOATS.get(float(y.attribute or 0)) if y.constant else None
    return None if power is None else power(m, d, x)
