"""What each opcode of Atlas takes and gives, in words.

`T` is one dtype out of a set, the same wherever it stands; `S` is another; `index` and `bool` are themselves; `M` is
the dtype of what the attribute names.
"""

from __future__ import annotations

from collections.abc import Collection

from hologram.atlas.opcodes import (
    ATOMICS,
    COMPARISONS,
    COMPLEX_FUNCTIONS,
    REDUCTIONS,
    ROUNDINGS,
    TRANSCENDENTALS,
    Opcode,
)
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.foundation.frozen import frozen

INDEX = frozenset({dtypes.index})
ANY = frozenset(dtypes.ALL) | INDEX
ORDERED = frozenset(dtypes.COMPUTED) | INDEX
BOOL = frozenset({dtypes.bool_})
FLOATS = frozenset(dtypes.FLOATS)
COMPLEX = frozenset(dtypes.COMPLEX)
PARTS = frozenset(d.part for d in dtypes.COMPLEX)
INTEGERS = frozenset(dtypes.INTEGERS)
NUMBERS = FLOATS | INTEGERS
BITS = NUMBERS | frozenset(dtypes.STORED)
ATOMIC = frozenset({dtypes.i32, dtypes.u32, dtypes.i64, dtypes.u64})
NOT_INDEXABLE = FLOATS | BOOL | COMPLEX | frozenset(dtypes.STORED)


@frozen
class Rule:
    """What an opcode takes and gives; `dtypes` is what T may be."""

    operands: str
    results: str
    dtypes: Collection[DType] = ANY


O = Opcode
RULES: dict[Opcode, Rule] = {
    O.COORDINATE: Rule("", "index"),
    O.EXTENT: Rule("", "index"),
    O.LANE: Rule("", "index"),
    O.WORKGROUP: Rule("", "index"),
    O.THREAD: Rule("", "index"),
    O.CONSTANT: Rule("", "T", ANY),
    O.SCALAR: Rule("", "M"),
    O.LOAD: Rule("index", "M"),
    O.STORE: Rule("index M", ""),
    O.SHARED_LOAD: Rule("index", "M"),
    O.SHARED_AGREED: Rule("index", "M"),
    O.SHARED_STORE: Rule("index M", ""),
    O.LOCAL_LOAD: Rule("index", "M"),
    O.LOCAL_STORE: Rule("index M", ""),
    **dict.fromkeys(ATOMICS, Rule("index M", "M")),
    O.ATOMIC_COMPARE_EXCHANGE: Rule("index M M", "M"),
    O.CONVERT: Rule("S", "T", ANY),
    O.BITCAST: Rule("S", "T", BITS),
    O.REAL: Rule("S", "T", PARTS),
    O.IMAG: Rule("S", "T", PARTS),
    O.PAIR: Rule("S S", "T", COMPLEX),
    **dict.fromkeys((O.ADD, O.SUB, O.MUL, O.DIV), Rule("T T", "T", NUMBERS | COMPLEX | INDEX)),
    **dict.fromkeys((O.REM, O.MIN, O.MAX), Rule("T T", "T", NUMBERS | INDEX)),
    O.MULHI: Rule("T T", "T", frozenset({dtypes.i32, dtypes.u32})),
    O.MAD: Rule("T T T", "T", NUMBERS | COMPLEX | INDEX),
    O.FMA: Rule("T T T", "T", FLOATS),
    O.ABS: Rule("T", "T", NUMBERS),
    O.NEG: Rule("T", "T", NUMBERS | COMPLEX),
    O.POW: Rule("T T", "T", NUMBERS | COMPLEX),
    **dict.fromkeys((O.AND, O.OR, O.XOR), Rule("T T", "T", INTEGERS | BOOL)),
    O.NOT: Rule("T", "T", INTEGERS | BOOL),
    O.SHL: Rule("T T", "T", INTEGERS),
    O.SHR: Rule("T T", "T", INTEGERS),
    **dict.fromkeys(COMPARISONS, Rule("T T", "bool", ORDERED)),
    **dict.fromkeys((O.EQ, O.NE), Rule("T T", "bool", ORDERED | COMPLEX)),
    O.SELECT: Rule("bool T T", "T", ANY),
    O.BARRIER: Rule("", ""),
    O.SHUFFLE: Rule("T u32", "T", NUMBERS),
    **dict.fromkeys(REDUCTIONS, Rule("T", "T", NUMBERS)),
    O.REDUCE_ADD: Rule("T", "T", NUMBERS | COMPLEX),
    **dict.fromkeys(TRANSCENDENTALS, Rule("T", "T", FLOATS)),
    **dict.fromkeys(COMPLEX_FUNCTIONS, Rule("T", "T", FLOATS | COMPLEX)),
    **dict.fromkeys(ROUNDINGS, Rule("T", "T", FLOATS)),
}
del O
