"""Value numbering: a program read into terms, every new one simplified by rules and equal ones made one.

Global value numbering by hashing (Click, "Global code motion, global value numbering", 1995): a term is looked up by
what it is made of before it is made, so common subexpressions merge wherever they stand. Loads merge between two
effects; effects never do.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from hologram.atlas import arithmetic
from hologram.atlas.opcodes import COMMUTATIVE, EFFECTS, REDUCTIONS, TERNARY, Opcode
from hologram.atlas.program import Block, Instruction, Program
from hologram.compiler.canonical.rules import Table
from hologram.compiler.canonical.term import Epoch, Region, Term, digest
from hologram.compiler.canonical.touches import KINDS, Touches, ended, touched
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType, Number

_ARGUMENT_RANK = 1000  # what a loop carries varies more than any position


def exchangeable(opcode: Opcode, operands: Sequence[Term]) -> bool:
    """Whether the first two operands may change places without changing a bit.

    The smaller of 0.0 and -0.0 is either, so float `min` and `max` may only where one side is a number other than 0.
    """
    if opcode in TERNARY:
        return True
    kind = operands[0].type.kind if operands[0].type else ""
    if opcode in (Opcode.MIN, Opcode.MAX) and kind == "float":
        return any(t.constant and t.attribute != 0 for t in operands)
    return opcode in COMMUTATIVE


def rounded(number: object, d: DType) -> Number:
    """A constant's number as its dtype holds it."""
    if d.is_float:
        return float(arithmetic.number(float(number), d))  # type: ignore[arg-type]
    return d.python(number)  # type: ignore[arg-type]


def plain_names(program: Program) -> dict[str, str]:
    """What parameters are called where names are of no consequence: b0..., s0..., m0..., l0... as declared."""
    kinds = (("b", program.buffers), ("s", program.scalars), ("m", program.shared), ("l", program.local))
    return {p.name: f"{letter}{k}" for letter, parameters in kinds for k, p in enumerate(parameters)}


class Numbering:
    """One program's terms. `root` is its body once `read` has been called."""

    def __init__(self, program: Program, rules: Table) -> None:
        self.program = program
        self.rules = rules
        self.root = Region(0)
        self._values: dict[int, Term] = {}
        self._known: list[dict[bytes, Term]] = [{}]  # by level
        self._serials = count()
        self._first_reduced = program.rank - program.reduced
        self._names = plain_names(program)
        self._shared = frozenset(s.name for s in program.shared)
        self._begun: list[Epoch] = []  # of the open region, by kind of memory
        self._region = self.root
        self._facts: dict[int, Touches] = {}

    def read(self) -> Region:
        """The program's body as terms."""
        self._begun = [Epoch(digest(kind), 0) for kind in ("memory", "shared", "local")]
        self.root.epochs.update(self._begun)
        self._block(self.program.body)
        return self.root

    # Terms, for rules.

    def make(self, opcode: Opcode, dtype: DType, *operands: Term) -> Term:
        """The simplest term that has the value of a pure instruction."""
        last = operands[-1].type
        for apply in self.rules.get((opcode, last.kind if last else ""), ()):
            term = apply(self, dtype, *operands)
            if term is not None:
                return term
        return self.plain(opcode, dtype, *operands)

    def plain(self, opcode: Opcode, dtype: DType, *operands: Term) -> Term:
        """A pure instruction as it is, but for the order of its operands."""
        if len(operands) > 1 and exchangeable(opcode, operands):
            first, second, *rest = operands
            if second.key < first.key:
                operands = (second, first, *rest)
        return self._term(opcode, dtype, operands, None)

    def constant(self, number: Number, dtype: DType) -> Term:
        """A number, which must be one of the dtype."""
        return self._term(Opcode.CONSTANT, dtype, (), number)

    def _term(
        self,
        opcode: Opcode,
        dtype: DType,
        operands: tuple[Term, ...],
        attribute: str | Number | None,
        epoch: Epoch | None = None,
    ) -> Term:
        word = attribute.hex() if isinstance(attribute, float) else attribute
        name = self._names[word] if type(word) is str and opcode is not Opcode.CONSTANT else word
        parts = [t.digest for t in operands]
        if epoch is not None:
            parts.append(epoch.digest)
        key = digest(opcode.value, dtype.name, name, *parts)
        level = max([t.level for t in operands], default=0)
        if epoch is not None:
            level = max(level, epoch.level)
        known = self._known[level]
        term = known.get(key)
        if term is None:
            term = known[key] = Term(
                opcode,
                dtype,
                operands,
                attribute,
                key,
                level,
                self._rank(opcode, operands, attribute),
                next(self._serials),
                () if epoch is None else (epoch,),
                anchored=epoch is not None or self._anchored(opcode, operands, attribute),
            )
        return term

    def _rank(self, opcode: Opcode, operands: tuple[Term, ...], attribute: object) -> int:
        if operands:
            return max(t.rank for t in operands)
        if opcode is Opcode.COORDINATE:
            return 1 + int(attribute)  # type: ignore[call-overload]
        return self.program.rank if opcode in (Opcode.LANE, Opcode.WORKGROUP, Opcode.THREAD) else 0

    def _anchored(self, opcode: Opcode, operands: tuple[Term, ...], attribute: object) -> bool:
        if opcode is Opcode.COORDINATE:
            return int(attribute) >= self._first_reduced  # type: ignore[call-overload]
        return opcode not in REDUCTIONS and any(t.anchored for t in operands)

    # Reading.

    def _block(self, block: Block) -> None:
        for instruction in block.instructions:
            self._instruction(instruction)

    def _instruction(self, i: Instruction) -> None:
        operands = tuple(self._values[v] for v in i.operands)
        opcode = i.opcode
        if opcode is Opcode.IF:
            results = self._if(i, operands[0])
        elif opcode is Opcode.LOOP:
            results = self._loop(i, operands)
        elif opcode is Opcode.WHILE:
            results = self._while(i, operands)
        elif opcode in EFFECTS:
            results = self._effect(i, operands)
        elif opcode in KINDS:
            results = (self._term(opcode, i.type, operands, i.attribute, self._begun[KINDS[opcode]]),)
        elif operands:
            results = (self.make(opcode, i.type, *operands),)
        else:
            results = (self._outside(i),)
        self._values.update(zip(i.results, results, strict=True))

    def _outside(self, i: Instruction) -> Term:
        """Positions, scalars and constants; the lane of a grid of one axis is its coordinate."""
        if i.opcode is Opcode.LANE and self._first_reduced <= 1:
            if self._first_reduced == 0:
                return self.constant(0, dtypes.index)
            return self._term(Opcode.COORDINATE, i.type, (), 0)
        if i.opcode is Opcode.CONSTANT:
            return self.constant(rounded(i.attribute, i.type), i.type)
        return self._term(i.opcode, i.type, (), i.attribute)

    def _effect(self, i: Instruction, operands: tuple[Term, ...]) -> tuple[Term, ...]:
        named = self._names[i.attribute] if isinstance(i.attribute, str) else str(i.attribute or "")
        ended_now = ended(i, self._shared)
        seen = [e.digest for e in self._begun]
        key = digest(i.opcode.value, named, self._region.path, *(t.digest for t in operands), *seen)
        dtype = i.types[0] if i.types else None
        effect = self._pinned(i.opcode, dtype, operands, i.attribute, key, ended_now)
        return (effect,) if i.results else ()

    def _pinned(
        self,
        opcode: Opcode,
        dtype: DType | None,
        operands: tuple[Term, ...],
        attribute: str | Number | None,
        key: bytes,
        ended: tuple[bool, ...],
        regions: tuple[Region, ...] = (),
    ) -> Term:
        """A term that stands where it is, among the effects of the open region."""
        region = self._region
        ends = tuple(e for e, ends in zip(self._begun, ended, strict=True) if ends)
        rank = max([self.program.rank, *(t.rank for t in operands)])
        effect = Term(
            opcode,
            dtype,
            operands,
            attribute,
            key,
            region.level,
            rank,
            next(self._serials),
            (),
            regions,
            ends,
            anchored=True,
            pinned=True,
            place=region,
        )
        region.effects.append(effect)
        self._begin(ended, key)
        return effect

    def _begin(self, ended: tuple[bool, ...], cause: bytes) -> None:
        """New epochs in the open region, for the kinds of memory that an effect changes."""
        for kind, ends in enumerate(ended):
            if ends:
                region = self._region
                key = digest("epoch", self._begun[kind].digest, cause, region.path)
                new = Epoch(key, region.level)
                self._begun[kind] = new
                self._region.epochs.add(new)

    # Structure.

    def _touches(self, block: Block) -> Touches:
        touches = self._facts.get(id(block))
        if touches is None:
            touches = self._facts[id(block)] = touched(block, self._shared)
        return touches

    def _inside(self, block: Block, region: Region) -> Region:
        """The region with the block's contents; afterwards the outer region is open again."""
        outer, begun = self._region, list(self._begun)
        region.epochs.update(begun)
        self._region = region
        self._block(block)
        region.yields = tuple(self._values[v] for v in block.yields)
        self._region, self._begun = outer, begun
        return region

    def _if(self, i: Instruction, condition: Term) -> tuple[Term, ...]:
        blocks = i.blocks
        if condition.opcode is Opcode.NOT:  # if not c: A else: B = if c: B else: A
            (condition,) = condition.operands
            blocks = blocks[::-1]
        if condition.constant:  # only one side is ever taken
            (taken, _) = blocks if condition.attribute else blocks[::-1]
            self._block(taken)
            return tuple(self._values[v] for v in taken.yields)
        level = self._region.level
        paths = [digest("side", self._region.path, k) for k in range(2)]
        regions = tuple(self._inside(b, Region(level, path)) for b, path in zip(blocks, paths, strict=True))
        results = self._structured(i, (condition,), regions)
        pairs = zip(*(r.yields for r in regions), strict=True)
        # One term on both sides is computed outside of both.
        return tuple(x if x is y else r for r, (x, y) in zip(results, pairs, strict=True))

    def _loop(self, i: Instruction, operands: tuple[Term, ...]) -> tuple[Term, ...]:
        (block,) = i.blocks
        start, stop, _, *first = operands
        if start.constant and stop.constant and start.attribute >= stop.attribute:  # type: ignore[operator]
            return tuple(first)
        # What is carried unchanged is not carried.
        same = [a == y for a, y in zip(block.arguments[1:], block.yields, strict=True)]
        changing = [k for k, fixed in enumerate(same) if not fixed]
        for k, fixed in enumerate(same):
            if fixed:
                self._values[block.arguments[1 + k]] = first[k]
        region = self._round(block, (block.arguments[0], *(block.arguments[1 + k] for k in changing)), 0)
        region.yields = tuple(region.yields[k] for k in changing)
        results = iter(self._structured(i, (*operands[:3], *(first[k] for k in changing)), (region,)))
        return tuple(f if fixed else next(results) for f, fixed in zip(first, same, strict=True))

    def _while(self, i: Instruction, operands: tuple[Term, ...]) -> tuple[Term, ...]:
        (block,) = i.blocks
        condition, *first = operands
        if condition.constant and not condition.attribute:
            return tuple(first)
        same = [a == y for a, y in zip(block.arguments, block.yields[1:], strict=True)]
        changing = [k for k, fixed in enumerate(same) if not fixed]
        for k, fixed in enumerate(same):
            if fixed:
                self._values[block.arguments[k]] = first[k]
        region = self._round(block, [block.arguments[k] for k in changing], 1)
        region.again, region.yields = region.yields[:1], tuple(region.yields[1 + k] for k in changing)
        results = iter(self._structured(i, (condition, *(first[k] for k in changing)), (region,)))
        return tuple(f if fixed else next(results) for f, fixed in zip(first, same, strict=True))

    def _round(self, block: Block, arguments: Sequence[int], number: int) -> Region:
        """A loop's body, one level further in; its arguments are counted from a number on, 0 is the counter's."""
        level = self._region.level + 1
        self._known.append({})
        types = dict(zip(block.arguments, block.argument_types, strict=True))
        terms = tuple(self._argument(level, number + k, types[a]) for k, a in enumerate(arguments))
        self._values.update(zip(arguments, terms, strict=True))
        outer = list(self._begun)
        for kind, ends in enumerate(self._touches(block).effects):
            if ends:  # what an earlier round stored
                self._begun[kind] = Epoch(digest("round", self._begun[kind].digest), level)
        path = digest("round", self._region.path)
        region = self._inside(block, Region(level, path, arguments=terms))
        self._begun = outer
        self._known.pop()
        return region

    def _argument(self, level: int, place: int, dtype: DType) -> Term:
        return Term(
            None,
            dtype,
            (),
            place,
            digest("argument", level, place, dtype.name),
            level,
            _ARGUMENT_RANK + level,
            next(self._serials),
            anchored=True,
        )

    def _structured(
        self, i: Instruction, operands: tuple[Term, ...], regions: tuple[Region, ...]
    ) -> tuple[Term, ...]:
        """The results of an `if`, `loop` or `while`; one without effects is a value like any other."""
        key = digest(i.opcode.value, *(t.digest for t in operands), *(r.digest for r in regions))
        touches = [self._touches(b) for b in i.blocks]
        if any(r.effects for r in regions):
            changed = tuple(map(any, zip(*(t.effects for t in touches), strict=True)))
            term = self._pinned(i.opcode, None, operands, None, key, changed, regions)
        else:
            free = [t for r in regions for t in _free(r, self._region.level)]
            loads = map(any, zip(*(t.loads for t in touches), strict=True))
            epochs = tuple(e for e, loaded in zip(self._begun, loads, strict=True) if loaded)
            level = max([0, *(t.level for t in (*operands, *free)), *(e.level for e in epochs)])
            if i.opcode is Opcode.WHILE:  # nobody knows that it ends where nobody asked for it
                level = self._region.level
            term = self._known[level].get(key)
            if term is None:
                rank = max([t.rank for t in (*operands, *free)], default=0)
                term = Term(
                    i.opcode,
                    None,
                    operands,
                    None,
                    key,
                    level,
                    rank,
                    next(self._serials),
                    epochs,
                    regions,
                    anchored=True,
                )
                self._known[level][key] = term
        types = [t.type for t in regions[0].yields]
        return tuple(self._result(term, k, t) for k, t in enumerate(types))

    def _result(self, term: Term, place: int, dtype: DType | None) -> Term:
        key = digest("result", term.digest, place)
        known = self._known[term.level]
        if key not in known:
            known[key] = Term(
                None, dtype, (term,), place, key, term.level, term.rank, next(self._serials), anchored=True
            )
        return known[key]


def _free(region: Region, level: int) -> list[Term]:
    """The terms of this level or an outer one that a region's yields are computed from."""
    terms: list[Term] = []
    seen: set[int] = set()
    stack = [*region.again, *region.yields]
    while stack:
        term = stack.pop()
        if term.serial in seen:
            continue
        seen.add(term.serial)
        if term.level <= level:
            terms.append(term)
            continue
        stack.extend(term.operands)
        for inner in term.regions:
            stack += [*inner.again, *inner.yields]
    return terms
