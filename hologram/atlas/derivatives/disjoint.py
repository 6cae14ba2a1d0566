"""Whether two lanes may store into one element: then nobody knows which one is last, and there is no derivative.

Positions are read as sums: a whole number times each coordinate and counter, which have ranges, and numbers that all
lanes have alike. Two stores meet where such sums are equal, which is decided by trying the largest factors first.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from hologram.atlas.opcodes import LOOPS, NOWHERE, PURE, WRITES, Opcode
from hologram.atlas.program import Block, Instruction, Program
from hologram.atlas.ssa import named
from hologram.foundation import dtypes
from hologram.foundation.frozen import frozen

O = Opcode
MOST_TRIED = 20_000  # partial sums, of two stores; beyond, nothing is known
ANY = 1 << 40  # a size that is not known
Variable = tuple[Any, ...]  # a coordinate, a counter, or a quotient or remainder of one
Ranges = Mapping[Variable, int]  # each goes from 0 to below this


@frozen(eq=False)
class Sum:
    """A number: `known`, so many times each variable, and so many times each value that all lanes have alike."""

    known: int = 0
    terms: Mapping[Variable, int] = field(default_factory=dict)
    alike: Mapping[int, int] = field(default_factory=dict)

    def plus(self, other: Sum, times: int = 1) -> Sum:
        return Sum(
            self.known + times * other.known,
            _added(self.terms, other.terms, times),
            _added(self.alike, other.alike, times),
        )


@frozen(eq=False)
class Held:
    """What holds where a condition does: variables that are one number, and sums that are below one."""

    fixed: Mapping[Variable, int] = field(default_factory=dict)
    below: tuple[tuple[Sum, int], ...] = ()

    def and_(self, other: Held) -> Held:
        return Held({**self.fixed, **other.fixed}, (*self.below, *other.below))


@frozen(eq=False)
class Store:
    """A store, where it may go (None: anywhere), and the variables that conditions fix there."""

    instruction: Instruction
    position: Sum | None
    fixed: Mapping[Variable, int]


def meeting(
    program: Program, grid: Sequence[Any], numbers: Mapping[str, Any], same: Mapping[str, str]
) -> Instruction | None:
    """A store of floats into an element that another lane may store into as well; None where there is none.

    Args:
        program: what runs; one that says it is `disjoint` has none.
        grid: its sizes.
        numbers: its scalars, those that are known.
        same: buffers that are another one by another name, with that name.
    """
    if program.disjoint:
        return None
    reading = Reading(program, grid, numbers)
    reading.block(program.body, Held())
    by_buffer: dict[str, list[Store]] = {}
    for store in reading.stores:
        name = str(store.instruction.attribute)
        by_buffer.setdefault(same.get(name, name), []).append(store)
    for stores in by_buffer.values():
        for k, store in enumerate(stores):
            if any(_meet(reading, store, other) for other in stores[: k + 1]):
                return store.instruction
    return None


class Reading:
    """Goes through a program and keeps what its integers are: `sums`, by value."""

    def __init__(self, program: Program, grid: Sequence[Any], numbers: Mapping[str, Any]) -> None:
        self.program = program
        self.grid = grid
        self.numbers = numbers
        self.sums: dict[int, Sum | None] = {}
        self.ranges: dict[Variable, int] = {}
        self.stores: list[Store] = []
        self.changed = named(program, WRITES)
        self.conditions: dict[int, Held] = {}
        self.parts: dict[Variable, tuple[Variable, ...]] = {}  # of a variable that stands for a sum of others
        self.cut: dict[Variable, set[int]] = {}  # by what a variable was divided
        lanes = [n if type(n) is int else ANY for n in grid]
        if program.workgroup is None:
            self.own = [self.variable(("coordinate", k), n) for k, n in enumerate(lanes)]
        else:
            groups = -(-math.prod(lanes) // program.workgroup)
            self.own = [self.variable(("workgroup",), groups), self.variable(("thread",), program.workgroup)]

    def variable(self, name: Variable, count: int) -> Variable:
        self.ranges[name] = count
        return name

    def block(self, block: Block, held: Held) -> None:
        for i in block.instructions:
            if i.opcode is O.IF:
                self.block(i.blocks[0], held.and_(self.conditions.get(i.operands[0], Held())))
                self.block(i.blocks[1], held)
                self.sums.update(dict.fromkeys(i.results))
            elif i.opcode in LOOPS:
                self._loop(i, held)
            elif i.opcode is O.STORE and self.program.types[i.operands[1]].is_inexact:
                position = self.sums.get(i.operands[0])
                for total, limit in held.below:
                    position = None if position is None else self._joined(position, total, limit)
                self.stores.append(Store(i, position, held.fixed))
            elif i.results:
                self.sums[i.result] = self._value(i)

    def _loop(self, i: Instruction, held: Held) -> None:
        (body,) = i.blocks
        self.sums.update(dict.fromkeys((*i.results, *body.arguments)))
        if i.opcode is O.LOOP:
            start, stop, step = (self.sums.get(v) for v in i.operands[:3])
            if start is not None and stop is not None and step is not None:
                length = stop.plus(start, -1)
                if not (length.terms or length.alike or step.terms or step.alike) and step.known > 0:
                    count = len(range(0, length.known, step.known))
                    turn = self.variable(("turn", body.arguments[0]), max(count, 1))
                    self.sums[body.arguments[0]] = start.plus(Sum(terms={turn: step.known}))
        self.block(body, held)

    def _value(self, i: Instruction) -> Sum | None:
        given = [self.sums.get(v) for v in i.operands]
        if i.opcode is O.SELECT and given[2] is not None and given[2].known == NOWHERE:
            return given[1]
        operation = _RULES.get(i.opcode)
        if i.opcode in (O.EQ, O.LT, O.AND):
            self._condition(i, given)
        found = None if operation is None or None in given else operation(self, i, *given)
        if found is not None and found.terms and i.type is not dtypes.index:  # integers wrap
            low, high = self.bounds(found)
            found = found if i.type.is_integer and i.type.lowest <= low <= high <= i.type.highest else None
        if found is None and self._passes_on(i) and all(x is not None and not x.terms for x in given):
            return Sum(alike={i.result: 1})
        return found

    def _passes_on(self, i: Instruction) -> bool:
        """Whether all lanes have a result alike if they have the operands so: what none of them changes."""
        if i.opcode is O.LOAD:
            return i.attribute not in self.changed
        return i.opcode in PURE and bool(i.operands)

    def _condition(self, i: Instruction, given: Sequence[Sum | None]) -> None:
        if i.opcode is O.AND:
            one, other = (self.conditions.get(v, Held()) for v in i.operands)
            self.conditions[i.result] = one.and_(other)
            return
        a, b = given
        gap = None if a is None or b is None else a.plus(b, -1)
        if gap is None or gap.alike or not gap.terms:
            return
        if i.opcode is O.LT:
            if min(gap.terms.values()) > 0:
                self.conditions[i.result] = Held(below=((Sum(terms=gap.terms), -gap.known),))
        elif len(gap.terms) == 1:
            ((name, times),) = gap.terms.items()
            if gap.known % times == 0:
                self.conditions[i.result] = Held({name: -gap.known // times})

    def _joined(self, x: Sum, total: Sum, limit: int) -> Sum:
        """The same sum, with one variable in the place of others whose sum is below a limit."""
        names = sorted(total.terms, key=lambda n: total.terms[n])
        times = {x.terms.get(n, 0) // total.terms[n] for n in names}
        reach, told = 0, True  # whether equal sums are of equal variables
        for n in names:
            told &= total.terms[n] > reach
            reach += total.terms[n] * (self.ranges[n] - 1)
        factor = next(iter(times))
        if (
            len(names) < 2
            or not told
            or len(times) > 1
            or any(x.terms.get(n, 0) != factor * total.terms[n] for n in names)
        ):
            return x
        joined = self.variable(("sum", *total.terms.items()), max(min(limit, reach + 1), 1))
        self.parts[joined] = tuple(names)
        rest = {n: f for n, f in x.terms.items() if n not in total.terms}
        return Sum(x.known, {**rest, joined: factor} if factor else rest, x.alike)

    # What instructions give.

    def coordinate(self, i: Instruction) -> Sum | None:
        if self.program.workgroup is None:
            return Sum(terms={("coordinate", int(i.attribute or 0)): 1})
        return Sum(terms={("workgroup",): self.program.workgroup, ("thread",): 1})

    def extent(self, i: Instruction) -> Sum | None:
        size = self.grid[int(i.attribute or 0)]
        return Sum(size) if type(size) is int else Sum(alike={i.result: 1})

    def scalar(self, i: Instruction) -> Sum | None:
        number = self.numbers.get(str(i.attribute))
        return Sum(number) if type(number) is int else Sum(alike={i.result: 1})

    def product(self, i: Instruction, a: Sum, b: Sum) -> Sum | None:
        if a.terms or a.alike:
            a, b = b, a
        return None if a.terms or a.alike else Sum().plus(b, a.known)

    def divided(self, i: Instruction, a: Sum, b: Sum) -> Sum | None:
        """Quotient or remainder by a known number; of a variable by itself it is one more variable."""
        by = b.known
        if b.terms or b.alike or by <= 0 or a.alike:
            return None
        quotient = i.opcode is O.DIV
        if not a.terms:
            return Sum(math.trunc(a.known / by) if quotient else int(math.fmod(a.known, by)))
        low, high = self.bounds(a)
        if low >= 0 and high < by:
            return Sum() if quotient else a
        if len(a.terms) != 1 or a.known or [*a.terms.values()] != [1]:
            return None
        (name,) = a.terms
        self.cut.setdefault(name, set()).add(by)
        self.variable(("remainder", name, by), by)
        self.variable(("quotient", name, by), -(-self.ranges[name] // by))
        return Sum(terms={("quotient" if quotient else "remainder", name, by): 1})

    def bounds(self, x: Sum) -> tuple[int, int]:
        ends = [times * (self.ranges[name] - 1) for name, times in x.terms.items()]
        return x.known + sum(min(e, 0) for e in ends), x.known + sum(max(e, 0) for e in ends)

    def determined(self, name: Variable, seen: Collection[Variable]) -> bool:
        """Whether equal values of some variables mean equal values of this one."""
        if name in seen or self.ranges[name] == 1 or any(name in self.parts.get(n, ()) for n in seen):
            return True
        parts = ((("quotient", name, by), ("remainder", name, by)) for by in self.cut.get(name, ()))
        return any(all(self.determined(p, seen) for p in pair) for pair in parts)


def _added(a: Mapping[Any, int], b: Mapping[Any, int], times: int) -> Mapping[Any, int]:
    found = Counter(a)
    for name, n in b.items():
        found[name] += times * n
    return {name: n for name, n in found.items() if n}


_RULES: Mapping[Opcode, Any] = {
    O.CONSTANT: lambda r, i: Sum(i.attribute) if type(i.attribute) is int else None,
    O.COORDINATE: Reading.coordinate,
    O.LANE: lambda r, i: r.coordinate(i) if r.program.rank == 1 else None,
    O.WORKGROUP: lambda r, i: Sum(terms={("workgroup",): 1}),
    O.THREAD: lambda r, i: Sum(terms={("thread",): 1}),
    O.EXTENT: Reading.extent,
    O.SCALAR: Reading.scalar,
    O.CONVERT: lambda r, i, a: a,
    O.ADD: lambda r, i, a, b: a.plus(b),
    O.SUB: lambda r, i, a, b: a.plus(b, -1),
    O.NEG: lambda r, i, a: Sum().plus(a, -1),
    O.MUL: Reading.product,
    O.DIV: Reading.divided,
    O.REM: Reading.divided,
}


def _meet(reading: Reading, a: Store, b: Store) -> bool:
    """Whether one lane may store by `a` where another does by `b`."""
    if a.position is None or b.position is None:
        return True
    gap = a.position.plus(b.position, -1)
    if gap.alike:
        return True
    known = gap.known
    terms: list[
        tuple[int, int, int, str, Variable]
    ] = []  # a factor, from where to where, whose, and which variable
    alike: set[Variable] = set()  # fixed to one number in both
    for name in {*a.position.terms, *b.position.terms, *a.fixed, *b.fixed}:
        one, other = a.position.terms.get(name, 0), b.position.terms.get(name, 0)
        (low, high), (low_b, high_b) = (_range(reading, store, name) for store in (a, b))
        if low == high == low_b == high_b:
            alike.add(name)
        if one == other:  # only the distance counts
            terms.append((one, low - high_b, high - low_b, "both", name))
        else:
            terms += [(one, low, high, "a", name), (-other, low_b, high_b, "b", name)]
    terms.sort(key=lambda t: -abs(t[0]))
    try:
        for values in _solved(terms, known, _Tries()):
            found = {(t[3], t[4]): x for t, x in zip(terms, values, strict=True) if t[0] or t[1] == t[2]}
            equal = {name for (whose, name), x in found.items() if whose == "both" and x == 0}
            pairs = {name: x for (whose, name), x in found.items() if whose == "a"}
            equal |= {name for name, x in pairs.items() if found.get(("b", name)) == x}
            if not all(reading.determined(name, equal | alike) for name in reading.own):
                return True
    except _TooMany:
        return True
    return False


def _range(reading: Reading, store: Store, name: Variable) -> tuple[int, int]:
    number = store.fixed.get(name)
    return (0, reading.ranges[name] - 1) if number is None else (number, number)


class _TooMany(Exception):
    pass


class _Tries:
    count = 0

    def one(self) -> None:
        self.count += 1
        if self.count > MOST_TRIED:
            raise _TooMany


def _solved(
    terms: Sequence[tuple[int, int, int, str, Variable]], known: int, tries: _Tries
) -> Iterator[list[int]]:
    """Values of terms, the largest factors first, that make a sum with `known` of 0; a term without a factor is 0."""
    if not terms:
        if known == 0:
            yield []
        return
    (factor, low, high, _, _), rest = terms[0], terms[1:]
    if not factor:
        low = high = low if low == high else 0
    least = known + sum(min(f * x for x in (lo, hi)) for f, lo, hi, _, _ in rest)
    most = known + sum(max(f * x for x in (lo, hi)) for f, lo, hi, _, _ in rest)
    if factor:  # -most <= factor * x <= -least
        ends = sorted((-most / factor, -least / factor))
        low, high = max(low, math.ceil(ends[0] - 1e-6)), min(high, math.floor(ends[1] + 1e-6))
    for x in range(low, high + 1):
        tries.one()
        for values in _solved(rest, known + factor * x, tries):
            yield [x, *values]
