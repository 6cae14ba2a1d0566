"""Terms as a program again: each computed where it is needed, in an order that only structure decides.

Placement is Click's global code motion ("Global code motion, global value numbering", 1995): a term stands in the
innermost block around all its uses, but outside of the loops it does not depend on. Within a block, effects keep their
order and terms come in the order in which those need them. A load stands before the effects that end its epoch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hologram.atlas.opcodes import ACCESSES, LOOPS, REDUCTIONS, Opcode
from hologram.atlas.program import Block, Instruction, Program
from hologram.compiler.canonical.term import Region, Term

_BOUNDS = {Opcode.LOOP: 3, Opcode.WHILE: 1}  # operands before what is carried
Needs = Mapping[int, Sequence[Term]]  # what must be computed before a term, by serial; else its operands


def ordered(program: Program, root: Region) -> Program:
    """The program with the body that the terms of `root` make up; what no effect needs is gone."""
    live = _live(root)
    _place(root, live, whole_rows=program.reduced > 0)
    body = _Writer(live, _contents(root, live)).block(root)
    used = {str(i.attribute) for i in body.walk() if i.opcode in ACCESSES}
    shared, local = (tuple(a for a in arrays if a.name in used) for arrays in (program.shared, program.local))
    return replace(program, shared=shared, local=local, body=body)


# What is needed.


@dataclass
class _Live:
    """What the effects need."""

    terms: dict[int, Term] = field(default_factory=dict)  # by serial
    # Of structured terms, by serial and place.
    results: dict[int, dict[int, Term]] = field(default_factory=dict)

    def kept(self, term: Term) -> list[int]:
        """The places, among the values a structured term gives, of those that are needed."""
        if term.opcode in LOOPS:
            return [a.number - 1 for a in term.regions[0].arguments if a.number and a.serial in self.terms]
        return sorted(self.results.get(term.serial, ()))

    def operands(self, term: Term) -> tuple[Term, ...]:
        """Without the first values of what a loop carries to no end."""
        if term.opcode not in LOOPS:
            return term.operands
        bounds = _BOUNDS[term.opcode]
        return (*term.operands[:bounds], *(term.operands[bounds + k] for k in self.kept(term)))

    def inside(self, term: Term) -> list[Term]:
        """What the blocks of a structured term need and do."""
        kept = self.kept(term)
        return [t for r in term.regions for t in (*r.effects, *r.again, *(r.yields[k] for k in kept))]


def _live(root: Region) -> _Live:
    """A value that a loop carries for itself alone is not needed."""
    live = _Live()
    loops: dict[int, Term] = {}  # by the serial of their arguments
    wanted = list(root.effects)

    def carry(loop: Term, k: int) -> None:
        (region,) = loop.regions
        loops.update((a.serial, loop) for a in region.arguments)
        own = next(a for a in region.arguments if a.number == k + 1)
        wanted.extend((loop, loop.operands[_BOUNDS[loop.opcode] + k], region.yields[k], own))  # type: ignore[index]

    while wanted:
        term = wanted.pop()
        if term.serial in live.terms:
            continue
        live.terms[term.serial] = term
        if term.opcode is None and term.operands:
            (owner,) = term.operands
            live.results.setdefault(owner.serial, {})[term.number] = term
            if owner.opcode in LOOPS:
                carry(owner, term.number)
            else:
                wanted += [owner, *(r.yields[term.number] for r in owner.regions)]
        elif term.opcode is None and term.number:
            carry(loops[term.serial], term.number - 1)
        elif term.opcode in LOOPS:
            (region,) = term.regions
            loops.update((a.serial, term) for a in region.arguments)
            wanted += [*term.operands[: _BOUNDS[term.opcode]], *region.again, *region.effects]
        else:
            wanted += [*term.operands, *(e for r in term.regions for e in r.effects)]
    return live


# Where it stands.


def _common(a: Region | None, b: Region) -> Region:
    """The innermost region around both."""
    if a is None:
        return b
    while a is not b:
        if a.depth >= b.depth:
            a, b = b, a
        assert b.parent is not None
        b = b.parent
    return a


def _place(root: Region, live: _Live, *, whole_rows: bool) -> None:
    """Gives every live term its place; uses are placed before what they use.

    What is the same for a whole row must not be computed for each of its elements, so it stands outside of branches.
    """
    for serial in sorted(live.terms, reverse=True):
        term = live.terms[serial]
        place = term.place
        if place is None:
            continue  # an argument
        if not term.pinned:
            if term.opcode in REDUCTIONS or (whole_rows and not term.anchored and term.level == 0):
                place = root
            while place.level > term.level or any(e not in place.epochs for e in term.epochs):
                assert place.parent is not None
                place = place.parent
            term.place = place
        kept = live.kept(term) if term.regions else ()
        for region in term.regions:
            region.parent, region.depth = place, place.depth + 1
            for needed in (*region.again, *(region.yields[k] for k in kept)):
                _use(needed, region)
        for operand in live.operands(term):
            _use(operand, place)


def _use(term: Term, place: Region) -> None:
    if not term.pinned and (term.opcode is not None or term.operands):
        term.place = _common(term.place, place)


# In which order.


def _postorder(roots: Sequence[Term], needs: Needs) -> Iterator[Term]:
    """Every term after what it needs."""
    seen: set[int] = set()
    stack: list[tuple[Term | None, Iterator[Term]]] = [(None, iter(roots))]
    while stack:
        term, rest = stack[-1]
        for need in rest:
            if need.serial not in seen:
                seen.add(need.serial)
                stack.append((need, iter(needs.get(need.serial, need.operands))))
                break
        else:
            stack.pop()
            if term is not None:
                yield term


def _contents(root: Region, live: _Live) -> dict[int, list[Term]]:
    """The terms of each region, by its identity, in order."""
    structured = [t for t in live.terms.values() if t.regions]
    needs: dict[int, Sequence[Term]] = {t.serial: (*live.operands(t), *live.inside(t)) for t in structured}
    waiting: dict[tuple[int, int], list[Term]] = {}  # by region and epoch
    for term in _postorder(root.effects, needs):
        if not term.pinned:
            for epoch in term.epochs:
                waiting.setdefault((id(term.place), id(epoch)), []).append(term)
    for term in live.terms.values():
        first = [t for e in term.ends for t in waiting.get((id(term.place), id(e)), ())]
        if first:
            needs[term.serial] = (*live.operands(term), *first, *live.inside(term))
    contents: dict[int, list[Term]] = {}
    for term in _postorder(root.effects, needs):
        if term.opcode is not None:
            contents.setdefault(id(term.place), []).append(term)
    return contents


# As instructions.


class _Writer:
    """Numbers values in the order of the text."""

    def __init__(self, live: _Live, contents: Mapping[int, Sequence[Term]]) -> None:
        self.live = live
        self.contents = contents
        self.numbers: dict[int, int] = {}

    def number(self, term: Term) -> int:
        self.numbers[term.serial] = value = len(self.numbers)
        return value

    def block(self, region: Region, kept: Sequence[int] = ()) -> Block:
        arguments = [a for a in region.arguments if not a.number or a.number - 1 in kept]
        numbers = tuple(self.number(a) for a in arguments)
        instructions = tuple(self.instruction(t) for t in self.contents.get(id(region), ()))
        needed = (*region.again, *(region.yields[k] for k in kept))
        yields = tuple(self.numbers[t.serial] for t in needed)
        types = tuple(a.type for a in arguments if a.type is not None)
        return Block(instructions, numbers, types, yields)

    def instruction(self, term: Term) -> Instruction:
        assert term.opcode is not None
        operands = tuple(self.numbers[o.serial] for o in self.live.operands(term))
        if not term.regions:
            results = (self.number(term),) if term.type is not None else ()
            types = () if term.type is None else (term.type,)
            return Instruction(term.opcode, results, types, operands, term.attribute)
        kept = self.live.kept(term)
        blocks = tuple(self.block(r, kept) for r in term.regions)
        given = self.live.results.get(term.serial, {})
        numbers = []
        for k in kept:
            if k in given:
                numbers.append(self.number(given[k]))
            else:  # carried, but not needed afterwards
                self.numbers[-1 - len(self.numbers)] = value = len(self.numbers)
                numbers.append(value)
        types = tuple(t for t in (term.regions[0].yields[k].type for k in kept) if t is not None)
        return Instruction(term.opcode, tuple(numbers), types, operands, None, blocks)
