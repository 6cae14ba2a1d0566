"""Where a launch reaches: the range of every index expression, and its stride along each axis.

At a launch every scalar and extent is a number, so positions are intervals and mostly affine in the coordinates. From
that follow which accesses need a bounds check, which elements of a buffer a part of the grid touches, which comparisons
every lane decides alike, and which axis to vectorise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

from hologram.atlas.opcodes import COMPARISONS, Opcode
from hologram.atlas.program import Instruction, Program
from hologram.atlas.ssa import sources
from hologram.foundation.dtypes import Number
from hologram.foundation.frozen import frozen

O = Opcode
Interval = tuple[int, int]  # both ends included

# What an index holds: on every device, and in 64 bits. Sums and products of more wrap and may come back; order,
# quotients and conversions of more are another number's.
MOST_GROUPS = 2**15  # that surely lie along one dimension
U32, I64 = (0, 2**32 - 1), (-(2**63), 2**63 - 1)


@frozen(slots=True)
class Range:
    """Integers from `low` to `high`, changing by `strides[k]` from one coordinate of axis k to the next.

    `strides` is None where the value is not affine in the coordinates.
    """

    low: int
    high: int
    strides: Mapping[int, int] | None = field(default_factory=dict)

    @property
    def number(self) -> int | None:
        return self.low if self.low == self.high else None

    def within(self, interval: Interval) -> bool:
        return interval[0] <= self.low and self.high <= interval[1]

    def hull(self, other: Range) -> Range:
        """Of both."""
        return Range(min(self.low, other.low), max(self.high, other.high), None)


@frozen
class Lanes:
    """A launch, or a part of one, none of whose axes is empty.

    `axes` are the coordinates' intervals, `extents` the sizes of the whole grid, `index` what an index holds.
    """

    program: Program
    scalars: Mapping[str, Number]
    axes: Sequence[Interval]
    extents: Sequence[int]
    index: Interval = U32

    @staticmethod
    def of(program: Program, scalars: Sequence[Number], grid: Sequence[int], index: Interval = U32) -> Lanes:
        """All lanes of a grid; an empty axis counts as one of a single lane."""
        named = dict(zip((s.name for s in program.scalars), scalars, strict=True))
        extents = [max(n, 1) for n in grid]
        return Lanes(program, named, [(0, n - 1) for n in extents], extents, index)


def positions_from(everything: Sequence[Instruction], values: Iterable[int]) -> tuple[Instruction, ...]:
    """What positions, or bounds of loops, are computed from; of a loop its bounds, not what it carries."""
    return sources(everything, values, reads=lambda i: i.operands)


def ranges(instructions: Iterable[Instruction], lanes: Lanes) -> dict[int, Range]:
    """The ranges of values, as far as they are known; instructions come in order, an inner block's after its owner."""
    known: dict[int, Range] = {}
    facts: dict[int, tuple[Fact, ...]] = {}
    for i in instructions:
        if i.opcode is O.LOOP:
            start, stop, step = (known.get(v) for v in i.operands[:3])
            if start is not None and stop is not None:
                known[i.blocks[0].arguments[0]] = _counted(start, stop, step)
        elif len(i.results) == 1 and not i.blocks:
            bounds = _chosen(i, known, facts, lanes) if i.opcode is O.SELECT else _range(i, known, lanes)
            if bounds is not None:
                known[i.result] = bounds
            if i.type.kind == "bool":
                facts[i.result] = _facts(i, known, facts, lanes)
    return known


def _counted(start: Range, stop: Range, step: Range | None) -> Range:
    """A loop's counter. Of one without turns anything holds: it counts as at its end."""
    last = stop.high - 1
    if start.low > last:
        return Range(max(last, 0), max(last, 0), None)
    if start.number is not None and step is not None and step.number is not None and step.number > 1:
        last -= (last - start.low) % step.number
    return Range(start.low, last, None)


def _range(i: Instruction, known: Mapping[int, Range], lanes: Lanes) -> Range | None:
    opcode, kind = i.opcode, i.type.kind
    if kind == "float":
        return None
    if opcode is O.CONSTANT or opcode is O.SCALAR:
        number = i.attribute if opcode is O.CONSTANT else lanes.scalars[str(i.attribute)]
        return Range(_whole(number), _whole(number))
    if opcode in COMPARISONS:
        return _compared(opcode, *(_exact(v, known, lanes) for v in i.operands))
    if kind == "bool":
        return Range(0, 1, None)
    if opcode in _POSITIONS:
        return _POSITIONS[opcode](lanes, int(i.attribute or 0))
    rule = _RULES.get(opcode)
    operands = [known.get(v) for v in i.operands]
    if rule is None or None in operands:
        return None
    if (
        opcode in _WHOLE
        and kind == "index"
        and not all(r.within(lanes.index) for r in operands if r is not None)
    ):
        return None
    bounds = rule(*operands)
    if bounds is None or kind == "index":
        return bounds
    # Integers wrap: beyond the dtype's range nothing is known.
    low = -(1 << i.type.bits - 1) if kind == "int" else 0
    return bounds if bounds.within((low, low + (1 << i.type.bits) - 1)) else None


# Choices.


def _exact(value: int, known: Mapping[int, Range], lanes: Lanes) -> Range | None:
    """The range of a number that has not wrapped."""
    found = known.get(value)
    whole = found is None or lanes.program.types[value].kind != "index" or found.within(lanes.index)
    return found if whole else None


def _compared(opcode: Opcode, x: Range | None, y: Range | None) -> Range:
    """1 or 0 where all lanes have one answer."""
    if x is None or y is None:
        return Range(0, 1, None)
    if opcode in (O.GT, O.GE):
        x, y = y, x
    if opcode in (O.EQ, O.NE):
        same, other = x.number is not None and x.number == y.number, x.high < y.low or y.high < x.low
        holds, fails = (same, other) if opcode is O.EQ else (other, same)
    else:
        strict = opcode in (O.LT, O.GT)
        holds = x.high < y.low if strict else x.high <= y.low
        fails = x.low >= y.high if strict else x.low > y.high
    return Range(1, 1, None) if holds else Range(0, 0, None) if fails else Range(0, 1, None)


Fact = tuple[int, float, float]  # a value, what it is at least and at most


def _facts(
    i: Instruction, known: Mapping[int, Range], facts: Mapping[int, tuple[Fact, ...]], lanes: Lanes
) -> tuple[Fact, ...]:
    """What holds where a bool does."""
    if i.opcode is O.AND:
        return tuple(fact for v in i.operands for fact in facts.get(v, ()))
    if i.opcode not in _ORDERS:
        return ()
    first, second = i.operands if i.opcode in (O.LT, O.LE) else reversed(i.operands)
    strict = i.opcode in (O.LT, O.GT)
    x, y = known.get(first), known.get(second)
    if lanes.program.types[first].kind == "index" and not all(
        r is not None and r.within(lanes.index) for r in (x, y)
    ):
        return ()
    below = () if y is None else ((first, -math.inf, y.high - strict),)
    return below if x is None else (*below, (second, x.low + strict, math.inf))


def _chosen(
    i: Instruction, known: Mapping[int, Range], facts: Mapping[int, tuple[Fact, ...]], lanes: Lanes
) -> Range | None:
    """A select, its first operand as far as the condition lets it be chosen, whatever else is known of it."""
    condition, first, second = i.operands
    x, y = known.get(first), known.get(second)
    decided = known.get(condition)
    if decided is not None and decided.number is not None:
        return x if decided.number else y
    if y is None or i.type.is_float:
        return None
    given = facts.get(condition, ())
    held = [fact for fact in given if fact[0] == first]
    own = (
        (0 if i.type.kind == "uint" else -math.inf, math.inf)
        if x is None
        else _narrowed(x, given, known, lanes)
    )
    low, high = max([own[0], *(f[1] for f in held)]), min([own[1], *(f[2] for f in held)])
    if low > high:
        return y
    return None if math.inf in (abs(low), abs(high)) else Range(_whole(low), _whole(high)).hull(y)


def _narrowed(
    x: Range, facts: Sequence[Fact], known: Mapping[int, Range], lanes: Lanes
) -> tuple[float, float]:
    """The interval of a number where facts about coordinates hold, from which it follows."""
    low, high = x.low, x.high
    ends: dict[int, tuple[float, float]] = {}
    for value, least, most in facts:
        steps = known[value].strides if value in known else None
        if steps is not None and list(steps.values()) == [1]:
            (axis,) = steps
            begin = known[value].low - lanes.axes[axis][0]  # what is added to the coordinate
            first, last = ends.get(axis, lanes.axes[axis])
            ends[axis] = max(first, least - begin), min(last, most - begin)
    for axis, step in (x.strides or {}).items():
        if axis in ends:
            (first, last), (begin, end) = lanes.axes[axis], ends[axis]
            if begin > end:  # it holds nowhere
                continue
            before, behind = abs(step) * _whole(begin - first), abs(step) * _whole(last - end)
            low, high = (low + before, high - behind) if step > 0 else (low + behind, high - before)
    return low, high


def _whole(number: Any) -> int:
    return int(number) if isinstance(number, float) else number + 0


_ORDERS = frozenset({O.LT, O.LE, O.GT, O.GE})


# Positions.


def _lane(lanes: Lanes, _: int) -> Range:
    low, high, strides, count = 0, 0, {}, 1
    for axis in reversed(range(lanes.program.rank - lanes.program.reduced)):
        strides[axis] = count
        low, high = low + lanes.axes[axis][0] * count, high + lanes.axes[axis][1] * count
        count *= lanes.extents[axis]
    return Range(low, high, strides)


def _group(lanes: Lanes, _: int) -> Range | None:
    lane, threads = _lane(lanes, 0), lanes.program.workgroup
    # More are folded into two dimensions, the last row of which may run over.
    if threads is None or lane.high // threads >= MOST_GROUPS:
        return None
    return Range(lane.low // threads, lane.high // threads, None)


def _thread(lanes: Lanes, _: int) -> Range | None:
    # The last workgroup is whole, whatever lanes are left for it.
    return Range(0, lanes.program.workgroup - 1, None) if lanes.program.workgroup else None


_POSITIONS: dict[Opcode, Callable[[Lanes, int], Range | None]] = {
    O.COORDINATE: lambda lanes, axis: Range(*lanes.axes[axis], {axis: 1}),
    O.EXTENT: lambda lanes, axis: Range(lanes.extents[axis], lanes.extents[axis]),
    O.LANE: _lane,
    O.WORKGROUP: _group,
    O.THREAD: _thread,
}


# Arithmetic.


def _scaled(x: Range, factor: int) -> dict[int, int] | None:
    return None if x.strides is None else {a: s * factor for a, s in x.strides.items()}


def _add(x: Range, y: Range) -> Range:
    strides = None
    if x.strides is not None and y.strides is not None:
        strides = {a: x.strides.get(a, 0) + y.strides.get(a, 0) for a in {*x.strides, *y.strides}}
    return Range(x.low + y.low, x.high + y.high, strides)


def _neg(x: Range) -> Range:
    return Range(-x.high, -x.low, _scaled(x, -1))


def _mul(x: Range, y: Range) -> Range:
    corners = [a * b for a in (x.low, x.high) for b in (y.low, y.high)]
    if x.number is not None:
        x, y = y, x
    return Range(min(corners), max(corners), _scaled(x, y.low) if y.number is not None else None)


def _div(x: Range, y: Range) -> Range | None:
    if x.low < 0 or y.low <= 0:
        return None
    found = quotient(x, y)
    if found is not None:
        return Range(found, found)
    return Range(x.low // y.high, x.high // y.low, x.strides if y.number == 1 else None)


def _rem(x: Range, y: Range) -> Range | None:
    if y.low <= 0:
        return None
    if 0 <= x.low and x.high < y.low:
        return x
    found = quotient(x, y)
    if found is not None:
        return _add(x, Range(-found * y.low, -found * y.low))
    return Range(0 if x.low >= 0 else 1 - y.high, min(max(x.high, 0), y.high - 1), None)


def quotient(x: Range, y: Range) -> int | None:
    """That of all numbers of a range, where it is one."""
    divisor = y.number
    if divisor is None or divisor <= 0 or x.low < 0:
        return None
    return x.low // divisor if x.low // divisor == x.high // divisor else None


def _least(x: Range, y: Range) -> Range:
    if x.high <= y.low or y.high <= x.low:
        return x if x.high <= y.low else y
    return Range(min(x.low, y.low), min(x.high, y.high), None)


def _most(x: Range, y: Range) -> Range:
    if x.high <= y.low or y.high <= x.low:
        return y if x.high <= y.low else x
    return Range(max(x.low, y.low), max(x.high, y.high), None)


def _and(x: Range, y: Range) -> Range | None:
    return Range(0, min(x.high, y.high), None) if x.low >= 0 and y.low >= 0 else None


def _shr(x: Range, y: Range) -> Range | None:
    known = x.low >= 0 and y.number is not None and y.low >= 0
    return Range(x.low >> y.low, x.high >> y.low, None) if known else None


def _shl(x: Range, y: Range) -> Range | None:
    known = x.low >= 0 and y.number is not None and 0 <= y.low < 63
    return _mul(x, Range(1 << y.low, 1 << y.low)) if known else None


_RULES: dict[Opcode, Callable[..., Range | None]] = {
    O.ADD: _add,
    O.SUB: lambda x, y: _add(x, _neg(y)),
    O.MUL: _mul,
    O.MAD: lambda x, y, z: _add(_mul(x, y), z),
    O.NEG: _neg,
    O.MIN: _least,
    O.MAX: _most,
    O.DIV: _div,
    O.REM: _rem,
    O.AND: _and,
    O.SHR: _shr,
    O.SHL: _shl,
    O.CONVERT: lambda x: x,
}
# Those that need the number, not what is left of it.
_WHOLE = frozenset(_RULES) - {O.ADD, O.SUB, O.MUL, O.MAD, O.NEG}
